// SPDX-License-Identifier: Apache-2.0
#include "replay/cause_finder.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

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
                const Replayer& replayer, Replay& replay)
        : graphs_(graphs),
          model_(model),
          typical_(typical),
          replayer_(replayer),
          peers_(model),
          result_(replay),
          ranks_(model.rows->ranks().size()) {}

    void find() {
        find_excess();
        find_role_medians();
        result_.ranks_persist = ranks_persist(graphs_, model_, typical_);
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
        add_ranks();
        price_suspects();
        std::stable_sort(result_.causes.begin(), result_.causes.end(),
                         [](const Cause& a, const Cause& b) { return a.cost_ms > b.cost_ms; });
    }

  private:
    [[nodiscard]] bool is_comm(std::uint32_t key) const { return model_.keys[key].is_comm; }
    [[nodiscard]] std::uint32_t role_of(std::uint32_t key) const { return model_.keys[key].role; }

    /// Other durations of communication, and of local work: functions of the observed duration, the key and the rank.
    template <typename Comm, typename Local>
    [[nodiscard]] Scenario scenario(Comm comm, Local local) const {
        return [this, comm, local](const StepGraph& graph, std::span<float> own_ms) {
            for (std::size_t node = 0; node < own_ms.size(); ++node) {
                const std::uint32_t key = graph.keys[node];
                own_ms[node] = is_comm(key) ? comm(own_ms[node], key) : local(own_ms[node], key, graph.ranks[node]);
            }
        };
    }
    static float keep_comm(float own_ms, std::uint32_t /*key*/) { return own_ms; }
    static float keep_local(float own_ms, std::uint32_t /*key*/, std::uint32_t /*rank*/) { return own_ms; }

    // What a rank can cost at most, and by how much it exceeds its role.
    void find_excess() {
        over_all_ms_.assign(ranks_, 0);
        over_role_ms_.assign(ranks_, 0);
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
                over_role_ms_[rank] += static_cast<double>(std::max(0.0F, graph.own_ms[node] - typical_.of_role(key)));
                local_ms_[model_.keys[key].name] += static_cast<double>(graph.own_ms[node]);
            }
    }

    // If ranks differ by chance only, that is part of what varies within them. What few ranks do is no chance.
    [[nodiscard]] float usual_ms(std::uint32_t key, std::uint32_t rank) const {
        return result_.ranks_persist || model_.is_of_few(key) ? typical_.of_rank(key, rank) : typical_.of_role(key);
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
        return [this, chosen = std::move(chosen), of_chosen](const StepGraph& graph, std::span<float> own_ms) {
            for (std::size_t node = 0; node < own_ms.size(); ++node) {
                const bool is_local = !is_comm(graph.keys[node]);
                const bool is_chosen = is_local && chosen[graph.ranks[node]];
                if (is_chosen == of_chosen) own_ms[node] = typical_.of_all(graph.keys[node]);
            }
        };
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
    Cause* add(const Cause& what, double saving_ms, double share) {
        if (!(saving_ms > Replay::least_cost * as_it_was_ms_)) return nullptr;
        Cause& cause = result_.causes.emplace_back(what);
        cause.cost_ms = saving_ms * result_.observed_ms / as_it_was_ms_;
        cause.slowdown = as_it_was_ms_ / (as_it_was_ms_ - saving_ms);
        cause.share = share;
        return &cause;
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
        return add(links->cause, saved_ms, share_of(saved_ms)) != nullptr ? saved_ms : 0;
    }

    void add_loader() {
        const std::optional<SpecialCause> waits = find_loader_waits(graphs_, model_);
        if (waits) add(waits->cause, saving_ms(waits->without), 0);
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
        return add(special.cause, saved_ms, share_of(saved_ms)) != nullptr;
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

    [[nodiscard]] bool are_stage(const std::vector<std::uint32_t>& ranks) const {
        std::vector<std::size_t> others;
        for (const std::vector<std::uint32_t>& members : model_.roles.members) others.push_back(members.size());
        for (const std::uint32_t rank : ranks) --others[model_.roles.of_rank[rank]];
        return model_.roles.are_stages && model_.roles.count() > 1 &&
               std::all_of(ranks.begin(), ranks.end(),
                           [&](std::uint32_t rank) { return others[model_.roles.of_rank[rank]] == 0; });
    }

    void add_communication() {
        if (Cause* cause = add({.kind = CauseKind::communication}, comm_saving_ms_, result_.shares.communication))
            cause->phase = largest_phase(comm_excess_ms_);
    }

    // Work that depends on the data makes forward and backward of a micro-batch longer; jitter does not.
    void add_micro_batches() {
        constexpr double least_correlation = 0.5;  // r²
        if (!(within_saving_ms_ > Replay::least_cost * as_it_was_ms_)) return;
        const bool is_data = data_correlation(graphs_, model_, typical_) >= least_correlation;
        if (!is_data && add_pauses()) return;
        const double share = result_.shares.within_ranks + (result_.ranks_persist ? 0 : result_.shares.ranks);
        if (Cause* cause =
                add({.kind = is_data ? CauseKind::micro_batches : CauseKind::jitter}, within_saving_ms_, share))
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
        Cause* const cause = add({.kind = CauseKind::stage}, stage_saving_ms_, result_.shares.stages);
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

    // The fewest ranks that cost nearly as much as many do.
    void add_ranks() {
        constexpr double nearly_all = 0.8;
        if (!result_.ranks_persist) return;
        const std::vector<std::vector<std::uint32_t>> sets = peers_.suspect_sets(most_first(over_role_ms_));
        if (sets.empty()) return;
        std::vector<Scenario> scenarios;
        for (const std::vector<std::uint32_t>& set : sets) scenarios.push_back(peers_.without(set));
        const std::vector<double> without_ms = replayer_.mean_steps_ms(scenarios);
        const double most_ms = as_it_was_ms_ - *std::min_element(without_ms.begin(), without_ms.end());
        for (std::size_t i = 0; i < sets.size(); ++i) {
            const double saving_ms = as_it_was_ms_ - without_ms[i];
            if (saving_ms < nearly_all * most_ms) continue;
            if (are_routed(sets[i])) return;
            if (Cause* cause = add({.kind = CauseKind::ranks}, saving_ms, result_.shares.ranks))
                describe(*cause, sets[i]);
            return;
        }
    }

    void price_suspects() {
        if (result_.suspects.empty() || !(as_it_was_ms_ > 0)) return;
        std::set<std::int64_t> all;
        for (const Suspects& suspects : result_.suspects) all.insert(suspects.ranks.begin(), suspects.ranks.end());
        std::vector<Scenario> scenarios = {peers_.without(places_of(all))};
        for (const Suspects& suspects : result_.suspects) {
            std::set<std::int64_t> others = all;
            for (const std::int64_t rank : suspects.ranks) others.erase(rank);
            scenarios.push_back(peers_.without(places_of(others)));
        }
        const std::vector<double> without_ms = replayer_.mean_steps_ms(scenarios);
        std::set<std::int64_t> costly;
        for (std::size_t i = 1; i < without_ms.size(); ++i) {
            Suspects& suspects = result_.suspects[i - 1];
            suspects.are_stage = are_stage(places_of({suspects.ranks.begin(), suspects.ranks.end()}));
            suspects.are_routed = are_routed(places_of({suspects.ranks.begin(), suspects.ranks.end()}));
            suspects.saving = (without_ms[i] - without_ms[0]) / as_it_was_ms_;
            if (suspects.are_stragglers || suspects.saving >= Replay::least_cost)
                costly.insert(suspects.ranks.begin(), suspects.ranks.end());
        }
        const bool are_all = costly.size() == all.size();
        const double best_ms = are_all ? without_ms[0] : replayer_.mean_step_ms(peers_.without(places_of(costly)));
        result_.suspects_saving = 1 - best_ms / as_it_was_ms_;
    }

    [[nodiscard]] std::vector<std::uint32_t> places_of(const std::set<std::int64_t>& ranks) const {
        std::vector<std::uint32_t> places;
        for (std::uint32_t i = 0; i < ranks_; ++i)
            if (ranks.contains(model_.rows->ranks()[i].rank)) places.push_back(i);
        return places;
    }

    void describe(Cause& cause, std::vector<std::uint32_t> ranks) const {
        const std::vector<bool> is_slow = chosen(ranks);
        std::map<std::uint16_t, double> excess_ms;
        for (const StepGraph& graph : graphs_)
            for (std::size_t node = 0; node < graph.size(); ++node)
                if (!is_comm(graph.keys[node]) && is_slow[graph.ranks[node]])
                    excess_ms[model_.keys[graph.keys[node]].name] +=
                        static_cast<double>(graph.own_ms[node] - typical_.of_role(graph.keys[node]));
        cause.phase = largest_phase(excess_ms);
        std::sort(ranks.begin(), ranks.end());
        for (const std::uint32_t rank : ranks) cause.ranks.push_back(model_.rows->ranks()[rank].rank);
        if (cause.ranks.size() > 1 && are_one_host(ranks)) cause.kind = CauseKind::host;
        const PlacedRank& first = model_.rows->ranks()[ranks.front()];
        if (cause.kind == CauseKind::host || ranks.size() == 1) cause.host = model_.rows->hosts()[first.host];
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
    const std::size_t ranks_;
    std::vector<double> over_all_ms_;   // by rank
    std::vector<double> over_role_ms_;  // by rank
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
                 const Replayer& replayer, Replay& replay) {
    CauseFinder(graphs, model, typical, replayer, replay).find();
}

}  // namespace cep::tool
