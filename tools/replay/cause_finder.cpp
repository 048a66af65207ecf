// SPDX-License-Identifier: Apache-2.0
#include "replay/cause_finder.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>

#include "replay/peer_work.hpp"
#include "replay/special_causes.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr double slowest_share = 0.03;  // of the ranks
constexpr double most_of_it = 0.8;      // of what is lost to transfers: slow links are all there is to say of them

class CauseFinder {
  public:
    CauseFinder(std::span<const StepGraph> graphs, const JobModel& model, const TypicalWork& typical,
                const Replayer& replayer, Replay& replay, std::vector<Finding>& findings)
        : graphs_(graphs),
          model_(model),
          typical_(typical),
          replayer_(replayer),
          peers_(model),
          result_(replay),
          findings_(findings),
          ranks_(model.rows->ranks().size()) {}

    void find() {
        std::copy_if(findings_.begin(), findings_.end(), std::back_inserter(slow_), is_of_slow_ranks);
        std::erase_if(findings_, is_of_slow_ranks);
        find_excess();
        find_role_medians();
        find_levels();
        result_.stages_are_inferred = model_.roles.are_inferred;
        result_.stages = model_.roles.count();
        result_.ranks_a_stage = ranks_;
        for (const std::vector<std::uint32_t>& members : model_.roles.members)
            result_.ranks_a_stage = std::min(result_.ranks_a_stage, members.size());
        if (loss_ms_ > 0) {
            find_slowest();
            find_slowest_stage();
        }
        const double link_saving_ms = add_links();
        if (link_saving_ms < most_of_it * comm_saving_ms_) add_communication();
        add_loader();
        add_routing();
        add_micro_batches();
        add_stage();
        if (result_.is_usable()) price_slow_ranks();
        findings_.insert(findings_.begin(), slow_.begin(), slow_.end());
    }

  private:
    [[nodiscard]] bool is_comm(std::uint32_t key) const { return model_.keys[key].is_comm; }
    [[nodiscard]] std::uint32_t role_of(std::uint32_t key) const { return model_.keys[key].role; }

    /// Other durations of communication, and of local work: functions of the observed duration, the key and the rank.
    template <typename Comm, typename Local>
    [[nodiscard]] Scenario scenario(Comm comm, Local local) const {
        return {[this, comm, local](const StepGraph& graph, std::span<float> own_ms) {
            for (std::size_t node = 0; node < own_ms.size(); ++node) {
                const std::uint32_t key = graph.keys[node];
                own_ms[node] = is_comm(key) ? comm(own_ms[node], key) : local(own_ms[node], key, graph.ranks[node]);
            }
        }};
    }
    static float keep_comm(float own_ms, std::uint32_t /*key*/) { return own_ms; }
    static float keep_local(float own_ms, std::uint32_t /*key*/, std::uint32_t /*rank*/) { return own_ms; }

    // What a rank can cost at most, and by how much it exceeds its role.
    void find_excess() {
        over_all_ms_.assign(ranks_, 0);
        for (const StepGraph& graph : graphs_)
            for (std::size_t node = 0; node < graph.size(); ++node) {
                const std::uint32_t key = graph.keys[node];
                if (is_comm(key)) {
                    comm_excess_ms_[model_.keys[key].name] +=
                        static_cast<double>(std::max(0.0F, graph.own_ms[node] - typical_.of_all(key)));
                    continue;
                }
                const std::uint32_t rank = graph.ranks[node];
                over_all_ms_[rank] += static_cast<double>(std::max(0.0F, graph.own_ms[node] - typical_.of_all(key)));
                local_ms_[model_.keys[key].name] += static_cast<double>(graph.own_ms[node]);
            }
    }

    // If no rank is slow, they differ by chance, which is part of what varies within them. What few do is no chance.
    [[nodiscard]] float usual_ms(std::uint32_t key, std::uint32_t rank) const {
        return !slow_.empty() || model_.is_of_few(key) ? typical_.of_rank(key, rank) : typical_.of_role(key);
    }

    // A slow rank among them does not make a role slow, nor does what few of them do.
    void find_role_medians() {
        role_medians_ms_.assign(model_.keys.size(), 0);
        std::map<decltype(NodeKey().place()), std::pair<double, double>> means;
        for (std::uint32_t key = 0; key < model_.keys.size(); ++key) {
            if (is_comm(key) || model_.is_of_few(key)) continue;
            std::vector<double> of_rank;
            for (const std::uint32_t rank : model_.roles.members[role_of(key)])
                of_rank.push_back(static_cast<double>(typical_.of_rank(key, rank)));
            if (of_rank.empty()) continue;
            role_medians_ms_[key] = static_cast<float>(median_of(of_rank));
            auto& [sum, count] = means[model_.keys[key].place()];
            sum += static_cast<double>(role_medians_ms_[key]) * static_cast<double>(of_rank.size());
            count += static_cast<double>(of_rank.size());
        }
        even_ms_ = role_medians_ms_;
        for (std::uint32_t key = 0; key < model_.keys.size(); ++key)
            if (const auto found = means.find(model_.keys[key].place()); found != means.end())
                even_ms_[key] = static_cast<float>(found->second.first / found->second.second);
    }

    void find_levels() {
        const auto all = [this](float, std::uint32_t key) { return typical_.of_all(key); };
        const auto by_rank = [this](float, std::uint32_t key, std::uint32_t rank) {
            return typical_.of_rank(key, rank);
        };
        const auto by_role = [this](float, std::uint32_t key, std::uint32_t) { return typical_.of_role(key); };
        const auto within = [this](float, std::uint32_t key, std::uint32_t rank) { return usual_ms(key, rank); };
        const auto by_all = [this](float, std::uint32_t key, std::uint32_t) { return typical_.of_all(key); };
        const auto even_stages = [this](float own_ms, std::uint32_t key, std::uint32_t) {
            const float median_ms = role_medians_ms_[key];
            return median_ms > 0 ? own_ms * (even_ms_[key] / median_ms) : own_ms;
        };
        const auto no_time = [](float, std::uint32_t) { return 0.0F; };
        const std::vector<Scenario> scenarios = {
            scenario(keep_comm, keep_local),  scenario(all, keep_local),    scenario(all, by_rank),
            scenario(all, by_role),           scenario(all, by_all),        scenario(keep_comm, within),
            scenario(keep_comm, even_stages), scenario(no_time, keep_local)};
        const std::vector<double> means_ms = replayer_.mean_steps_ms(scenarios);
        as_it_was_ms_ = means_ms[0];
        result_.ideal_ms = means_ms[4];
        result_.slowdown = means_ms[4] > 0 ? means_ms[0] / means_ms[4] : 1;
        loss_ms_ = means_ms[0] - means_ms[4];
        within_saving_ms_ = as_it_was_ms_ - means_ms[5];
        stage_saving_ms_ = as_it_was_ms_ - means_ms[6];
        comm_saving_ms_ = as_it_was_ms_ - means_ms[1];
        result_.unseen_ms = as_it_was_ms_ - means_ms[7];
        if (!(loss_ms_ > 0)) return;
        result_.shares = {(means_ms[0] - means_ms[1]) / loss_ms_, (means_ms[1] - means_ms[2]) / loss_ms_,
                          (means_ms[2] - means_ms[3]) / loss_ms_, (means_ms[3] - means_ms[4]) / loss_ms_};
    }

    /// What was observed, but typical work of these ranks; or typical work, but what was observed of these.
    [[nodiscard]] Scenario with_typical(std::vector<bool> chosen, bool of_chosen) const {
        return {[this, chosen = std::move(chosen), of_chosen](const StepGraph& graph, std::span<float> own_ms) {
            for (std::size_t node = 0; node < own_ms.size(); ++node) {
                const bool is_local = !is_comm(graph.keys[node]);
                const bool is_chosen = is_local && chosen[graph.ranks[node]];
                if (is_chosen == of_chosen) own_ms[node] = typical_.of_all(graph.keys[node]);
            }
        }};
    }
    [[nodiscard]] std::vector<bool> chosen(std::span<const std::uint32_t> ranks) const {
        std::vector<bool> is_chosen(ranks_);
        for (const std::uint32_t rank : ranks) is_chosen[rank] = true;
        return is_chosen;
    }
    [[nodiscard]] static std::vector<std::uint32_t> most_first(const std::vector<double>& excess_ms) {
        std::vector<std::uint32_t> order(excess_ms.size());
        std::iota(order.begin(), order.end(), 0U);
        std::stable_sort(order.begin(), order.end(),
                         [&](std::uint32_t a, std::uint32_t b) { return excess_ms[a] > excess_ms[b]; });
        return order;
    }

    // M_W. The excess bounds what a rank can cost, so that only the first have to be replayed one by one.
    void find_slowest() {
        constexpr std::size_t most_replayed = 16;
        std::vector<std::uint32_t> order = most_first(over_all_ms_);
        const auto wanted = static_cast<std::size_t>(std::ceil(slowest_share * static_cast<double>(ranks_) - 1e-9));
        if (wanted < most_replayed) {
            order.resize(std::min(order.size(), most_replayed));
            std::vector<Scenario> scenarios;
            for (const std::uint32_t rank : order)
                scenarios.push_back(with_typical(chosen(std::span(&rank, 1)), false));
            const std::vector<double> alone_ms = replayer_.mean_steps_ms(scenarios);
            std::vector<std::pair<double, std::uint32_t>> slowest;
            for (std::size_t i = 0; i < order.size(); ++i) slowest.emplace_back(-alone_ms[i], order[i]);
            std::sort(slowest.begin(), slowest.end());
            for (std::size_t i = 0; i < order.size(); ++i) order[i] = slowest[i].second;
        }
        order.resize(std::min(order.size(), std::max<std::size_t>(1, wanted)));
        result_.slowest_ranks_share =
            (as_it_was_ms_ - replayer_.mean_step_ms(with_typical(chosen(order), true))) / loss_ms_;
    }

    // M_S.
    void find_slowest_stage() {
        constexpr std::size_t most_stages = 16;
        if (model_.roles.count() < 2) return;
        std::vector<double> excess_ms(model_.roles.count());
        for (std::uint32_t rank = 0; rank < ranks_; ++rank) excess_ms[model_.roles.of_rank[rank]] += over_all_ms_[rank];
        std::vector<std::uint32_t> order = most_first(excess_ms);
        order.resize(std::min(order.size(), most_stages));
        std::vector<Scenario> scenarios;
        for (const std::uint32_t role : order)
            scenarios.push_back(with_typical(chosen(model_.roles.members[role]), true));
        const std::vector<double> without_ms = replayer_.mean_steps_ms(scenarios);
        const double least_ms = *std::min_element(without_ms.begin(), without_ms.end());
        result_.slowest_stage_share = (as_it_was_ms_ - least_ms) / loss_ms_;
    }

    /// nullptr if it costs too little.
    Finding* add(const Finding& what, double saving_ms, double loss_share) {
        if (!(saving_ms > Replay::least_cost * as_it_was_ms_)) return nullptr;
        Finding& finding = findings_.emplace_back(what);
        finding.cost_share = saving_ms / as_it_was_ms_;
        finding.loss_share = loss_share;
        return &finding;
    }

    [[nodiscard]] std::string largest_phase(const std::map<std::uint16_t, double>& sums_ms) const {
        const auto largest = std::max_element(sums_ms.begin(), sums_ms.end(),
                                              [](const auto& a, const auto& b) { return a.second < b.second; });
        if (largest == sums_ms.end() || !(largest->second > 0)) return "";
        return std::string(model_.rows->names()[largest->first].name);
    }

    [[nodiscard]] double saving_ms(const Scenario& scenario) const {
        return as_it_was_ms_ - replayer_.mean_step_ms(scenario);
    }
    [[nodiscard]] double share_of(double saving_ms) const {
        return loss_ms_ > 0 ? std::min(1.0, saving_ms / loss_ms_) : 0;
    }

    double add_links() {
        const std::optional<SpecialCause> links = find_slow_links(graphs_, model_);
        if (!links) return 0;
        const double saved_ms = saving_ms(links->without);
        return add(links->finding, saved_ms, share_of(saved_ms)) != nullptr ? saved_ms : 0;
    }

    void add_loader() {
        const std::optional<SpecialCause> waits = find_loader_waits(graphs_, model_);
        if (waits) add(waits->finding, saving_ms(waits->without), 0);
    }

    void add_routing() {
        const std::optional<SpecialCause> routing = find_routed_work(graphs_, model_, is_routed_);
        if (routing) spreads_evenly_ = add_special(*routing);
    }

    bool add_pauses() {
        const std::optional<SpecialCause> pauses = find_pauses(graphs_, model_);
        return pauses && add_special(*pauses);
    }

    bool add_special(const SpecialCause& special) {
        const double saved_ms = saving_ms(special.without);
        return add(special.finding, saved_ms, share_of(saved_ms)) != nullptr;
    }

    /// Whether what these exceed their peers by is work that was sent to them.
    [[nodiscard]] bool are_routed(const std::vector<std::uint32_t>& ranks) const {
        if (!spreads_evenly_) return false;
        const std::vector<bool> is_chosen = chosen(ranks);
        double all_ms = 0;
        double routed_ms = 0;
        for (const StepGraph& graph : graphs_)
            for (std::size_t node = 0; node < graph.size(); ++node) {
                const std::uint32_t key = graph.keys[node];
                if (is_comm(key) || !is_chosen[graph.ranks[node]]) continue;
                const auto over_ms = static_cast<double>(graph.own_ms[node] - typical_.of_role(key));
                all_ms += over_ms;
                if (is_routed_[key]) routed_ms += over_ms;
            }
        return routed_ms > most_of_it * all_ms;
    }

    void add_communication() {
        if (Finding* cause = add({.kind = FindingKind::communication}, comm_saving_ms_, result_.shares.communication))
            cause->phase = largest_phase(comm_excess_ms_);
    }

    // Work that depends on the data makes forward and backward of a micro-batch longer; jitter does not.
    void add_micro_batches() {
        constexpr double least_correlation = 0.5;  // r²
        if (!(within_saving_ms_ > Replay::least_cost * as_it_was_ms_)) return;
        const bool is_data = data_correlation(graphs_, model_, typical_) >= least_correlation;
        if (!is_data && add_pauses()) return;
        const double share = result_.shares.within_ranks + (slow_.empty() ? result_.shares.ranks : 0);
        if (Finding* cause =
                add({.kind = is_data ? FindingKind::micro_batches : FindingKind::jitter}, within_saving_ms_, share))
            cause->phase = is_data ? largest_phase(local_ms_) : most_varying_phase();
    }

    // The phase without whose variation steps would take the least time. Of the largest one, small noise adds up to
    // more than long pauses do that are rare.
    [[nodiscard]] std::string most_varying_phase() const {
        constexpr std::size_t most_replayed = 4;
        std::map<std::uint16_t, double> excess_ms;
        for (const StepGraph& graph : graphs_)
            for (std::size_t node = 0; node < graph.size(); ++node)
                if (const std::uint32_t key = graph.keys[node]; !is_comm(key))
                    excess_ms[model_.keys[key].name] +=
                        static_cast<double>(std::max(0.0F, graph.own_ms[node] - usual_ms(key, graph.ranks[node])));
        std::map<std::uint16_t, double> savings_ms;
        std::vector<std::uint16_t> names;
        std::vector<Scenario> scenarios;
        for (std::size_t i = std::min(most_replayed, excess_ms.size()); i > 0; --i) {
            const auto most = std::max_element(excess_ms.begin(), excess_ms.end(),
                                               [](const auto& a, const auto& b) { return a.second < b.second; });
            const std::uint16_t name = most->first;
            scenarios.push_back(scenario(keep_comm, [this, name](float own_ms, std::uint32_t key, std::uint32_t rank) {
                return model_.keys[key].name == name ? usual_ms(key, rank) : own_ms;
            }));
            names.push_back(name);
            excess_ms.erase(most);
        }
        const std::vector<double> without_ms = replayer_.mean_steps_ms(scenarios);
        for (std::size_t i = 0; i < names.size(); ++i) savings_ms[names[i]] = as_it_was_ms_ - without_ms[i];
        return largest_phase(savings_ms);
    }

    void add_stage() {
        if (model_.roles.count() < 2 || !model_.roles.are_stages) return;
        Finding* const cause = add({.kind = FindingKind::stage}, stage_saving_ms_, result_.shares.stages);
        if (cause == nullptr) return;
        std::vector<double> excess_ms(model_.roles.count());
        std::vector<std::map<std::uint16_t, double>> by_phase(model_.roles.count());
        for (const StepGraph& graph : graphs_)
            for (const std::uint32_t key : graph.keys) {
                if (is_comm(key)) continue;
                const auto over_ms = static_cast<double>(role_medians_ms_[key] - even_ms_[key]);
                excess_ms[role_of(key)] += over_ms;
                by_phase[role_of(key)][model_.keys[key].name] += over_ms;
            }
        for (std::size_t role = 0; role < excess_ms.size(); ++role)
            excess_ms[role] /= static_cast<double>(model_.roles.members[role].size());
        const auto role =
            static_cast<std::uint32_t>(std::max_element(excess_ms.begin(), excess_ms.end()) - excess_ms.begin());
        cause->stage = model_.roles.stages[role];
        cause->phase = largest_phase(by_phase[role]);
        for (const std::uint32_t rank : model_.roles.members[role])
            cause->ranks.push_back(model_.rows->ranks()[rank].rank);
    }

    // What each costs alone, and all that cost enough together.
    void price_slow_ranks() {
        constexpr std::size_t most_suspects = 64;
        drop_loaded();
        if (slow_.empty() || !(as_it_was_ms_ > 0)) return;
        std::vector<Scenario> scenarios = {{keep_work}, without_all_but(nullptr)};
        for (std::size_t i = 0; i < std::min(most_suspects, slow_.size()); ++i)
            scenarios.push_back(without_all_but(&slow_[i]));
        const std::vector<std::vector<double>> ends_ms = replayer_.step_ends_ms(scenarios);
        const double all_ms = ends_ms[0].back();
        const bool sees_all = sees_waiting(1 - ends_ms[1].back() / all_ms);
        for (std::size_t i = 2; i < ends_ms.size(); ++i) {
            Finding& one = slow_[i - 2];
            one.is_bound = !sees_all && one.keeps_waiting && one.is_costly && one.phase != uncovered_name;
            if (one.is_bound) continue;
            one.cost_share = (ends_ms[i].back() - ends_ms[1].back()) / all_ms;
            one.is_costly = *one.cost_share >= Replay::least_cost;
        }
        for (std::size_t i = 0; i < graphs_.size(); ++i) {
            const auto cost_of = [&](std::size_t until) { return ends_ms[0][until] - ends_ms[1][until]; };
            result_.costs_ms.emplace_back(model_.rows->steps()[graphs_[i].step],
                                          cost_of(i) - (i == 0 ? 0 : cost_of(i - 1)));
        }
        // What the replay does not need to take as long as was observed is waiting.
        std::erase_if(slow_, [](const Finding& one) { return one.phase == uncovered_name && !one.is_costly; });
        add_slow_ranks();
    }

    // The replay knows what is in the way of what. But where ranks wait inside of their work and no row shows it, it
    // takes that for work, and says too little of what all slow ranks cost.
    [[nodiscard]] bool sees_waiting(double share_of_all) const {
        constexpr double least_agreement = 0.5;
        if (!result_.holds() || (result_.stages > 1 && !result_.stages_are_inferred)) return true;
        double most = 0;
        for (const Finding& one : slow_)
            if (one.keeps_waiting && one.is_costly && one.phase != uncovered_name)
                most = std::max(most, one.cost_share.value_or(0));
        return share_of_all >= least_agreement * most;
    }

    static void keep_work(const StepGraph& /*graph*/, std::span<float> /*own_ms*/) {}

    [[nodiscard]] std::vector<std::uint32_t> places_of(const Finding& finding) const {
        std::vector<std::uint32_t> places;
        for (std::uint32_t i = 0; i < ranks_; ++i)
            if (std::binary_search(finding.ranks.begin(), finding.ranks.end(), model_.rows->ranks()[i].rank))
                places.push_back(i);
        return places;
    }

    template <typename Use>
    [[nodiscard]] Scenario without_those(Use use) const {
        std::vector<bool> is_slow(ranks_);
        std::vector<bool> prompt(ranks_);
        for (const Finding& one : slow_)
            if (use(one))
                for (const std::uint32_t place : places_of(one)) {
                    is_slow[place] = true;
                    if (one.phase == uncovered_name) prompt[place] = true;
                }
        std::vector<std::uint32_t> places;
        for (std::uint32_t place = 0; place < ranks_; ++place)
            if (is_slow[place]) places.push_back(place);
        return peers_.without(places, std::move(prompt));
    }
    [[nodiscard]] Scenario without_all_but(const Finding* kept) const {
        return without_those([kept](const Finding& one) { return &one != kept; });
    }

    void add_slow_ranks() {
        Finding all{.kind = FindingKind::ranks};
        for (const Finding& one : slow_)
            if (one.is_costly) all.ranks.insert(all.ranks.end(), one.ranks.begin(), one.ranks.end());
        if (all.ranks.empty()) return;
        std::sort(all.ranks.begin(), all.ranks.end());
        const double saved_ms = saving_ms(without_those([](const Finding& one) { return one.is_costly; }));
        result_.saving = saved_ms / as_it_was_ms_;
        if (std::any_of(slow_.begin(), slow_.end(), [](const Finding& one) { return one.is_bound; })) return;
        describe(all, places_of(all));
        add(all, saved_ms, result_.shares.ranks);
    }

    // Those that are not slow, but have more of the work that is to be spread evenly: routed work, or that of a stage
    // all of whose ranks are slow.
    void drop_loaded() {
        std::vector<bool> is_slow(ranks_);
        for (const Finding& one : slow_)
            for (const std::uint32_t place : places_of(one)) is_slow[place] = true;
        const bool has_stage = std::any_of(findings_.begin(), findings_.end(),
                                           [](const Finding& one) { return one.kind == FindingKind::stage; });
        const auto is_of_stage = [&](std::uint32_t place) {
            const std::vector<std::uint32_t>& members = model_.roles.members[model_.roles.of_rank[place]];
            return std::all_of(members.begin(), members.end(), [&](std::uint32_t rank) { return is_slow[rank]; });
        };
        const std::size_t dropped = std::erase_if(slow_, [&](const Finding& one) {
            const std::vector<std::uint32_t> places = places_of(one);
            return are_routed(places) || (has_stage && std::all_of(places.begin(), places.end(), is_of_stage));
        });
        result_.any_loaded = dropped > 0;
    }

    void describe(Finding& cause, const std::vector<std::uint32_t>& ranks) const {
        const std::vector<bool> is_slow = chosen(ranks);
        std::map<std::uint16_t, double> excess_ms;
        for (const StepGraph& graph : graphs_)
            for (std::size_t node = 0; node < graph.size(); ++node)
                if (!is_comm(graph.keys[node]) && is_slow[graph.ranks[node]])
                    excess_ms[model_.keys[graph.keys[node]].name] +=
                        static_cast<double>(graph.own_ms[node] - typical_.of_role(graph.keys[node]));
        cause.phase = largest_phase(excess_ms);
        if (ranks.size() > 1 && are_one_host(ranks)) cause.kind = FindingKind::host;
        const PlacedRank& first = model_.rows->ranks()[ranks.front()];
        if (cause.kind == FindingKind::host || ranks.size() == 1) cause.hosts = {model_.rows->hosts()[first.host]};
        if (ranks.size() == 1 && model_.roles.count() > 1)
            cause.stage = model_.roles.stages[model_.roles.of_rank[ranks[0]]];
    }

    [[nodiscard]] bool are_one_host(const std::vector<std::uint32_t>& ranks) const {
        constexpr double most_of_host = 0.75;
        const PlacedRank& first = model_.rows->ranks()[ranks.front()];
        std::size_t of_host = 0;
        for (const PlacedRank& rank : model_.rows->ranks()) of_host += rank.host == first.host;
        for (const std::uint32_t rank : ranks)
            if (model_.rows->ranks()[rank].host != first.host) return false;
        return first.host_is_known && of_host < ranks_ &&
               static_cast<double>(ranks.size()) >= most_of_host * static_cast<double>(of_host);
    }

    std::span<const StepGraph> graphs_;
    const JobModel& model_;
    const TypicalWork& typical_;
    const Replayer& replayer_;
    const PeerWork peers_;
    Replay& result_;
    std::vector<Finding>& findings_;
    const std::size_t ranks_;
    std::vector<Finding> slow_;        // stragglers and groups
    std::vector<double> over_all_ms_;  // by rank
    std::map<std::uint16_t, double> local_ms_;
    std::map<std::uint16_t, double> comm_excess_ms_;
    std::vector<float> role_medians_ms_;  // by key: over the means of ranks
    std::vector<float> even_ms_;          // by key: the mean of these over stages
    const std::vector<bool> is_routed_ = find_routed_keys(model_);
    bool spreads_evenly_ = false;  // a cause is that routed work is not
    double as_it_was_ms_ = 0;
    double loss_ms_ = 0;
    double within_saving_ms_ = 0;
    double stage_saving_ms_ = 0;
    double comm_saving_ms_ = 0;
};

}  // namespace

void find_causes(std::span<const StepGraph> graphs, const JobModel& model, const TypicalWork& typical,
                 const Replayer& replayer, Replay& replay, std::vector<Finding>& findings) {
    CauseFinder(graphs, model, typical, replayer, replay, findings).find();
}

}  // namespace cep::tool
