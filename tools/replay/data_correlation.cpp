// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "base/hash.hpp"
#include "replay/special_causes.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr double large_phase = 0.1;  // of the local work: smaller phases show nothing of the data

/// Work relative to the role's, of the segments that were recorded.
struct RelativeWork {
    double own_ms = 0;
    double usual_ms = 0;

    [[nodiscard]] double ratio() const { return usual_ms > 0 ? own_ms / usual_ms : 0; }
};

/// Work of the two largest phases at one position in a step of a rank: the logarithms of what they are relative to
/// usual.
struct PairedWork {
    std::uint32_t rank;
    std::uint32_t step;
    std::uint32_t seq;
    double first = 0;
    double second = 0;
};

class Correlation {
  public:
    Correlation(const JobReplay& steps, const std::vector<bool>& is_slow)
        : steps_(steps), graphs_(steps.graphs()), model_(steps.model()), is_slow_(is_slow) {}

    double find() {
        if (!find_phases()) return 0;
        collect();
        constexpr std::size_t fewest = 30;
        if (pairs_.size() < fewest) return 0;
        const auto role = [this](const PairedWork& pair) { return model_.roles.of_rank[pair.rank]; };
        remove_means([](const PairedWork& pair) { return std::pair(pair.rank, 0U); });
        remove_means([&](const PairedWork& pair) { return std::pair(role(pair), pair.step); });
        remove_means([&](const PairedWork& pair) { return std::pair(role(pair), pair.seq); });
        return squared();
    }

  private:
    bool find_phases() {
        const PhaseSums totals_ms =
            steps_.sum_by_phase([](const StepGraph& graph, std::size_t node) { return graph.own_ms[node]; });
        const double all_ms = std::accumulate(totals_ms.begin(), totals_ms.end(), 0.0);
        std::vector<std::pair<double, std::uint16_t>> largest;
        for (std::uint16_t name = 0; name < totals_ms.size(); ++name)
            if (totals_ms[name] > large_phase * all_ms) largest.emplace_back(-totals_ms[name], name);
        std::sort(largest.begin(), largest.end());
        if (largest.size() < 2) return false;
        first_ = largest[0].second;
        second_ = largest[1].second;
        return true;
    }

    void collect() {
        constexpr std::size_t most_pairs = 100'000;
        std::size_t nodes = 0;
        for (const StepGraph& graph : graphs_) nodes += graph.size();
        const std::size_t stride = nodes / most_pairs + 1;
        const std::size_t step_stride = std::min(stride, std::max<std::size_t>(1, graphs_.size() / 30));
        const std::size_t rank_stride = stride / step_stride + 1;
        const std::size_t chosen = (graphs_.size() + step_stride - 1) / step_stride;
        for (std::size_t i = 0; i < chosen; ++i)
            collect(graphs_[index_in_segment(i, chosen, graphs_.size())], rank_stride > 2 ? rank_stride : 1);
    }

    void collect(const StepGraph& graph, std::size_t rank_stride) {
        std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<RelativeWork, RelativeWork>> works;
        for (std::size_t node = 0; node < graph.size(); ++node) {
            const NodeKey& key = model_.keys[graph.keys[node]];
            if (key.is_comm || (key.name != first_ && key.name != second_) || graph.weights[node] != Weight::observed ||
                graph.ranks[node] % rank_stride != 0 || is_slow_[graph.ranks[node]])
                continue;
            auto& [first, second] = works[{graph.ranks[node], key.seq}];
            RelativeWork& work = key.name == first_ ? first : second;
            work.own_ms += static_cast<double>(graph.own_ms[node]);
            work.usual_ms += static_cast<double>(steps_.typical().of_role(graph.keys[node]));
        }
        for (const auto& [at, work] : works)
            if (work.first.ratio() > 0 && work.second.ratio() > 0)
                pairs_.push_back(
                    {at.first, graph.step, at.second, std::log(work.first.ratio()), std::log(work.second.ratio())});
    }

    template <typename KeyOf>
    void remove_means(KeyOf key_of) {
        std::map<std::pair<std::uint32_t, std::uint32_t>, std::array<double, 3>> sums;  // of both, and how many
        for (const PairedWork& pair : pairs_) {
            auto& [first, second, count] = sums[key_of(pair)];
            first += pair.first;
            second += pair.second;
            ++count;
        }
        for (PairedWork& pair : pairs_) {
            const auto& [first, second, count] = sums[key_of(pair)];
            pair.first -= first / count;
            pair.second -= second / count;
        }
    }

    // 0 for a negative correlation.
    [[nodiscard]] double squared() const {
        double aa = 0;
        double bb = 0;
        double ab = 0;
        for (const PairedWork& pair : pairs_) {
            aa += pair.first * pair.first;
            bb += pair.second * pair.second;
            ab += pair.first * pair.second;
        }
        return ab > 0 && aa > 0 && bb > 0 ? ab * ab / (aa * bb) : 0;
    }

    const JobReplay& steps_;
    std::span<const StepGraph> graphs_;
    const JobModel& model_;
    const std::vector<bool>& is_slow_;
    std::uint16_t first_ = 0;
    std::uint16_t second_ = 0;
    std::vector<PairedWork> pairs_;
};

}  // namespace

double data_correlation(const JobReplay& steps, const std::vector<bool>& is_slow) {
    return Correlation(steps, is_slow).find();
}

}  // namespace cep::tool
