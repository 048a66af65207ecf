// SPDX-License-Identifier: Apache-2.0
//
// Row keys: the keys of rows whose values have members in Row, RunInfo and StatsRow, and the limits of their
// numbers.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "read/row.hpp"

namespace cep::tool {

/// A member of a struct, and its key in JSON: a table of them serves who reads and who writes.
template <typename Struct, typename Value>
struct Member {
    std::string_view key;
    Value Struct::*member;
};

template <typename Struct, typename Value>
[[nodiscard]] constexpr Member<Struct, Value> member(std::string_view key, Value Struct::*pointer) {
    return {key, pointer};
}

/// Calls `use(member)` for each member of a tuple of them, in their order.
template <typename Members, typename Use>
constexpr void for_each_member(const Members& members, Use use) {
    std::apply([&use](const auto&... each) { (use(each), ...); }, members);
}

/// Calls `use(member)` for each member in turn, until it returns true.
template <typename Members, typename Use>
constexpr void find_member(const Members& members, Use use) {
    std::apply([&use](const auto&... each) { static_cast<void>((use(each) || ...)); }, members);
}

/// A number beyond its limits is damage: the row is skipped. Within them, sums and differences of times in int64
/// nanoseconds cannot overflow.
namespace limits {

inline constexpr std::int64_t max_time_ns = 4'000'000'000'000'000'000;  // UNIX time: the year 2096
inline constexpr double max_interval_ms = 1e11;                         // three years
inline constexpr std::int64_t max_bytes = std::int64_t{1} << 50;        // of one transfer
inline constexpr std::int64_t max_index = std::int64_t{1} << 62;        // differences of two fit
inline constexpr std::int64_t max_coordinate = INT32_MAX;               // in the parallel layout
inline constexpr double above_0 = std::numeric_limits<double>::denorm_min();

/// Whether the library can have written it.
[[nodiscard]] constexpr bool is_stride_change(const StrideChange& change) {
    const auto is_stride = [](std::int64_t stride) { return stride >= 1 && stride <= max_index; };
    return is_stride(change.from) && is_stride(change.to) && is_stride(change.longest) && change.max_percent > 0 &&
           change.max_percent <= 100;
}

}  // namespace limits

/// That a member of this type is, or has.
template <typename Value>
using NumberOf = std::conditional_t<std::is_same_v<Value, double> || std::is_same_v<Value, std::optional<double>>,
                                    double, std::int64_t>;

/// A key whose value is a number.
template <typename Struct, typename Value>
struct NumberKey : Member<Struct, Value> {
    using Number = NumberOf<Value>;
    Number least;
    Number most;

    [[nodiscard]] constexpr bool allows(Number number) const { return number >= least && number <= most; }
    [[nodiscard]] constexpr bool allows(const std::optional<Number>& number) const {
        return !number || allows(*number);
    }
};

/// One that has a member in Row.
template <typename Value>
struct RowKey : NumberKey<Row, Value> {
    bool (*is_in)(RowType);  // rows of which types have it
    std::string_view wrong;  // what is said where the value is no such number; "": it is ignored then
};
template <typename Value>
constexpr RowKey<Value> row_key(std::string_view key, Value Row::*member, NumberOf<Value> least, NumberOf<Value> most,
                                bool (*is_in)(RowType), std::string_view wrong = "") {
    return {{{key, member}, least, most}, is_in, wrong};
}

[[nodiscard]] constexpr bool is_any(RowType /*type*/) {
    return true;
}
[[nodiscard]] constexpr bool is_span(RowType type) {
    return type == RowType::span || type == RowType::open;
}
[[nodiscard]] constexpr bool is_counter(RowType type) {
    return type == RowType::counter;
}

inline constexpr std::tuple row_keys = {
    row_key("step", &Row::step, INT64_MIN, INT64_MAX, is_any, "step is not an integer"),
    row_key("rank", &Row::rank, 0, limits::max_index, is_any, "rank is not an integer"),
    row_key("start_ns", &Row::start_ns, -limits::max_time_ns, limits::max_time_ns, is_any),
    row_key("seq", &Row::seq, -limits::max_index, limits::max_index, is_span),
    row_key("depth", &Row::depth, -limits::max_index, limits::max_index, is_span),
    row_key("stream", &Row::stream, INT64_MIN, INT64_MAX, is_span),
    row_key("bytes", &Row::bytes, -limits::max_bytes, limits::max_bytes, is_span),
    row_key("coll", &Row::coll, -limits::max_index, limits::max_index, is_span),
    row_key("duration_ms", &Row::duration_ms, 0, limits::max_interval_ms, is_span, "duration_ms is not a number"),
    row_key("elapsed_ms", &Row::elapsed_ms, -limits::max_interval_ms, limits::max_interval_ms, is_span),
    row_key("value", &Row::value, std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max(), is_counter,
            "value is not a number"),
    row_key("lag_ms", &Row::lag_ms, -limits::max_interval_ms, limits::max_interval_ms, is_span),
    row_key("host_ms", &Row::host_ms, -limits::max_interval_ms, limits::max_interval_ms, is_span),
};

template <typename Of>
constexpr Member<RunInfo, std::string> run_key(std::string_view key, std::string Of::*member) {
    return {key, member};
}
template <typename Of, typename Value>
constexpr NumberKey<RunInfo, Value> run_key(std::string_view key, Value Of::*member, NumberOf<Value> least,
                                            NumberOf<Value> most) {
    return {{key, member}, least, most};
}

/// The keys of a run row.
inline constexpr std::tuple run_keys = {
    run_key("schema", &RunInfo::schema, INT64_MIN, INT64_MAX),
    run_key("run_id", &RunInfo::run_id),
    run_key("attempt", &RunInfo::attempt, -limits::max_index, limits::max_index),
    run_key("world_size", &RunInfo::world_size, -limits::max_index, limits::max_index),
    run_key("host", &RunInfo::host),
    run_key("dp", &RunInfo::dp, -limits::max_coordinate, limits::max_coordinate),
    run_key("tp", &RunInfo::tp, -limits::max_coordinate, limits::max_coordinate),
    run_key("pp", &RunInfo::pp, -limits::max_coordinate, limits::max_coordinate),
    run_key("ep", &RunInfo::ep, -limits::max_coordinate, limits::max_coordinate),
    run_key("cp", &RunInfo::cp, -limits::max_coordinate, limits::max_coordinate),
    run_key("flops_per_step", &RunInfo::flops_per_step, limits::above_0, schema::max_figure),
    run_key("hardware_flops_per_step", &RunInfo::hardware_flops_per_step, limits::above_0, schema::max_figure),
    run_key("peak_flops", &RunInfo::peak_flops, limits::above_0, schema::max_figure),
    run_key("tokens_per_step", &RunInfo::tokens_per_step, limits::above_0, schema::max_figure),
    run_key("pid", &RunInfo::pid, INT64_MIN, INT64_MAX),
    run_key("backend", &RunInfo::backend),
    run_key("device_name", &RunInfo::device_name),
    run_key("library_version", &RunInfo::library_version),
    run_key("start_unix_ns", &RunInfo::start_unix_ns, -limits::max_time_ns, limits::max_time_ns),
    run_key("clock_error_ns", &RunInfo::clock_error_ns, -limits::max_time_ns, limits::max_time_ns),
};
/// The keys of its "config".
inline constexpr std::tuple config_keys = {
    run_key("start_step", &RunInfo::start_step, -limits::max_index, limits::max_index),
    run_key("end_step", &RunInfo::end_step, -limits::max_index, limits::max_index),
    run_key("record_every_n_steps", &RunInfo::record_every_n_steps, -limits::max_index, limits::max_index),
};

/// A count of a stats row.
struct CountKey {
    std::string_view key;
    std::uint64_t StatsCounts::*member;
    std::string_view cause;  // of a loss: the key inside of "dropped" of a stats row

    [[nodiscard]] constexpr bool is_lost_spans() const { return !cause.empty() && cause != schema::dropped::meta; }
};
inline constexpr std::array<CountKey, 11> count_keys = {{
    {"recorded", &StatsCounts::recorded, ""},
    {"written", &StatsCounts::written, ""},
    {"dropped_ring", &StatsCounts::dropped_ring, schema::dropped::ring},
    {"dropped_slots", &StatsCounts::dropped_slots, schema::dropped::slots},
    {"dropped_pool", &StatsCounts::dropped_pool, schema::dropped::pool},
    {"dropped_file", &StatsCounts::dropped_file, schema::dropped::file},
    {"dropped_io", &StatsCounts::dropped_io, schema::dropped::io},
    {"dropped_meta", &StatsCounts::dropped_meta, schema::dropped::meta},
    {"capture_skipped", &StatsCounts::capture_skipped, ""},
    {"cuda_errors", &StatsCounts::cuda_errors, ""},
    {"abandoned", &StatsCounts::abandoned, ""},
}};
inline constexpr std::tuple self_time_keys = {
    member("self_ms", &StatsCounts::self_ms),
    member("trainer_ms", &StatsCounts::trainer_ms),
};

}  // namespace cep::tool
