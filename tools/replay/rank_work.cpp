// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include "base/hash.hpp"
#include "replay/cause_finder.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr float no_work = std::numeric_limits<float>::quiet_NaN();
constexpr double large_phase = 0.1;  // of the local work: smaller phases show nothing of the data

bool is_local(const JobModel& model, const StepGraph& graph, std::size_t node) {
    return !model.keys[graph.keys[node]].is_comm;
}

/// Work relative to the role's, of the parts that were recorded.
struct RelativeWork {
    double own_ms = 0;
    double usual_ms = 0;

    [[nodiscard]] double ratio() const { return usual_ms > 0 ? own_ms / usual_ms : 0; }
};

/// Work of the two largest phases at one place of a step of a rank.
struct PairedWork {
    std::uint32_t rank;
    std::uint32_t step;
    std::uint32_t seq;
    double first = 0;
    double second = 0;
};

class Correlation {
  public:
    Correlation(std::span<const StepGraph> graphs, const JobModel& model, const TypicalWork& typical)
        : graphs_(graphs), model_(model), typical_(typical) {}

    double find() {
        if (!find_phases()) return 0;
        collect();
        constexpr std::size_t fewest = 30;
        if (pairs_.size() < fewest) return 0;
        std::vector<double> first;
        std::vector<double> second;
        for (const PairedWork& pair : pairs_) {
            first.push_back(std::log(pair.first));
            second.push_back(std::log(pair.second));
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
            if (ms > large_phase * all_ms) largest.emplace_back(-ms, name);
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
        const std::size_t parts = (graphs_.size() + step_stride - 1) / step_stride;
        for (std::size_t i = 0; i < parts; ++i)
            collect(graphs_[place_in_part(i, parts, graphs_.size())], rank_stride > 2 ? rank_stride : 1);
    }

    void collect(const StepGraph& graph, std::size_t rank_stride) {
        std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<RelativeWork, RelativeWork>> works;
        for (std::size_t node = 0; node < graph.size(); ++node) {
            const NodeKey& key = model_.keys[graph.keys[node]];
            if (key.is_comm || (key.name != first_ && key.name != second_) || graph.weights[node] != Weight::observed ||
                graph.ranks[node] % rank_stride != 0)
                continue;
            auto& [first, second] = works[{graph.ranks[node], key.seq}];
            RelativeWork& work = key.name == first_ ? first : second;
            work.own_ms += static_cast<double>(graph.own_ms[node]);
            work.usual_ms += static_cast<double>(typical_.of_role(graph.keys[node]));
        }
        for (const auto& [at, work] : works)
            if (work.first.ratio() > 0 && work.second.ratio() > 0)
                pairs_.push_back({at.first, graph.step, at.second, work.first.ratio(), work.second.ratio()});
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
    const TypicalWork& typical_;
    std::uint16_t first_ = 0;
    std::uint16_t second_ = 0;
    std::vector<PairedWork> pairs_;
};

/// Differences of the work of a rank from its role's, by step.
class RankDifferences {
  public:
    RankDifferences(std::vector<float> values, std::size_t ranks) : values_(std::move(values)), ranks_(ranks) {
        for (std::size_t rank = 0; rank < ranks_; ++rank) enter(rank);
    }

    /// By how many standard deviations the variance between ranks exceeds what their steps explain: F of many degrees
    /// of freedom, by its normal approximation.
    [[nodiscard]] double excess() const {
        if (means_.size() < 2 || degrees_ <= 0) return 0;
        double sum = 0;
        double count = 0;
        for (const auto& [mean, of] : means_) {
            sum += mean * of;
            count += of;
        }
        double between = 0;
        for (const auto& [mean, of] : means_) between += of * (mean - sum / count) * (mean - sum / count);
        between /= static_cast<double>(means_.size() - 1);
        const double within = within_ / degrees_ * widening();
        if (!(within > 0)) return between > 0 ? INFINITY : 0;
        return (between / within - 1) * std::sqrt((independent_ranks() - 1) / 2);
    }

  private:
    void enter(std::size_t rank) {
        double sum = 0;
        double squares = 0;
        double count = 0;
        for (std::size_t i = rank; i < values_.size(); i += ranks_) {
            if (std::isnan(values_[i])) continue;
            const auto value = static_cast<double>(values_[i]);
            sum += value;
            squares += value * value;
            ++count;
        }
        if (count < 2) return;
        means_.emplace_back(sum / count, count);
        within_ += squares - sum * sum / count;
        degrees_ += count - 1;
        for (std::size_t i = rank; i < values_.size(); i += ranks_) values_[i] -= static_cast<float>(sum / count);
        double neighbours = 0;
        for (std::size_t i = rank + ranks_; i < values_.size(); i += ranks_)
            if (!std::isnan(values_[i]) && !std::isnan(values_[i - ranks_]))
                neighbours += static_cast<double>(values_[i]) * static_cast<double>(values_[i - ranks_]);
        const double variance = squares - sum * sum / count;
        if (variance > 0) correlations_.push_back(neighbours / variance);
    }

    /// Of the variance of a mean, as neighbouring steps are alike.
    [[nodiscard]] double widening() const {
        const double correlation = correlations_.empty() ? 0 : std::clamp(median_of(correlations_), 0.0, 0.95);
        return (1 + correlation) / (1 - correlation);
    }

    // Ranks that share their data differ together. n² / the sum of squared correlations, less what chance adds to it.
    [[nodiscard]] double independent_ranks() const {
        constexpr std::size_t most_ranks = 128;
        const std::size_t stride = ranks_ / most_ranks + 1;
        const std::size_t steps = values_.size() / ranks_;
        double squares = 0;
        double ranks = 0;
        for (std::size_t a = 0; a < ranks_; a += stride, ++ranks)
            for (std::size_t b = 0; b < ranks_; b += stride) squares += squared_correlation(a, b);
        const double by_chance = ranks * (ranks - 1) / static_cast<double>(std::max<std::size_t>(2, steps) - 1);
        const double independent = ranks * ranks / std::max(ranks, squares - by_chance);
        return std::max(2.0, independent * static_cast<double>(ranks_) / ranks);
    }

    [[nodiscard]] double squared_correlation(std::size_t a, std::size_t b) const {
        constexpr std::size_t most_steps = 256;
        double aa = 0;
        double bb = 0;
        double ab = 0;
        const std::size_t last = std::min(values_.size(), most_steps * ranks_);
        for (std::size_t i = 0; i + ranks_ <= last; i += ranks_) {
            const auto x = static_cast<double>(values_[i + a]);
            const auto y = static_cast<double>(values_[i + b]);
            if (std::isnan(x) || std::isnan(y)) continue;
            aa += x * x;
            bb += y * y;
            ab += x * y;
        }
        return aa > 0 && bb > 0 ? ab * ab / (aa * bb) : a == b ? 1 : 0;
    }

    std::vector<float> values_;  // by step and rank; without their means
    const std::size_t ranks_;
    std::vector<std::pair<double, double>> means_;  // and counts
    std::vector<double> correlations_;              // of neighbouring steps
    double within_ = 0;
    double degrees_ = 0;
};

}  // namespace

// Relative to what the role takes for the same pieces, as some may be lost.
bool ranks_persist(std::span<const StepGraph> graphs, const JobModel& model, const TypicalWork& typical) {
    constexpr double least_deviations = 4.5;
    const std::size_t ranks = model.rows->ranks().size();
    std::vector<float> differences(ranks * graphs.size(), no_work);
    std::vector<double> own_ms(ranks);
    std::vector<double> usual_ms(ranks);
    std::vector<std::vector<double>> of_role(model.roles.count());
    for (std::size_t i = 0; i < graphs.size(); ++i) {
        std::fill(own_ms.begin(), own_ms.end(), 0);
        std::fill(usual_ms.begin(), usual_ms.end(), 0);
        for (std::size_t node = 0; node < graphs[i].size(); ++node) {
            if (!is_local(model, graphs[i], node) || graphs[i].weights[node] != Weight::observed) continue;
            own_ms[graphs[i].ranks[node]] += static_cast<double>(graphs[i].own_ms[node]);
            usual_ms[graphs[i].ranks[node]] += static_cast<double>(typical.of_role(graphs[i].keys[node]));
        }
        const auto of_step = std::span(differences).subspan(i * ranks, ranks);
        for (std::vector<double>& values : of_role) values.clear();
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            if (!(usual_ms[rank] > 0)) continue;
            of_step[rank] = static_cast<float>(own_ms[rank] / usual_ms[rank]);
            of_role[model.roles.of_rank[rank]].push_back(own_ms[rank] / usual_ms[rank]);
        }
        std::vector<float> medians;
        for (const std::vector<double>& values : of_role)
            medians.push_back(values.empty() ? 0 : static_cast<float>(median_of(values)));
        for (std::size_t rank = 0; rank < ranks; ++rank) of_step[rank] -= medians[model.roles.of_rank[rank]];
    }
    return RankDifferences(std::move(differences), ranks).excess() > least_deviations;
}

double data_correlation(std::span<const StepGraph> graphs, const JobModel& model, const TypicalWork& typical) {
    return Correlation(graphs, model, typical).find();
}

}  // namespace cep::tool
