// SPDX-License-Identifier: Apache-2.0
#include "read/row_limits.hpp"

#include <cmath>
#include <utility>

namespace cep::tool::limits {
namespace {

bool exceeds(const std::optional<std::int64_t>& number, std::int64_t least, std::int64_t most) {
    return number && (*number < least || *number > most);
}

}  // namespace

std::string_view find_excess(const Row& row) {
    for (const IntegerLimit& limit : integers)
        if (exceeds(row.*limit.member, limit.least, limit.most)) return limit.key;
    for (const DecimalLimit& limit : decimals)
        if (!(row.*limit.member >= limit.least && row.*limit.member <= limit.most)) return limit.key;
    return row.lag_ms && !(std::abs(*row.lag_ms) <= max_interval_ms) ? "lag_ms" : "";
}

std::string_view find_excess(const RunInfo& run) {
    using Key = std::pair<std::string_view, std::optional<std::int64_t>>;
    for (const auto& [key, time] : {Key{"start_unix_ns", run.start_unix_ns}, Key{"clock_error_ns", run.clock_error_ns}})
        if (exceeds(time, -max_time_ns, max_time_ns)) return key;
    for (const auto& [key, coordinate] :
         {Key{"dp", run.dp}, Key{"tp", run.tp}, Key{"pp", run.pp}, Key{"ep", run.ep}, Key{"cp", run.cp}})
        if (exceeds(coordinate, -max_coordinate, max_coordinate)) return key;
    for (const auto& [key, number] :
         {Key{"attempt", run.attempt}, Key{"world_size", run.world_size}, Key{"start_step", run.start_step},
          Key{"end_step", run.end_step}, Key{"record_every_n_steps", run.record_every_n_steps}})
        if (exceeds(number, -max_index, max_index)) return key;
    return "";
}

bool is_stride_change(const StrideChange& change) {
    const auto is_stride = [](std::int64_t stride) { return stride >= 1 && stride <= max_index; };
    return is_stride(change.from) && is_stride(change.to) && is_stride(change.longest) && change.max_percent > 0 &&
           change.max_percent <= 100;
}

}  // namespace cep::tool::limits
