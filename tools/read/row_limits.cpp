// SPDX-License-Identifier: Apache-2.0
#include "read/row_limits.hpp"

#include <cmath>
#include <type_traits>

#include "read/row_keys.hpp"

namespace cep::tool::limits {
namespace {

bool exceeds(const std::optional<std::int64_t>& number, std::int64_t least, std::int64_t most) {
    return number && (*number < least || *number > most);
}

}  // namespace

std::string_view find_excess(const Row& row) {
    for (const IntegerKey& key : integer_keys)
        if (exceeds(row.*key.member, key.least, key.most)) return key.key;
    for (const DecimalKey& key : decimal_keys)
        if (!(row.*key.member >= key.least && row.*key.member <= key.most)) return key.key;
    return row.lag_ms && !(std::abs(*row.lag_ms) <= max_interval_ms) ? "lag_ms" : "";
}

std::string_view find_excess(const RunInfo& run) {
    std::string_view excess;
    const auto check = [&]<typename Value>(const RunKey<Value>& key) {
        constexpr bool is_integer =
            std::is_same_v<Value, std::int64_t> || std::is_same_v<Value, std::optional<std::int64_t>>;
        if constexpr (is_integer)
            if (key.most < INT64_MAX && excess.empty() && exceeds(run.*key.member, -key.most, key.most))
                excess = key.key;
    };
    for_each_member(run_keys, check);
    for_each_member(config_keys, check);
    return excess;
}

bool is_stride_change(const StrideChange& change) {
    const auto is_stride = [](std::int64_t stride) { return stride >= 1 && stride <= max_index; };
    return is_stride(change.from) && is_stride(change.to) && is_stride(change.longest) && change.max_percent > 0 &&
           change.max_percent <= 100;
}

}  // namespace cep::tool::limits
