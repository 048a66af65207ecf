// SPDX-License-Identifier: Apache-2.0
#include "read/loss.hpp"

#include "base/units.hpp"
#include "read/row_keys.hpp"

namespace cep::tool {
namespace {

void append(std::string& text, std::uint64_t count, std::string_view what) {
    if (count == 0) return;
    if (!text.empty()) text += ", ";
    text += format_count(count) + " " + std::string(what);
}

void append_cause(std::string& text, std::string_view cause, std::uint64_t count) {
    if (count == 0) return;
    if (!text.empty()) text += ", ";
    text += std::string(cause) + " " + format_count(count);
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
    append_cause(causes, "ring full", dropped_ring);
    append_cause(causes, "too many open", dropped_slots);
    append_cause(causes, "no event", dropped_pool);
    append_cause(causes, "file limit", dropped_file);
    append_cause(causes, "write error", dropped_io);
    std::string text;
    append(text, dropped(), "dropped");
    if (!causes.empty()) text += " (" + causes + ")";
    append(text, abandoned, "abandoned");
    append(text, capture_skipped, "skipped in graph capture");
    append(text, cuda_errors, cuda_errors == 1 ? "CUDA error" : "CUDA errors");
    append(text, dropped_meta, "without their metadata");
    return text;
}

}  // namespace cep::tool
