// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include <fmt/core.h>

#include "base/units.hpp"
#include "replay/chosen_work.hpp"
#include "replay/special_causes.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t least_groups = 3;        // to know which transfers are usual
constexpr std::uint32_t least_members = 3;     // of two ranks, the shorter one may wait as well
constexpr std::size_t least_transfers = 8;     // as steps for a pattern
constexpr double least_ratio = 1.25;           // of a slow transfer: links of healthy jobs differ by some per cent
constexpr double link_spread_multiple = 5;     // of the robust deviation over groups
constexpr double most_slow_groups = 0.5;       // of all
constexpr std::size_t most_transfers = 1'000;  // of a group that are looked at

class LinkSearch {
  public:
    explicit LinkSearch(const JobReplay& steps) : graphs_(steps.graphs()), model_(steps.model()) {}

    std::optional<SpecialCause> find() {
        find_transfers();
        auto usual_ms = std::make_shared<std::vector<float>>(transfers_.size(), std::numeric_limits<float>::infinity());
        Finding slow{.kind = FindingKind::link};
        std::vector<bool> is_slow(transfers_.size());
        std::size_t others = 0;
        double most_lost_ms = 0;
        for (const auto& [alike, groups] : alike_) {
            const std::vector<Group> found = find_slow(groups);
            double lost_ms = 0;
            for (const Group& group : found) {
                is_slow[group.number] = true;
                (*usual_ms)[group.number] = static_cast<float>(usual_ms_);
                lost_ms = std::max(lost_ms, group.transfer_ms - usual_ms_);
            }
            if (lost_ms <= most_lost_ms) continue;
            most_lost_ms = lost_ms;
            slow.phase = model_.rows->names()[std::get<0>(alike)].name;
            slow.usual_ms = usual_ms_;
            slow.slow_ms = usual_ms_ + lost_ms;
            others = groups.size() - found.size();
        }
        if (!(most_lost_ms > 0)) return std::nullopt;
        add_members(is_slow, slow);
        const DurationFormat duration(*slow.usual_ms, *slow.slow_ms);
        const std::string link = "the link of " + name_of(slow.ranks, slow.hosts);
        slow.text = {fmt::format("{} is slow: {} takes {} there, {} in {}", link, slow.phase, duration(*slow.slow_ms),
                                 duration(*slow.usual_ms), format_plural(others, "other group")),
                     "as fast as theirs", link,
                     "compare the links of these ranks with those of other groups: errors and speed (ibstat, ethtool, "
                     "nvidia-smi nvlink -e), and the transports in NCCL_DEBUG=INFO"};
        return SpecialCause{std::move(slow),
                            with_work([&model = model_, usual_ms](const StepGraph& graph, std::size_t node) {
                                const std::uint32_t number = model.collective_of(graph.keys[node], graph.ranks[node]);
                                return number < usual_ms->size() ? std::min(graph.own_ms[node], (*usual_ms)[number])
                                                                 : graph.own_ms[node];
                            })};
    }

  private:
    using Alike = std::tuple<std::uint16_t, std::uint32_t, std::uint32_t, std::uint32_t>;  // name, seq, role, size

    struct Group {
        std::uint32_t number = 0;  // of the collective, see CollectiveSlots
        double transfer_ms = 0;
    };

    void find_transfers() {
        std::vector<bool> is_known;  // by number of the collective
        transfers_ = choose_work(graphs_, most_transfers, [&](const StepGraph& graph, std::size_t node) {
            const std::uint32_t number = model_.collective_of(graph.keys[node], graph.ranks[node]);
            if (number == no_index || model_.collectives.size_of(number) < least_members) return no_index;
            if (is_known.size() <= number) is_known.resize(number + 1);
            if (is_known[number]) return number;
            const NodeKey& key = model_.keys[graph.keys[node]];
            alike_[{key.name, key.seq, key.role, model_.collectives.size_of(number)}].push_back(number);
            is_known[number] = true;
            return number;
        });
    }

    /// Sets usual_ms_.
    std::vector<Group> find_slow(const std::vector<std::uint32_t>& numbers) {
        std::vector<Group> groups;
        std::vector<double> all_ms;
        for (const std::uint32_t number : numbers) {
            const std::vector<double>& transfers_ms = transfers_[number];
            if (transfers_ms.size() < least_transfers) continue;
            groups.push_back({number, median_of(transfers_ms)});
            all_ms.push_back(groups.back().transfer_ms);
        }
        if (groups.size() < least_groups) return {};
        usual_ms_ = median_of(all_ms);
        const double limit_ms =
            std::max(least_ratio * usual_ms_, usual_ms_ + link_spread_multiple * robust_deviation(all_ms)) +
            model_.tolerance_ms;
        std::erase_if(groups, [limit_ms](const Group& group) { return group.transfer_ms < limit_ms; });
        if (static_cast<double>(groups.size()) >= most_slow_groups * static_cast<double>(all_ms.size())) return {};
        return groups;
    }

    /// The ranks, and their host if they are all on one.
    void add_members(const std::vector<bool>& is_slow, Finding& cause) const {
        std::vector<std::uint32_t> hosts;
        for (std::uint32_t rank = 0; rank < model_.rows->ranks().size(); ++rank) {
            const std::size_t slots = model_.templates[model_.roles.of_rank[rank]].slots.size();
            for (std::uint32_t slot = 0; slot < slots; ++slot) {
                const std::uint32_t number = model_.collectives.collective(rank, slot);
                if (number >= is_slow.size() || !is_slow[number]) continue;
                const JobRank& rank_of_job = model_.rows->ranks()[rank];
                cause.ranks.push_back(rank_of_job.rank);
                hosts.push_back(rank_of_job.host);
                break;
            }
        }
        if (!hosts.empty() &&
            std::all_of(hosts.begin(), hosts.end(), [&](std::uint32_t host) { return host == hosts.front(); }))
            cause.hosts = {model_.rows->hosts()[hosts.front()]};
    }

    std::span<const StepGraph> graphs_;
    const JobModel& model_;
    std::vector<std::vector<double>> transfers_;         // by number of the collective
    std::map<Alike, std::vector<std::uint32_t>> alike_;  // numbers of collectives that are compared
    double usual_ms_ = 0;
};

}  // namespace

std::optional<SpecialCause> find_slow_links(const JobReplay& steps) {
    return LinkSearch(steps).find();
}

}  // namespace cep::tool
