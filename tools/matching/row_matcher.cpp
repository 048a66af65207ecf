// SPDX-License-Identifier: Apache-2.0
#include "matching/row_matcher.hpp"

#include <string_view>
#include <utility>

#include "base/hash.hpp"

namespace cep::tool {
namespace {

// Each step and attempt counts its collectives from the start.
std::uint64_t key_of(std::uint64_t key, std::int64_t step, std::int64_t attempt) {
    return mix_bits(mix_bits(key + static_cast<std::uint64_t>(step)) + static_cast<std::uint64_t>(attempt));
}

}  // namespace

Channel RowMatcher::channel_of(const Row& row, const RankRun& rank) {
    const bool knows_places = rank.run != RunTracker::no_run;
    Channel channel{knows_places
                        ? full_group_name(row.group, axis_places_of(rank.infos[static_cast<std::size_t>(rank.run)]))
                        : std::string(row.group),
                    operation_of_name(row.name),
                    {}};
    if (channel.operation == Operation::other) channel.name = row.name;
    return channel;
}

RowMatcher::RankRun& RowMatcher::run_of(const Row& row) {
    const auto [index, is_new, returning, ignored] = tracker_.observe(row);
    RankRun& run = ranks_[*row.rank];
    if (row.type == RowType::run && !ignored) {
        if (is_new) run.infos.emplace_back();
        run.infos[static_cast<std::size_t>(index)] = *row.run;
        run.infos[static_cast<std::size_t>(index)].listed_ranks.reset();
    }
    if (row.type == RowType::run && filter_.accepts_rank(*row.rank)) coverage_.saw_run(*row.run);
    if (row.type == RowType::run || run.run != index) {
        run.run = index;
        const bool known = index != RunTracker::no_run;
        run.attempt = known ? tracker_.runs(*row.rank)[static_cast<std::size_t>(index)].attempt : 1;
        run.streams.clear();
    }
    return run;
}

void RowMatcher::limit_streams() {
    constexpr std::size_t max_streams = std::size_t{1} << 17;
    constexpr std::size_t max_bytes = std::size_t{1} << 25;
    ++streams_;
    stream_bytes_ += stream_key_.size();
    if (streams_ <= max_streams && stream_bytes_ <= max_bytes) return;
    for (auto& [rank, run] : ranks_) run.streams = {};
    streams_ = 1;
    stream_bytes_ = stream_key_.size();
}

RowMatcher::Stream& RowMatcher::stream_of(RankRun& run, const Row& row) {
    stream_key_.assign(row.group);
    stream_key_ += '\0';
    stream_key_ += row.name;
    auto found = run.streams.find(stream_key_);
    if (found == run.streams.end()) {
        limit_streams();
        found = run.streams.try_emplace(stream_key_).first;
        const Channel channel = channel_of(row, run);
        found->second.channel = table_.channel_of(channel);
    }
    return found->second;
}

void RowMatcher::take(const Row& row, std::uint64_t /*line*/) {
    if (!row.rank) return;
    RankRun& run = run_of(row);
    if (row.type != RowType::span || row.kind != schema::Kind::comm || !filter_.accepts(row)) return;
    static const RunInfo unknown;
    Stream& stream = stream_of(run, row);
    std::uint64_t key =
        stream.key.of(row, run.run == RunTracker::no_run ? unknown : run.infos[static_cast<std::size_t>(run.run)]);
    if (CollectiveKey::is_counted(row)) {
        stream.count = stream.step == *row.step ? stream.count + 1 : 0;
        stream.step = *row.step;
        key = CollectiveKey::nth(key, stream.count);
    }
    table_.add(stream.channel,
               {key_of(key, *row.step, run.attempt), *row.rank, row.bytes.value_or(0), row.duration_ms});
}

CoverageCollector RowMatcher::coverage() const {
    CoverageCollector collector = coverage_;
    for (const auto& [rank, run] : ranks_)
        if (filter_.accepts_rank(rank)) collector.seen.insert(rank);
    return collector;
}

}  // namespace cep::tool
