// SPDX-License-Identifier: Apache-2.0
//
// Communication series: what is kept of the communication of one rank in one run, besides its samples.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "matching/collective_key.hpp"
#include "model/sample.hpp"
#include "model/sample_budget.hpp"
#include "read/row.hpp"

namespace cep::tool {

/// Spans of communication, in samples or not.
struct CommTotals {
    std::uint64_t spans = 0;
    std::uint64_t spans_without_bytes = 0;
    double total_ms = 0;

    void add(const Row& row) {
        ++spans;
        spans_without_bytes += row.bytes.value_or(0) <= 0;
        total_ms += row.duration_ms;
    }
    void merge(const CommTotals& other) {
        spans += other.spans;
        spans_without_bytes += other.spans_without_bytes;
        total_ms += other.total_ms;
    }
};

/// What a span of communication sends.
struct CommMessage {
    std::uint32_t channel = 0;  // index into CommSeries::channels(), or CommChannel::none
    std::int64_t bytes = 0;     // 0 where the row does not say
};

/// The spans of one phase in one process group.
struct CommChannel {
    static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

    std::uint32_t phase = 0;  // index into RunSeries::phases
    std::string group;        // its full_group_name(); "" where the rows name none
    CommTotals totals{};
};

class CommSeries {
  public:
    CommSeries() = default;
    /// `attempt`: tells the collectives of attempts apart, if it is not the same for all.
    CommSeries(bool keeps_messages, std::uint64_t attempt) : keeps_messages_(keeps_messages), attempt_(attempt) {}

    /// Of a row of a phase: what is kept of its key goes into the sample, and into the message if these are kept.
    /// Returns the key of the row's phase.
    const CollectiveKey& take(const Row& row, const RunInfo& run, std::uint32_t phase, SampleBudget& budget,
                              Sample& sample, CommMessage& message);
    /// Whether the row's channel is there, or there is room for it. Else it is counted, and is not to be taken.
    /// `phase`: that of the row, if it has had one that was taken.
    [[nodiscard]] bool admits(const Row& row, const RunInfo& run, std::optional<std::uint32_t> phase,
                              SampleBudget& budget);
    /// No rows follow: gives back what only take() needs.
    void seal();

    [[nodiscard]] bool keeps_messages() const { return keeps_messages_; }
    /// As many as there is room for, if messages are kept.
    [[nodiscard]] std::vector<CommChannel>& channels() { return channels_; }
    [[nodiscard]] const std::vector<CommChannel>& channels() const { return channels_; }
    [[nodiscard]] const CommTotals& beyond_channels() const { return beyond_channels_; }

  private:
    struct OfPhase {
        CollectiveKey key;
        std::uint32_t channel = CommChannel::none;
    };

    std::uint32_t find_channel(const Row& row, const RunInfo& run, std::uint32_t phase, SampleBudget& budget);

    bool keeps_messages_ = false;
    std::uint64_t attempt_ = 0;
    std::vector<CommChannel> channels_;
    CommTotals beyond_channels_;
    std::vector<OfPhase> phases_;
    std::unordered_map<std::string, std::uint32_t> channel_indices_;  // by channel_key_
    std::string channel_key_;
};

}  // namespace cep::tool
