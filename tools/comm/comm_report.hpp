// SPDX-License-Identifier: Apache-2.0
//
// Comm report: latency, bandwidth and waiting of each operation and kind of group, and what it would take with other
// sizes and numbers of ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "matching/operation.hpp"
#include "model/job.hpp"
#include "read/coverage.hpp"
#include "stats/transfer_fit.hpp"

namespace cep::comm {

using tool::Operation;

struct CommOptions {
    bool by_group = false;     // a line for each group; else groups of one kind and size share one
    bool shard_bytes = false;  // bytes of all_gather and reduce_scatter are those of one rank's shard
    std::optional<double> link_gb_per_s;
    std::vector<std::int64_t> predicted_bytes;  // empty: the sizes that were measured
    std::vector<std::uint64_t> worlds;          // empty: the number of ranks that was measured
    bool predicts = false;
};

/// All collectives of one size.
struct SizeReport {
    SizePoint point;
    double wait_ms = 0;  // the median over collectives of the mean over ranks
    double algorithm_gb_per_s = 0;
    std::optional<double> bus_gb_per_s;
    std::optional<double> link_efficiency;
};

struct Prediction {
    std::int64_t bytes = 0;
    std::uint64_t world = 0;
    std::optional<double> ring_ms;
    std::optional<double> tree_ms;
    bool beyond_sizes = false;  // outside of the sizes that were measured
};

/// One operation of one kind of group, or of one group.
struct CommModel {
    Operation operation = Operation::other;
    std::string name;   // the operation's, or for Operation::other the phase's
    std::string group;  // the kind of the groups, or the group
    std::uint64_t groups = 0;
    std::uint64_t ranks = 0;  // of one group
    std::uint64_t spans = 0;
    std::uint64_t spans_without_bytes = 0;
    double total_ms = 0;
    std::uint64_t collectives = 0;        // used for the figures
    std::uint64_t one_in = 1;             // the sample has one of so many collectives
    std::uint64_t lone_spans = 0;         // collectives that too few ranks recorded
    std::optional<double> wait_fraction;  // waiting over the time in spans
    std::vector<SizeReport> sizes;        // ascending
    std::optional<TransferFit> fit;
    std::string refused;                 // why there is no fit
    std::optional<double> bus_gb_per_s;  // of the fitted bandwidth
    std::optional<double> link_efficiency;
    std::vector<Prediction> predictions;
};

/// What a report does not list, so that its size is bounded.
struct LeftOut {
    std::uint64_t models = 0;  // beyond CommReport::max_models
    std::uint64_t spans = 0;   // of these models, and of channels beyond those that a job keeps
    double total_ms = 0;       // of these spans
    std::uint64_t sizes = 0;   // of the models that are listed, beyond CommReport::max_sizes

    [[nodiscard]] bool any() const { return spans > 0 || sizes > 0; }
};

struct CommReport {
    static constexpr std::size_t max_models = 10'000;
    static constexpr std::size_t max_sizes = 100'000;  // of all models

    tool::InputCounts inputs;
    tool::Coverage coverage;
    CommOptions options;
    std::vector<CommModel> models;  // the one with the most time first
    LeftOut left_out;
    std::optional<double> wait_fraction;

    [[nodiscard]] bool any_bytes() const;
};

/// Of a job that keeps messages.
[[nodiscard]] CommReport make_report(const tool::Job& job, const CommOptions& options);

}  // namespace cep::comm
