// SPDX-License-Identifier: Apache-2.0
#include "matching/match_table.hpp"

#include <algorithm>
#include <utility>

#include "matching/process_group.hpp"

namespace cep::tool {

void ChannelTotals::merge(const ChannelTotals& other) {
    ranks.insert(other.ranks.begin(), other.ranks.end());
    spans += other.spans;
    spans_without_bytes += other.spans_without_bytes;
    total_ms += other.total_ms;
}

void Match::keep(double duration_ms) {
    for (double& kept : shortest_ms)
        if (duration_ms < kept) std::swap(duration_ms, kept);
}

void Match::add(double duration_ms, std::int64_t span_bytes) {
    ++spans;
    bytes = std::max(bytes, span_bytes);
    total_ms += duration_ms;
    keep(duration_ms);
}

void Match::merge(const Match& other) {
    spans += other.spans;
    bytes = std::max(bytes, other.bytes);
    total_ms += other.total_ms;
    for (const double duration_ms : other.shortest_ms) keep(duration_ms);
}

double Match::transfer_ms() const {
    constexpr std::size_t ranks_for_one_more = 1024;
    return shortest_ms[std::min<std::size_t>(spans / ranks_for_one_more, shortest_kept - 1)];
}

std::uint32_t MatchTable::channel_of(const Channel& channel) {
    if (const auto found = channel_indices_.find(channel); found != channel_indices_.end()) return found->second;
    const std::size_t bytes = channel.group.size() + channel.name.size();
    if (channels_.size() >= max_channels || name_bytes_ + bytes > max_name_bytes) return no_channel;
    name_bytes_ += bytes;
    const auto index = static_cast<std::uint32_t>(channels_.size());
    channel_indices_.emplace(channel, index);
    channels_.push_back(channel);
    totals_.emplace_back();
    const Channel of_kind{group_kind(channel.group), channel.operation, channel.name};
    const auto stratum = stratum_indices_.try_emplace(of_kind, strata_.size()).first->second;
    if (stratum == strata_.size()) strata_.emplace_back();
    stratum_of_.push_back(stratum);
    return index;
}

// nullptr where the collective is not in the sample.
Match* MatchTable::find_match(std::uint32_t channel, std::uint64_t key) {
    Stratum& stratum = strata_[stratum_of_[channel]];
    if ((key & stratum.mask) != 0) return nullptr;
    const auto [found, is_new] = matches_.try_emplace(key);
    if (is_new) {
        found->second.channel = channel;
        stratum.keys.push_back(key);
    }
    return &found->second;
}

void MatchTable::add(std::uint32_t channel, const Span& span) {
    if (channel == no_channel) {
        ++unlisted_.spans;
        unlisted_.total_ms += span.duration_ms;
        return;
    }
    ChannelTotals& totals = totals_[channel];
    if (totals.ranks.empty() || *totals.ranks.rbegin() != span.rank) totals.ranks.insert(span.rank);
    ++totals.spans;
    totals.spans_without_bytes += span.bytes <= 0;
    totals.total_ms += span.duration_ms;
    if (Match* const match = find_match(channel, span.key)) match->add(span.duration_ms, span.bytes);
    if (matches_.size() > max_matches_) make_room();
}

void MatchTable::merge(const MatchTable& other) {
    unlisted_.spans += other.unlisted_.spans;
    unlisted_.total_ms += other.unlisted_.total_ms;
    std::vector<std::uint32_t> channels;
    for (std::uint32_t i = 0; i < other.channels_.size(); ++i) {
        const std::uint32_t channel = channel_of(other.channels_[i]);
        channels.push_back(channel);
        if (channel == no_channel) {
            unlisted_.spans += other.totals_[i].spans;
            unlisted_.total_ms += other.totals_[i].total_ms;
            continue;
        }
        totals_[channel].merge(other.totals_[i]);
        thin(strata_[stratum_of_[channel]], other.one_in(i) - 1);
    }
    for (const auto& [key, match] : other.matches_) {
        if (channels[match.channel] == no_channel) continue;
        if (Match* const joined = find_match(channels[match.channel], key)) joined->merge(match);
        if (matches_.size() > max_matches_) make_room();
    }
}

void MatchTable::thin(Stratum& stratum, std::uint64_t mask) {
    if (mask <= stratum.mask) return;
    stratum.mask = mask;
    std::erase_if(stratum.keys, [&](std::uint64_t key) { return (key & mask) != 0 && matches_.erase(key) > 0; });
}

// Thins the largest strata in turn. With a few, one is enough; with many small ones, so many are thinned at once that
// looking for the largest costs little per match.
void MatchTable::make_room() {
    const std::size_t enough = max_matches_ - max_matches_ / 32;
    using Entry =
        std::pair<std::size_t, std::size_t>;  // matches, and the complement of the index: of equal ones the first
    std::vector<Entry> heap;
    for (std::size_t i = 0; i < strata_.size(); ++i)
        if (!strata_[i].keys.empty()) heap.emplace_back(strata_[i].keys.size(), ~i);
    std::make_heap(heap.begin(), heap.end());
    do {
        std::pop_heap(heap.begin(), heap.end());
        Stratum& largest = strata_[~heap.back().second];
        thin(largest, 2 * largest.mask + 1);
        heap.back().first = largest.keys.size();
        std::push_heap(heap.begin(), heap.end());
    } while (matches_.size() > enough);
}

}  // namespace cep::tool
