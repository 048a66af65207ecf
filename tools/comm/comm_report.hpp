// SPDX-License-Identifier: Apache-2.0
//
// Comm report: latency, bandwidth and waiting of each operation and kind of group, and what it would take with other
// sizes and numbers of ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/slow_transfers.hpp"
#include "matching/operation.hpp"
#include "model/job.hpp"
#include "read/coverage.hpp"
#include "show/document.hpp"
#include "stats/transfer_fit.hpp"

namespace cep::comm {

using tool::Operation;

/// No link is as fast: the fastest move 900 GB/s in one direction (NVLink 5), and all-reduces inside of a switch twice
/// as much.
inline constexpr double link_limit_gb_per_s = 2000;

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
    double p90_ms = 0;                         // of the transfers
    double mean_ms = 0;                        // of the transfers
    double wait_ms = 0;                        // the median over collectives of the mean over ranks
    double slow_share = 0;                     // of the transfers: those that take over slow_ratio times the median
    std::optional<double> algorithm_gb_per_s;  // bytes over the median transfer; nothing: see CommModel::is_launch
    std::optional<double> paid_gb_per_s;       // bytes over the mean transfer
    std::optional<double> bus_gb_per_s;        // of the median transfer
    std::optional<double> link_efficiency;
};

/// What a transfer would take, and where 9 of 10 would be: with how they scatter round the fit, and the fit's own
/// error.
struct PredictedTime {
    double ms = 0;
    double low_ms = 0;
    double high_ms = 0;
};

struct Prediction {
    std::int64_t bytes = 0;  // of the whole, as those of the sizes
    std::uint64_t world = 0;
    std::optional<std::int64_t> shard_bytes{};  // that were asked for
    std::optional<PredictedTime> ring{};
    std::optional<PredictedTime> tree{};
    bool beyond_sizes = false;  // outside of the sizes that were measured

    /// "ring", "tree", or "either" where they are as fast; "" where it is not known.
    [[nodiscard]] std::string_view faster() const;
};

/// One operation of one kind of group, or of one group.
struct CommModel {
    Operation operation = Operation::other;
    std::string name;   // the operation's, or for Operation::other the phase's
    std::string group;  // the kind of the groups, or the group
    std::uint64_t groups = 0;
    /// Where groups of a kind differ: the first max_members of those that this line is of, and how many times as long
    /// their transfers take as in most groups.
    std::vector<std::string> members;
    std::optional<double> times_usual;
    std::uint64_t ranks = 0;  // of one group
    std::uint64_t spans = 0;
    std::uint64_t spans_without_bytes = 0;
    double total_ms = 0;
    std::uint64_t collectives = 0;        // used for the figures
    std::uint64_t one_in = 1;             // the sample has one of so many collectives
    std::uint64_t lone_spans = 0;         // collectives that too few ranks recorded
    std::optional<double> wait_fraction;  // waiting over the time in spans
    std::optional<double> wait_of_step;   // waiting over the time of steps
    /// All spans are timed on the host, and end long before the bytes can have moved.
    bool is_launch = false;
    std::vector<SizeReport> sizes;  // ascending
    std::optional<TransferFit> fit;
    TransferErrors errors;                // of the fit
    std::optional<double> paid_gb_per_s;  // all bytes over the time of all transfers
    SlowTransfers slow;
    std::string refused;                 // why there is no fit
    std::optional<double> bus_gb_per_s;  // of the fitted bandwidth
    std::optional<double> link_efficiency;
    std::vector<Prediction> predictions;

    static constexpr std::size_t max_members = 8;
    /// "dp"; where its groups differ "dp.pp1", or "dp (4 slow)".
    [[nodiscard]] std::string group_label() const;
    /// By what latency and bytes of the fit grow in a ring of so many ranks. Nothing where the operation is not known.
    [[nodiscard]] std::optional<TransferFit::Factors> growth_in_ring(std::uint64_t world) const;
};

/// What a report does not list, so that its size is bounded.
struct LeftOut {
    std::uint64_t models = 0;  // more than CommReport::max_models
    std::uint64_t spans = 0;   // of these models, and of channels that a job does not keep
    double total_ms = 0;       // of these spans
    std::uint64_t sizes = 0;   // of the models that are listed, more than CommReport::max_sizes

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
    std::optional<double> wait_of_step;

    [[nodiscard]] bool any_bytes() const;
};

/// `job`: one that keeps messages.
[[nodiscard]] CommReport make_report(const tool::Job& job, const CommOptions& options);

/// What a report leaves out, in one sentence; "" where it leaves out nothing.
[[nodiscard]] std::string describe_left_out(const CommReport& report);

/// A line for each operation and kind of group; `columns`: see choose().
[[nodiscard]] tool::Table model_table(const CommReport& report, std::string_view columns);

/// JSON has schema cep.comm/1. CSV has a line for each size of each model, and one for a model without sizes. The
/// document has the tables that `format` needs.
[[nodiscard]] tool::Document make_document(CommReport report, tool::Format format);

}  // namespace cep::comm
