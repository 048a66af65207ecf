// SPDX-License-Identifier: Apache-2.0
//
// Match table: the spans that different ranks recorded of one collective, joined, in bounded memory.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "matching/operation.hpp"

namespace cep::tool {

/// One operation of one process group.
struct Channel {
    std::string group;  // "" where the rows name none
    Operation operation = Operation::other;
    std::string name;  // of the phase, for Operation::other; else ""

    friend auto operator<=>(const Channel&, const Channel&) = default;
};

/// All spans of a channel, in the sample or not.
struct ChannelTotals {
    std::set<std::int64_t> ranks;
    std::uint64_t spans = 0;
    std::uint64_t spans_without_bytes = 0;
    double total_ms = 0;

    void merge(const ChannelTotals& other);
};

/// One collective: what the spans of its ranks have in common.
struct Match {
    static constexpr std::size_t shortest_kept = 4;

    std::uint32_t channel = 0;  // index into MatchTable::channels()
    std::uint32_t spans = 0;
    std::int64_t bytes = 0;                         // the largest of its ranks; 0: not known
    double total_ms = 0;                            // of all spans
    std::array<double, shortest_kept> shortest_ms;  // ascending; infinite where there are no more

    Match() { shortest_ms.fill(std::numeric_limits<double>::infinity()); }
    void add(double duration_ms, std::int64_t span_bytes);
    void merge(const Match& other);
    /// How long the transfer took: a low quantile over ranks of the duration. The last rank to come waits for nobody,
    /// so that its duration is the transfer; a quantile that leaves it out adds a wait. (Simulated, 512 ranks, work
    /// that varies by 1 %: the shortest is 1.006 times the transfer, a 1 % quantile 3.4 times.) So it is the shortest,
    /// and from 1,024 ranks on, where some rank's clock may be wrong in each, the second, third or fourth.
    [[nodiscard]] double transfer_ms() const;

  private:
    void keep(double duration_ms);
};

/// The spans of channels beyond the bound on channels.
struct UnlistedSpans {
    std::uint64_t spans = 0;
    double total_ms = 0;
};

/// Joins spans by the key of their collective. Of more than `max_matches` collectives it keeps a sample: of the
/// operation and kind of group that has the most, those whose key ends in one more zero bit. Keys are hashes that every
/// rank computes alike, so that collectives in the sample are whole, rare ones stay, and memory is bounded whatever the
/// number of ranks, files and steps. Totals count every span of the first `max_channels` channels.
class MatchTable {
  public:
    static constexpr std::size_t max_matches_of_file = std::size_t{1} << 17;  // 14 MB
    static constexpr std::size_t max_matches_of_job = std::size_t{1} << 20;   // 110 MB
    static constexpr std::size_t max_channels = std::size_t{1} << 17;
    static constexpr std::size_t max_name_bytes = std::size_t{1} << 25;  // of all channels
    static constexpr std::uint32_t no_channel = std::numeric_limits<std::uint32_t>::max();

    struct Span {
        std::uint64_t key = 0;
        std::int64_t rank = 0;
        std::int64_t bytes = 0;
        double duration_ms = 0;
    };

    explicit MatchTable(std::size_t max_matches) : max_matches_(max_matches) {}

    /// The index of a channel; of a new one beyond the bounds, no_channel.
    [[nodiscard]] std::uint32_t channel_of(const Channel& channel);
    void add(std::uint32_t channel, const Span& span);
    void merge(const MatchTable& other);

    [[nodiscard]] const std::vector<Channel>& channels() const { return channels_; }
    [[nodiscard]] const ChannelTotals& totals(std::uint32_t channel) const { return totals_[channel]; }
    [[nodiscard]] const UnlistedSpans& unlisted() const { return unlisted_; }
    [[nodiscard]] const std::unordered_map<std::uint64_t, Match>& matches() const { return matches_; }
    /// The sample has one of so many collectives of the channel: a power of two.
    [[nodiscard]] std::uint64_t one_in(std::uint32_t channel) const { return strata_[stratum_of_[channel]].mask + 1; }

  private:
    /// An operation of one kind of groups.
    struct Stratum {
        std::uint64_t mask = 0;           // keys that have none of these bits are kept
        std::vector<std::uint64_t> keys;  // of its matches
    };

    void thin(Stratum& stratum, std::uint64_t mask);
    void make_room();
    Match* find_match(std::uint32_t channel, std::uint64_t key);

    std::size_t max_matches_;
    std::vector<Stratum> strata_;
    std::map<Channel, std::size_t> stratum_indices_;  // by a channel whose group is the kind
    std::vector<std::size_t> stratum_of_;             // by channel
    std::vector<Channel> channels_;
    std::map<Channel, std::uint32_t> channel_indices_;
    std::size_t name_bytes_ = 0;
    std::vector<ChannelTotals> totals_;
    UnlistedSpans unlisted_;
    std::unordered_map<std::uint64_t, Match> matches_;
};

}  // namespace cep::tool
