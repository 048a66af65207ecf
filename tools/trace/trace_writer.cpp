// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_writer.hpp"

#include <fmt/core.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/hash.hpp"
#include "matching/collective_key.hpp"
#include "show/json_writer.hpp"

namespace cep::tool {
namespace {

// Viewers keep the numbers of processes and threads in 32 bits, and some look for a thread by its number alone. So each
// thread has another number, and none has that of a process.
constexpr std::int64_t ranks_with_own_number = 1'000'000;
constexpr std::uint64_t first_thread = 1'000'001;
constexpr std::int64_t first_large_process = 1'000'000'000;
static_assert(first_thread + Tracks::max_streams * Lanes::max_lanes < static_cast<std::uint64_t>(first_large_process));

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
            rank < ranks_with_own_number ? rank : first_large_process + static_cast<std::int64_t>(processes_.size());
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

namespace {

// These are not arguments of an event, because it shows them otherwise.
constexpr std::array<std::string_view, 5> shown_keys = {"type", "name", "rank", "start_ns", "duration_ms"};

constexpr std::size_t max_end_bytes = 200;
constexpr std::size_t max_arrow_bytes = 200;
constexpr std::size_t max_flows = std::size_t{1} << 20;  // that may go on

std::string describe(const Stream& stream, std::size_t lane) {
    std::string text = stream.clock == Stream::Clock::host       ? "host clock"
                       : stream.clock == Stream::Clock::external ? "external clock"
                       : stream.device ? fmt::format("device {} stream {}", *stream.device, stream.stream)
                                       : fmt::format("stream {}", stream.stream);
    if (lane > 0) text += fmt::format(", overlapping {}", lane);
    return text;
}

}  // namespace

/// The members of the row that is written.
class TraceWriter::Members {
  public:
    void parse(std::string_view padded_text) {
        if (parser_.parse(padded_text.data(), padded_text.size(), false).get(object_) != simdjson::SUCCESS)
            object_ = {};
    }

    [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key) const {
        std::int64_t value = 0;
        return object_.at_key(key).get(value) == simdjson::SUCCESS ? std::optional(value) : std::nullopt;
    }

    /// "key":value for each member that the event does not show otherwise. Returns whether there are any.
    bool append_to(std::string& out) const {
        bool any = false;
        for (const auto& [key, value] : object_) {
            if (std::find(shown_keys.begin(), shown_keys.end(), key) != shown_keys.end()) continue;
            if (any) out += ',';
            any = true;
            append_json_string(out, key);
            out += ':';
            out += simdjson::minify(value);
        }
        return any;
    }

  private:
    simdjson::dom::parser parser_;
    simdjson::dom::object object_;
};

TraceWriter::TraceWriter(Output& output, std::uint64_t max_bytes, const Filter& shown, const TraceFacts& facts,
                         const ClockShifts& clocks)
    : output_(output),
      max_bytes_(max_bytes),
      shown_(shown),
      facts_(facts),
      clocks_(clocks),
      members_(std::make_unique<Members>()) {}

TraceWriter::~TraceWriter() = default;

void TraceWriter::flush() {
    output_.write(events_);
    written_bytes_ += events_.size();
    events_.clear();
}

void TraceWriter::begin(std::int64_t base_ns) {
    base_ns_ = base_ns;
    began_ = true;
    events_ = "{\"traceEvents\":[";
    flush();
}

void TraceWriter::take(const RowEntry& entry, std::string_view text) {
    text_.assign(text);
    text_.resize(text.size() + RowParser::padding_bytes);
    const std::string_view padded(text_.data(), text.size());
    const Row* const parsed = parser_.parse(padded);
    if (parsed == nullptr || !shown_.accepts(*parsed)) return;
    if (const auto last = facts_.last_attempts.find({*parsed->rank, parsed->step.value_or(0)});
        last != facts_.last_attempts.end() && entry.run < last->second)
        return;
    if (parsed->type == RowType::open && !facts_.still_open.contains({entry.file, entry.index})) return;
    if (!parsed->start_ns || full_) {
        ++(parsed->start_ns ? counts_.over_limit : counts_.without_start);
        return;
    }
    Row row = *parsed;
    written_start_ns_ = *row.start_ns;
    row.start_ns = shown_start_ns(row, clocks_);
    if (!began_) begin(*row.start_ns);
    members_->parse(padded);
    const std::optional<Tracks::Track> track = append_row(row);
    if (!track) {
        ++counts_.without_track;
        return events_.clear();
    }
    // Room for the row's own arrows, for the ends of all flows, and for the end of the trace.
    const std::uint64_t rest_bytes = (joined_flows_ + 2) * max_arrow_bytes + max_end_bytes;
    full_ = written_bytes_ + events_.size() + rest_bytes > max_bytes_;
    if (full_) {
        ++counts_.over_limit;
        return events_.clear();
    }
    if (row.type == RowType::span && row.kind == schema::Kind::comm) join(row, entry.run, *track);
    flush();
    ++counts_.written;
}

void TraceWriter::finish() {
    if (!began_) begin(0);
    append_flow_ends();
    // Last, because Perfetto ignored all behind it for some time. JavaScript would round the base if it were a number.
    fmt::format_to(std::back_inserter(events_),
                   "\n],\n\"otherData\":{{\"schema\":\"cep.trace/1\",\"base_unix_ns\":\"{}\"", base_ns_);
    if (clocks_.any()) append_clocks();
    events_ += "}}\n";
    flush();
}

/// What was done with the clocks of hosts. Viewers show values of one level only.
void TraceWriter::append_clocks() {
    fmt::format_to(std::back_inserter(events_), R"(,"clock_error_ms":"{:.6f}")", clocks_.error_ms());
    for (const ClockShifts::Host& host : clocks_.hosts()) {
        events_ += ',';
        append_json_string(events_, "clock_ahead_ms of " + (host.name.empty() ? "a host without a name" : host.name));
        fmt::format_to(std::back_inserter(events_), R"(:"{:.6f}")", host.ahead_ms);
    }
}

std::optional<Tracks::Track> TraceWriter::append_row(const Row& row) {
    return row.type == RowType::counter || row.type == RowType::mark ? append_point(row) : append_slice(row);
}

void TraceWriter::append_separator() {
    events_ += counts_.written > 0 || !events_.empty() ? ",\n" : "\n";
}

// Microseconds, as the format wants; the decimals keep the nanoseconds.
void TraceWriter::append_time(std::int64_t time_ns) {
    fmt::format_to(std::back_inserter(events_), "{}.{:03}", time_ns / 1000, time_ns % 1000);
}

void TraceWriter::append_head(std::string_view phase, const Tracks::Track& track, std::int64_t start_ns) {
    append_separator();
    fmt::format_to(std::back_inserter(events_), R"({{"ph":"{}","pid":{},"tid":{},"ts":)", phase, track.process,
                   track.thread);
    append_time(start_ns - base_ns_);
}

// The names of a process and of a thread come with their first event.
void TraceWriter::append_names(const Row& row, const Stream& stream, const Tracks::Track& track) {
    const auto append = [&](std::string_view what, std::string_view name, std::uint64_t order) {
        append_separator();
        fmt::format_to(std::back_inserter(events_), R"({{"ph":"M","name":"{}_name","pid":{},"tid":{},"args":{{"name":)",
                       what, track.process, track.thread);
        append_json_string(events_, name);
        fmt::format_to(std::back_inserter(events_),
                       "}}}},\n"
                       R"({{"ph":"M","name":"{}_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
                       what, track.process, track.thread, order);
    };
    if (track.new_process) {
        const auto rank = facts_.ranks.find(*row.rank);
        const bool has_host = rank != facts_.ranks.end() && !rank->second.host.empty();
        const std::string where = has_host ? " (" + rank->second.host + ")" : "";
        append("process", fmt::format("rank {}{}", *row.rank, where), static_cast<std::uint64_t>(track.process));
    }
    if (track.new_track) append("thread", describe(stream, track.lane), track.sort_index);
}

void TraceWriter::append_args(bool is_open) {
    events_ += R"(,"args":{)";
    bool any = members_->append_to(events_);
    if (clocks_.any()) {  // as text: JavaScript would round it
        fmt::format_to(std::back_inserter(events_), R"({}"written_start_ns":"{}")", any ? "," : "", written_start_ns_);
        any = true;
    }
    if (is_open) events_ += any ? R"(,"open":true)" : R"("open":true)";
    events_ += "}}";
}

std::optional<Tracks::Track> TraceWriter::append_slice(const Row& row) {
    Stream stream;
    if (row.stream) {
        stream = {Stream::Clock::device, members_->integer("device"), *row.stream};
    } else if (row.clock == Clock::external) {
        stream.clock = Stream::Clock::external;
    }
    const bool is_open = row.type == RowType::open;
    const std::int64_t duration_ns = shown_ns(is_open ? row.elapsed_ms : row.duration_ms);
    const std::optional<Tracks::Track> track =
        tracks_.place(*row.rank, stream, *row.start_ns, *row.start_ns + duration_ns);
    if (!track) return track;
    append_names(row, stream, *track);
    append_head("X", *track, *row.start_ns);
    events_ += R"(,"dur":)";
    append_time(duration_ns);
    fmt::format_to(std::back_inserter(events_), R"(,"cat":"{}","name":)", schema::kind_name(row.kind));
    append_json_string(events_, row.name);
    append_args(is_open);
    return track;
}

/// A counter or a mark.
std::optional<Tracks::Track> TraceWriter::append_point(const Row& row) {
    const std::optional<Tracks::Track> track = tracks_.host_track(*row.rank);
    if (!track) return track;
    const bool is_counter = row.type == RowType::counter;
    append_names(row, {}, *track);
    append_head(is_counter ? "C" : "i", *track, *row.start_ns);
    events_ += is_counter ? R"(,"name":)" : R"(,"s":"p","cat":"mark","name":)";
    append_json_string(events_, row.name);
    if (is_counter)
        fmt::format_to(std::back_inserter(events_), R"(,"args":{{"value":{}}}}})", row.value);
    else
        append_args(false);
    return track;
}

// A member begins its arrow when the next one is known. An arrow is joined to the slice that is open at its time. At
// the very start of a slice, the one before may be taken for open too, so that arrows lie a nanosecond inside.
void TraceWriter::join(const Row& row, std::uint32_t attempt, const Tracks::Track& track) {
    constexpr std::int64_t inside_ns = 1;
    if (shown_ns(row.duration_ms) <= inside_ns) return;
    Flow& flow = flow_of(row, attempt);
    if (flow.id == 0) {
        flow.id = ++last_flow_;
    } else {
        append_arrow(flow.arrows++ == 0 ? "s" : "t", flow);
        if (flow.arrows == 1) ++joined_flows_;
    }
    flow.last = track;
    flow.last_ns = *row.start_ns + inside_ns;
    if (flows_.size() > max_flows) append_flow_ends();
}

// Rows come in the order of their starts.
TraceWriter::Flow& TraceWriter::flow_of(const Row& row, std::uint32_t attempt) {
    static const RunInfo unknown;
    const auto rank = facts_.ranks.find(*row.rank);
    CollectiveKey of_row;
    of_row.enter_group(row, rank != facts_.ranks.end() ? rank->second : unknown);
    std::uint64_t key = of_row.of(row);
    key = mix_bits(mix_bits(key + static_cast<std::uint64_t>(*row.step)) + attempt);
    if (!of_row.is_known(row)) key = mix_bits(key + static_cast<std::uint64_t>(*row.rank));
    if (!CollectiveKey::is_counted(row)) return flows_[key];
    const std::uint64_t of_rank = mix_bits(key + static_cast<std::uint64_t>(*row.rank));
    return flows_[CollectiveKey::nth(key, spans_of_key_[of_rank]++)];
}

void TraceWriter::append_arrow(std::string_view phase, const Flow& flow) {
    append_head(phase, flow.last, flow.last_ns);
    fmt::format_to(std::back_inserter(events_), R"(,"id":{},{}"cat":"collective","name":"collective"}})", flow.id,
                   phase == "f" ? R"("bp":"e",)" : "");
}

void TraceWriter::append_flow_ends() {
    for (const auto& [key, flow] : flows_)
        if (flow.arrows > 0) append_arrow("f", flow);
    flows_.clear();
    spans_of_key_.clear();
    joined_flows_ = 0;
}

}  // namespace cep::tool
