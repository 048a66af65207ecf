// SPDX-License-Identifier: Apache-2.0
//
// Typical work: how long nodes of a class take, over all ranks, of a role, or of a rank. A class is a segment of a
// phase; where the position in the step explains most of the differences (buckets, chunks), a segment of a phase at
// that position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "replay/step_graph.hpp"

namespace cep::tool {

class TypicalWork {
  public:
    /// Gives typical durations to the nodes that have none.
    TypicalWork(std::span<StepGraph> graphs, const JobModel& model);

    /// The mean of local work, as the sum is what a balanced job has to do; the median of communication.
    [[nodiscard]] float of_all(std::uint32_t key) const { return of_class_[class_of_[key]]; }
    /// Local work only. Of what few ranks do, the others do none in the steps that have it.
    [[nodiscard]] float of_role(std::uint32_t key) const { return of_role_[role_index(key)]; }
    [[nodiscard]] float of_rank(std::uint32_t key, std::uint32_t rank) const {
        return of_rank_[std::size_t{rank} * classes_ + class_of_[key]];
    }

  private:
    struct Mean {
        double sum_ms = 0;
        double square_sum = 0;
        double count = 0;

        void add(double ms) {
            sum_ms += ms;
            square_sum += ms * ms;
            ++count;
        }
        void add(const Mean& other) {
            sum_ms += other.sum_ms;
            square_sum += other.square_sum;
            count += other.count;
        }
        [[nodiscard]] double mean_ms() const { return count > 0 ? sum_ms / count : 0; }
        [[nodiscard]] double within() const { return count > 0 ? square_sum - sum_ms * sum_ms / count : 0; }
    };

    [[nodiscard]] std::size_t role_index(std::uint32_t key) const {
        return std::size_t{model_.keys[key].role} * classes_ + class_of_[key];
    }
    void find_classes(const std::vector<Mean>& by_key, bool by_position);
    void find_means(std::span<const StepGraph> graphs);
    [[nodiscard]] std::vector<double> count_idle_ranks(std::span<const StepGraph> graphs) const;
    void find_comm_medians(std::span<const StepGraph> graphs);
    [[nodiscard]] std::unordered_map<std::uint32_t, float> find_group_medians(std::span<const StepGraph> graphs) const;
    void complete(std::span<StepGraph> graphs) const;

    const JobModel& model_;
    std::vector<std::uint32_t> class_of_;  // by key
    std::size_t classes_ = 0;
    std::vector<float> of_class_;
    std::vector<float> of_role_;  // by role and class
    std::vector<float> of_rank_;  // by rank and class
};

}  // namespace cep::tool
