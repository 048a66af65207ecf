// SPDX-License-Identifier: Apache-2.0
#include "comm/match_table.hpp"

#include <algorithm>

namespace cep::comm {

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
    const auto [found, is_new] = channel_indices_.try_emplace(channel, static_cast<std::uint32_t>(channels_.size()));
    if (is_new) {
        channels_.push_back(channel);
        totals_.emplace_back();
        const Channel of_kind{group_kind(channel.group), channel.operation, channel.name};
        const auto stratum = stratum_indices_.try_emplace(of_kind, strata_.size()).first->second;
        if (stratum == strata_.size()) strata_.emplace_back();
        stratum_of_.push_back(stratum);
    }
    return found->second;
}

// nullptr where the collective is not in the sample.
Match* MatchTable::find_match(std::uint32_t channel, std::uint64_t key) {
    Stratum& stratum = strata_[stratum_of_[channel]];
    if ((key & stratum.mask) != 0) return nullptr;
    const auto [found, is_new] = matches_.try_emplace(key);
    if (is_new) {
        found->second.channel = channel;
        ++stratum.matches;
    }
    return &found->second;
}

void MatchTable::add(std::uint32_t channel, const Span& span) {
    ChannelTotals& totals = totals_[channel];
    if (totals.ranks.empty() || *totals.ranks.rbegin() != span.rank) totals.ranks.insert(span.rank);
    ++totals.spans;
    totals.spans_without_bytes += span.bytes <= 0;
    totals.total_ms += span.duration_ms;
    if (Match* const match = find_match(channel, span.key)) match->add(span.duration_ms, span.bytes);
    if (matches_.size() > max_matches_) thin_largest();
}

void MatchTable::merge(const MatchTable& other) {
    std::vector<std::uint32_t> channels;
    for (std::uint32_t i = 0; i < other.channels_.size(); ++i) {
        const std::uint32_t channel = channel_of(other.channels_[i]);
        channels.push_back(channel);
        totals_[channel].merge(other.totals_[i]);
        thin(stratum_of_[channel], other.one_in(i) - 1);
    }
    for (const auto& [key, match] : other.matches_) {
        if (Match* const joined = find_match(channels[match.channel], key)) joined->merge(match);
        if (matches_.size() > max_matches_) thin_largest();
    }
}

void MatchTable::thin(std::size_t stratum, std::uint64_t mask) {
    Stratum& thinned = strata_[stratum];
    if (mask <= thinned.mask) return;
    thinned.mask = mask;
    if (thinned.matches == 0) return;
    thinned.matches -= std::erase_if(matches_, [&](const auto& entry) {
        return stratum_of_[entry.second.channel] == stratum && (entry.first & mask) != 0;
    });
}

void MatchTable::thin_largest() {
    const auto largest = std::max_element(strata_.begin(), strata_.end(),
                                          [](const Stratum& a, const Stratum& b) { return a.matches < b.matches; });
    thin(static_cast<std::size_t>(largest - strata_.begin()), 2 * largest->mask + 1);
}

}  // namespace cep::comm
