// SPDX-License-Identifier: Apache-2.0
//
// Estimate: of a training that is planned, its figures, each with the formula that it comes from; of a job, how long
// its steps would take with other settings, by the replay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "estimate/formulas.hpp"
#include "model/job.hpp"
#include "show/document.hpp"

namespace cep::estimate {

struct BucketSize {
    double megabytes = 0;  // 2^20 bytes, as bucket_cap_mb
    double buckets = 0;
    double transfer_ms = 0;  // of all of them
    double exposed_ms = 0;   // beyond the end of backward
    double step_ms = 0;
};

struct Change {
    std::string key;   // in JSON
    std::string what;  // for people
    double ranks = 0;
    double step_ms = 0;
    double speed = 1;  // work that a rank does in a time, over what it does now
};

struct WhatIf {
    std::string reason;  // why nothing can be said; else ""
    double step_ms = 0;  // observed, in the steps that were replayed
    double error = 0;    // of the replay with the durations as they were, over what was observed
    std::vector<Change> changes;
    std::vector<BucketSize> buckets;
    double bucket_bytes = 0;         // of those that the job has most of
    bool latency_is_known = false;   // of a bucket
    std::vector<std::string> notes;  // what the figures rest on
};

/// `job`: one that keeps messages. `worlds`: numbers of ranks to try; none: half, twice, 4 and 8 times as many.
/// `left_out`: steps, ascending, that count for nothing.
[[nodiscard]] WhatIf find_what_if(const tool::Job& job, std::vector<std::uint64_t> worlds, std::size_t threads,
                                  std::span<const std::int64_t> left_out);

enum class Unit : std::uint8_t { number, flops, bytes, ms, share };

struct Figure {
    std::string key;  // of JSON and CSV, unique in its section
    std::string name;
    double value = 0;
    Unit unit = Unit::number;
    std::string how{};  // the formula, with its numbers or its source
};

struct Section {
    std::string key;
    std::string title;
    std::vector<Figure> figures;
};

struct Estimate {
    Training training;
    std::vector<Section> sections;
};

/// Throws UsageError where the model is not known, or numbers contradict each other.
[[nodiscard]] Estimate make_estimate(Training training);

[[nodiscard]] tool::Document make_document(Estimate estimate);
/// `job`: its name.
[[nodiscard]] tool::Document make_document(WhatIf what_if, const std::string& job);

}  // namespace cep::estimate
