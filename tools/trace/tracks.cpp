// SPDX-License-Identifier: Apache-2.0
#include "trace/tracks.hpp"

#include <algorithm>

namespace cep::tool {
namespace {

// Viewers keep the numbers of processes and threads in 32 bits, and some look for a thread by its number alone. So each
// thread has another number, and none has that of a process.
constexpr std::int64_t ranks_with_own_number = 1'000'000;
constexpr std::uint64_t first_thread = 1'000'001;
constexpr std::int64_t first_process_beyond = 1'000'000'000;
static_assert(first_thread + Tracks::max_streams * Lanes::max_lanes < static_cast<std::uint64_t>(first_process_beyond));

}  // namespace

std::optional<std::size_t> Lanes::place(std::int64_t start_ns, std::int64_t end_ns) {
    for (std::size_t lane = 0; lane < max_lanes; ++lane) {
        if (lane == open_ends_ns_.size()) open_ends_ns_.emplace_back();
        std::vector<std::int64_t>& ends_ns = open_ends_ns_[lane];
        while (!ends_ns.empty() && ends_ns.back() <= start_ns) ends_ns.pop_back();
        if (!ends_ns.empty() && ends_ns.back() < end_ns) continue;
        ends_ns.push_back(end_ns);
        return lane;
    }
    return std::nullopt;
}

Tracks::Process& Tracks::process_of(std::int64_t rank) {
    const auto [process, is_new] = processes_.try_emplace(rank);
    if (is_new)
        process->second.number =
            rank < ranks_with_own_number ? rank : first_process_beyond + static_cast<std::int64_t>(processes_.size());
    return process->second;
}

// The host comes first, then the streams in the order of their first spans.
Tracks::OfStream* Tracks::stream_of(Process& process, const Stream& stream) {
    const auto known = process.streams.find(stream);
    if (known != process.streams.end()) return &known->second;
    if (streams_ == max_streams) return nullptr;
    const std::size_t others = process.streams.size() - process.streams.count(Stream{});
    OfStream& added = process.streams[stream];
    added.first_thread = first_thread + streams_++ * Lanes::max_lanes;
    added.first_sort_index = (stream == Stream{} ? 0 : others + 1) * Lanes::max_lanes;
    return &added;
}

Tracks::Track Tracks::show(Process& process, OfStream& stream, std::size_t lane) {
    Track track{process.number, stream.first_thread + lane, stream.first_sort_index + lane,
                lane,           !process.is_shown,          lane >= stream.lanes_shown};
    process.is_shown = true;
    stream.lanes_shown = std::max(stream.lanes_shown, lane + 1);
    return track;
}

std::optional<Tracks::Track> Tracks::place(std::int64_t rank, const Stream& stream, std::int64_t start_ns,
                                           std::int64_t end_ns) {
    Process& process = process_of(rank);
    OfStream* const of_stream = stream_of(process, stream);
    if (of_stream == nullptr) return std::nullopt;
    const std::optional<std::size_t> lane = of_stream->lanes.place(start_ns, end_ns);
    if (!lane) return std::nullopt;
    return show(process, *of_stream, *lane);
}

std::optional<Tracks::Track> Tracks::host_track(std::int64_t rank) {
    Process& process = process_of(rank);
    OfStream* const host = stream_of(process, Stream{});
    if (host == nullptr) return std::nullopt;
    return show(process, *host, 0);
}

}  // namespace cep::tool
