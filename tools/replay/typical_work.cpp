// SPDX-License-Identifier: Apache-2.0
#include "replay/typical_work.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "replay/chosen_work.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t least_values = 8;  // of a group's collective, to know how long it takes there
constexpr std::size_t most_values = 5'000;

/// Steps that do not count have weight 0. Here they weigh next to nothing: work that only they have gets a mean too.
double weight_of(const StepGraph& graph) {
    constexpr double next_to_nothing = 1e-9;
    return std::max(graph.weight, next_to_nothing);
}

using PhaseSegment = std::tuple<bool, std::uint16_t, std::uint32_t>;

PhaseSegment segment_of(const NodeKey& key) {
    return {key.is_comm, key.name, key.segment};
}

}  // namespace

TypicalWork::TypicalWork(std::span<StepGraph> graphs, const JobModel& model) : model_(model) {
    std::vector<Mean> by_key(model.keys.size());
    for (const StepGraph& graph : graphs)
        for (std::size_t node = 0; node < graph.size(); ++node)
            if (graph.weights[node] == Weight::observed)
                by_key[graph.keys[node]].add(static_cast<double>(graph.own_ms[node]));
    constexpr std::size_t most_means = 16'000'000;
    find_classes(by_key, true);
    if (classes_ * model.rows->ranks().size() > most_means) find_classes(by_key, false);
    find_means(graphs);
    find_comm_medians(graphs);
    complete(graphs);
}

// A stage is not a position in the step: within each role, positions explain over half of the variance, or they do not.
void TypicalWork::find_classes(const std::vector<Mean>& by_key, bool by_position) {
    struct Variance {
        double within = 0;
        double total = 0;
    };
    std::map<PhaseSegment, Variance> variances;
    std::map<std::pair<PhaseSegment, std::uint32_t>, Mean> by_role;
    for (std::size_t i = 0; i < by_key.size(); ++i) {
        variances[segment_of(model_.keys[i])].within += by_key[i].within();
        by_role[{segment_of(model_.keys[i]), model_.keys[i].role}].add(by_key[i]);
    }
    for (const auto& [of, mean] : by_role) variances[of.first].total += mean.within();
    std::map<std::pair<PhaseSegment, std::uint32_t>, std::uint32_t> classes;
    class_of_.resize(by_key.size());
    for (std::size_t i = 0; i < by_key.size(); ++i) {
        const PhaseSegment segment = segment_of(model_.keys[i]);
        const Variance& variance = variances[segment];
        const bool by_seq = by_position && variance.within < 0.5 * variance.total;
        class_of_[i] = classes.try_emplace({segment, by_seq ? model_.keys[i].seq : 0}, classes.size()).first->second;
    }
    classes_ = classes.size();
}

void TypicalWork::find_means(std::span<const StepGraph> graphs) {
    const std::size_t ranks = model_.rows->ranks().size();
    struct Sum {
        double ms = 0;
        double count = 0;
    };
    std::vector<Sum> of_rank(ranks * classes_);
    for (const StepGraph& graph : graphs)
        for (std::size_t node = 0; node < graph.size(); ++node) {
            if (graph.weights[node] != Weight::observed || model_.keys[graph.keys[node]].is_comm) continue;
            Sum& sum = of_rank[graph.ranks[node] * classes_ + class_of_[graph.keys[node]]];
            sum.ms += weight_of(graph) * static_cast<double>(graph.own_ms[node]);
            sum.count += weight_of(graph);
        }
    std::vector<Mean> of_class(classes_);
    std::vector<Mean> of_role(model_.roles.count() * classes_);
    const std::vector<double> idle = count_idle_ranks(graphs);
    for (std::uint32_t key = 0; key < idle.size(); ++key) {
        if (idle[key] == 0) continue;
        of_class[class_of_[key]].count += idle[key];
        of_role[role_index(key)].count += idle[key];
    }
    for (std::size_t rank = 0; rank < ranks; ++rank)
        for (std::size_t i = 0; i < classes_; ++i) {
            const Sum& sum = of_rank[rank * classes_ + i];
            const Mean mean{sum.ms, 0, sum.count};
            of_class[i].add(mean);
            of_role[model_.roles.of_rank[rank] * classes_ + i].add(mean);
        }
    if (of_class_.empty()) of_class_.resize(classes_);
    of_role_.resize(of_role.size());
    of_rank_.resize(of_rank.size());
    for (std::size_t i = 0; i < classes_; ++i)
        if (of_class[i].count > 0) of_class_[i] = static_cast<float>(of_class[i].mean_ms());
    for (std::size_t i = 0; i < of_role.size(); ++i) of_role_[i] = static_cast<float>(of_role[i].mean_ms());
    for (std::size_t rank = 0; rank < ranks; ++rank)
        for (std::size_t i = 0; i < classes_; ++i) {
            const Sum& sum = of_rank[rank * classes_ + i];
            of_rank_[rank * classes_ + i] = sum.count > 0 ? static_cast<float>(sum.ms / sum.count)
                                                          : of_role_[model_.roles.of_rank[rank] * classes_ + i];
        }
}

/// By key of what few ranks do: how many ranks of the role do not do it in the steps that have it, over all steps.
std::vector<double> TypicalWork::count_idle_ranks(std::span<const StepGraph> graphs) const {
    std::vector<double> idle(model_.keys.size());
    for (const StepGraph& graph : graphs) {
        std::set<std::pair<std::uint32_t, std::uint32_t>> doers;  // key and rank
        for (std::size_t node = 0; node < graph.size(); ++node)
            if (model_.is_of_few(graph.keys[node])) doers.emplace(graph.keys[node], graph.ranks[node]);
        if (doers.empty()) continue;
        std::vector<double> ranks(model_.roles.count());  // that are in the step
        for (const auto& [rank, end] : graph.ends) ++ranks[model_.roles.of_rank[rank]];
        for (auto at = doers.begin(); at != doers.end();) {
            const std::uint32_t key = at->first;
            idle[key] += weight_of(graph) * ranks[model_.keys[key].role];
            for (; at != doers.end() && at->first == key; ++at) idle[key] -= weight_of(graph);
        }
    }
    return idle;
}

void TypicalWork::find_comm_medians(std::span<const StepGraph> graphs) {
    const auto by_class = choose_work(graphs, most_values, [this](const StepGraph& graph, std::size_t node) {
        return model_.keys[graph.keys[node]].is_comm ? class_of_[graph.keys[node]] : no_index;
    });
    for (std::size_t i = 0; i < by_class.size(); ++i)
        if (!by_class[i].empty()) of_class_[i] = static_cast<float>(median_of(by_class[i]));
}

/// By number of the collective, of those that miss members in some steps: the links of a group may be slow.
std::unordered_map<std::uint32_t, float> TypicalWork::find_group_medians(std::span<const StepGraph> graphs) const {
    std::unordered_set<std::uint32_t> numbers;
    for (const StepGraph& graph : graphs)
        for (std::size_t node = 0; node < graph.size(); ++node)
            if (graph.weights[node] != Weight::observed)
                numbers.insert(model_.collective_of(graph.keys[node], graph.ranks[node]));
    numbers.erase(no_index);
    if (numbers.empty()) return {};
    const auto by_group = choose_work(graphs, most_values, [&](const StepGraph& graph, std::size_t node) {
        const std::uint32_t number = model_.collective_of(graph.keys[node], graph.ranks[node]);
        return numbers.contains(number) ? number : no_index;
    });
    std::unordered_map<std::uint32_t, float> medians;
    for (std::uint32_t number = 0; number < by_group.size(); ++number)
        if (by_group[number].size() >= least_values) medians[number] = static_cast<float>(median_of(by_group[number]));
    return medians;
}

void TypicalWork::complete(std::span<StepGraph> graphs) const {
    const std::unordered_map<std::uint32_t, float> of_group = find_group_medians(graphs);
    for (StepGraph& graph : graphs)
        for (std::size_t node = 0; node < graph.size(); ++node) {
            if (graph.weights[node] == Weight::observed) continue;
            const std::uint32_t key = graph.keys[node];
            float& own_ms = graph.own_ms[node];
            if (!model_.keys[key].is_comm) {
                own_ms = of_rank(key, graph.ranks[node]);
                continue;
            }
            const auto found = of_group.find(model_.collective_of(key, graph.ranks[node]));
            const float typical_ms = found != of_group.end() ? found->second : of_all(key);
            if (graph.weights[node] == Weight::typical || typical_ms < own_ms) own_ms = typical_ms;
        }
}

}  // namespace cep::tool
