// SPDX-License-Identifier: Apache-2.0
#include "read/loss.hpp"

#include <fmt/core.h>

#include "base/units.hpp"
#include "read/row_keys.hpp"

namespace cep::tool {
namespace {

/// `text_of_count` has a replacement field for the count; nothing is appended of none.
void append(std::string& text, std::uint64_t count, fmt::format_string<std::string> text_of_count) {
    if (count > 0) text += (text.empty() ? "" : ", ") + fmt::format(text_of_count, format_count(count));
}

}  // namespace

void Loss::add(const StatsRow& stats) {
    for (const CountKey& key : count_keys) this->*key.member += stats.*key.member;
    for_each_member(self_time_keys, [&](const auto& time) { this->*time.member += stats.*time.member; });
}

std::uint64_t Loss::dropped() const {
    std::uint64_t sum = 0;
    for (const auto& [cause, count] : dropped_by_cause()) sum += count;
    return sum;
}

std::vector<std::pair<std::string_view, std::uint64_t>> Loss::dropped_by_cause() const {
    std::vector<std::pair<std::string_view, std::uint64_t>> counts;
    for (const CountKey& key : count_keys)
        if (key.is_lost_spans()) counts.emplace_back(key.cause, this->*key.member);
    return counts;
}

std::string Loss::describe() const {
    if (!any()) return "none";
    std::string causes;
    append(causes, dropped_ring, "ring full {}");
    append(causes, dropped_slots, "too many open {}");
    append(causes, dropped_pool, "no event {}");
    append(causes, dropped_file, "file limit {}");
    append(causes, dropped_io, "write error {}");
    std::string text;
    append(text, dropped(), "{} dropped");
    if (!causes.empty()) text += " (" + causes + ")";
    append(text, abandoned, "{} abandoned");
    append(text, capture_skipped, "{} skipped in graph capture");
    if (cuda_errors == 1) append(text, 1, "{} CUDA error");
    if (cuda_errors > 1) append(text, cuda_errors, "{} CUDA errors");
    append(text, dropped_meta, "{} without their metadata");
    return text;
}

}  // namespace cep::tool
