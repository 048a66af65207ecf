// SPDX-License-Identifier: Apache-2.0
#include "read/loss.hpp"

#include <string_view>

#include "base/units.hpp"

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
    dropped_ring += stats.dropped_ring;
    dropped_slots += stats.dropped_slots;
    dropped_pool += stats.dropped_pool;
    dropped_file += stats.dropped_file;
    dropped_io += stats.dropped_io;
    dropped_meta += stats.dropped_meta;
    capture_skipped += stats.capture_skipped;
    cuda_errors += stats.cuda_errors;
    abandoned += stats.abandoned;
    recorded += stats.recorded;
    written += stats.written;
    self_ms += stats.self_ms;
    trainer_ms += stats.trainer_ms;
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
