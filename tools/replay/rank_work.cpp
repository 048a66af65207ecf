// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include "replay/cause_finder.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr float no_work = std::numeric_limits<float>::quiet_NaN();

bool is_local(const JobModel& model, const StepGraph& graph, std::size_t node) {
    return !model.keys[graph.keys[node]].is_comm;
}

/// Work of the two largest phases at one place of a step of a rank.
struct PairedWork {
    std::uint32_t rank;
    std::uint32_t step;
    std::uint32_t seq;
    double first_ms = 0;
    double second_ms = 0;
};

class Correlation {
  public:
    Correlation(std::span<const StepGraph> graphs, const JobModel& model) : graphs_(graphs), model_(model) {}

    double find() {
        if (!find_phases()) return 0;
        collect();
        constexpr std::size_t fewest = 30;
        if (pairs_.size() < fewest) return 0;
        std::vector<double> first;
        std::vector<double> second;
        for (const PairedWork& pair : pairs_) {
            first.push_back(std::log(std::max(pair.first_ms, 1e-6)));
            second.push_back(std::log(std::max(pair.second_ms, 1e-6)));
        }
        remove_means(first);
        remove_means(second);
        return std::max(squared(first, second), squared(sums(first), sums(second)));
    }

  private:
    bool find_phases() {
        std::map<std::uint16_t, double> totals_ms;
        double all_ms = 0;
        for (const StepGraph& graph : graphs_)
            for (std::size_t node = 0; node < graph.size(); ++node)
                if (is_local(model_, graph, node)) {
                    const auto own_ms = static_cast<double>(graph.own_ms[node]);
                    totals_ms[model_.keys[graph.keys[node]].name] += own_ms;
                    all_ms += own_ms;
                }
        std::vector<std::pair<double, std::uint16_t>> largest;
        for (const auto& [name, ms] : totals_ms)
            if (ms > 0.1 * all_ms) largest.emplace_back(-ms, name);
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
        for (std::size_t i = 0; i < graphs_.size(); i += step_stride)
            collect(graphs_[i], rank_stride > 2 ? rank_stride : 1);
    }

    void collect(const StepGraph& graph, std::size_t rank_stride) {
        std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<double, double>> works;
        for (std::size_t node = 0; node < graph.size(); ++node) {
            const NodeKey& key = model_.keys[graph.keys[node]];
            if (key.is_comm || (key.name != first_ && key.name != second_) || graph.weights[node] != Weight::observed ||
                graph.ranks[node] % rank_stride != 0)
                continue;
            auto& work = works[{graph.ranks[node], key.seq}];
            (key.name == first_ ? work.first : work.second) += static_cast<double>(graph.own_ms[node]);
        }
        for (const auto& [at, work] : works)
            if (work.first > 0 && work.second > 0)
                pairs_.push_back({at.first, graph.step, at.second, work.first, work.second});
    }

    template <typename KeyOf>
    void remove_mean(std::vector<double>& values, KeyOf key_of) const {
        std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<double, double>> means;
        for (std::size_t i = 0; i < values.size(); ++i) {
            auto& [sum, count] = means[key_of(pairs_[i])];
            sum += values[i];
            ++count;
        }
        for (std::size_t i = 0; i < values.size(); ++i) {
            const auto& [sum, count] = means[key_of(pairs_[i])];
            values[i] -= sum / count;
        }
    }

    void remove_means(std::vector<double>& values) const {
        const auto role = [this](const PairedWork& pair) { return model_.roles.of_rank[pair.rank]; };
        constexpr int passes = 3;
        for (int i = 0; i < passes; ++i) {
            remove_mean(values, [](const PairedWork& pair) { return std::pair(pair.rank, 0U); });
            remove_mean(values, [&](const PairedWork& pair) { return std::pair(role(pair), pair.step); });
            remove_mean(values, [&](const PairedWork& pair) { return std::pair(role(pair), pair.seq); });
        }
    }

    /// Over the places of a step of a rank.
    [[nodiscard]] std::vector<double> sums(const std::vector<double>& values) const {
        std::map<std::pair<std::uint32_t, std::uint32_t>, double> of_step;
        for (std::size_t i = 0; i < values.size(); ++i) of_step[{pairs_[i].rank, pairs_[i].step}] += values[i];
        std::vector<double> all;
        for (const auto& [at, sum] : of_step) all.push_back(sum);
        return all;
    }

    // 0 for a negative correlation.
    [[nodiscard]] static double squared(const std::vector<double>& a, const std::vector<double>& b) {
        constexpr std::size_t fewest = 6;
        if (a.size() < fewest) return 0;
        double aa = 0;
        double bb = 0;
        double ab = 0;
        for (std::size_t i = 0; i < a.size(); ++i) {
            aa += a[i] * a[i];
            bb += b[i] * b[i];
            ab += a[i] * b[i];
        }
        return ab > 0 && aa > 0 && bb > 0 ? ab * ab / (aa * bb) : 0;
    }

    std::span<const StepGraph> graphs_;
    const JobModel& model_;
    std::uint16_t first_ = 0;
    std::uint16_t second_ = 0;
    std::vector<PairedWork> pairs_;
};

/// The variance between ranks against that from step to step.
double variance_ratio(const std::vector<float>& differences, std::size_t ranks) {
    double within = 0;
    double degrees = 0;
    std::vector<std::pair<double, double>> means;  // and counts
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        double sum = 0;
        double squares = 0;
        double count = 0;
        for (std::size_t i = rank; i < differences.size(); i += ranks) {
            if (std::isnan(differences[i])) continue;
            const auto value = static_cast<double>(differences[i]);
            sum += value;
            squares += value * value;
            ++count;
        }
        if (count < 2) continue;
        means.emplace_back(sum / count, count);
        within += squares - sum * sum / count;
        degrees += count - 1;
    }
    if (means.size() < 2) return 0;
    double sum = 0;
    double count = 0;
    for (const auto& [mean, of] : means) {
        sum += mean * of;
        count += of;
    }
    double between = 0;
    for (const auto& [mean, of] : means) between += of * (mean - sum / count) * (mean - sum / count);
    between /= static_cast<double>(means.size() - 1);
    return within > 0 ? between / (within / degrees) : between > 0 ? INFINITY : 0;
}

}  // namespace

// The normal approximation of F of many degrees of freedom.
bool ranks_persist(std::span<const StepGraph> graphs, const JobModel& model) {
    constexpr double least_deviations = 4.5;
    const std::size_t ranks = model.rows->ranks().size();
    std::vector<float> work_ms(ranks * graphs.size(), no_work);
    std::vector<std::vector<double>> of_role(model.roles.count());
    for (std::size_t i = 0; i < graphs.size(); ++i) {
        const auto of_step = std::span(work_ms).subspan(i * ranks, ranks);
        for (std::size_t node = 0; node < graphs[i].size(); ++node) {
            if (!is_local(model, graphs[i], node)) continue;
            float& work = of_step[graphs[i].ranks[node]];
            work = (std::isnan(work) ? 0 : work) + graphs[i].own_ms[node];
        }
        for (std::vector<double>& values : of_role) values.clear();
        for (std::size_t rank = 0; rank < ranks; ++rank)
            if (!std::isnan(of_step[rank]))
                of_role[model.roles.of_rank[rank]].push_back(static_cast<double>(of_step[rank]));
        std::vector<float> medians;
        for (const std::vector<double>& values : of_role)
            medians.push_back(values.empty() ? 0 : static_cast<float>(median_of(values)));
        for (std::size_t rank = 0; rank < ranks; ++rank) of_step[rank] -= medians[model.roles.of_rank[rank]];
    }
    const double ratio = variance_ratio(work_ms, ranks);
    return (ratio - 1) * std::sqrt((static_cast<double>(ranks) - 1) / 2) > least_deviations;
}

double data_correlation(std::span<const StepGraph> graphs, const JobModel& model) {
    return Correlation(graphs, model).find();
}

}  // namespace cep::tool
