// SPDX-License-Identifier: Apache-2.0
//
// Comparison: what changed from job A to job B, and what of it is more than chance.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compare/job_steps.hpp"
#include "read/coverage.hpp"
#include "stats/rank_test.hpp"

namespace cep::compare {

/// What the verdict says of one job, as far as a comparison shows it.
struct VerdictFacts {
    std::string bound;
    std::optional<std::vector<std::string>> stragglers;  // "rank 5 in forward"; nothing where they cannot be told
};

/// One of the two jobs.
struct JobFacts {
    std::string name;  // as the command was told
    tool::InputCounts inputs;
    tool::Coverage coverage;
    JobSteps steps;
    std::optional<VerdictFacts> verdict;
};

struct CompareOptions {
    static constexpr double alpha = 0.05;
    static constexpr std::size_t min_blocks = 5;     // fewer cannot be significant beside a few other phases
    static constexpr std::size_t max_blocks = 2000;  // of one job: the shift looks at every pair

    std::size_t block_steps = 0;  // 0: from the data
    double threshold = 0;         // smaller changes are none, as a fraction of A
};

/// One phase in one of the jobs.
struct PhaseSide {
    std::size_t steps = 0;
    std::size_t blocks = 0;
    double median_ms = 0;
    std::optional<Interval> interval_ms;  // of the median, 95 %
    std::optional<double> share;          // of the step
};

/// `same`: not told apart; nothing is proved by it.
enum class Finding : std::uint8_t { same, slower, faster, undecided, only_a, only_b };
inline constexpr std::string_view finding_names[] = {"same", "slower", "faster", "undecided", "only_a", "only_b"};

/// What became of a phase, or of the whole step. Changes are relative to the median of A.
struct Change {
    std::string name;
    schema::Kind kind = schema::Kind::other;
    PhaseSide a;
    PhaseSide b;
    Finding finding = Finding::undecided;
    std::string reason;            // why it is undecided
    double correlation_steps = 1;  // integrated autocorrelation time
    std::size_t block_steps = 0;
    std::optional<RankTest> test;  // of the medians of blocks
    std::optional<double> change;  // the test's shift
    std::optional<Interval> change_interval;
    double corrected_p = 1;        // phases: by Holm over all that were tested. The step: p
    bool below_threshold = false;  // more than chance, and too small to count

    [[nodiscard]] bool in_both() const { return finding != Finding::only_a && finding != Finding::only_b; }
};

struct Comparison {
    JobFacts a;
    JobFacts b;
    CompareOptions options;
    std::optional<Change> step;
    std::vector<Change> phases;  // those that the step is longest in first
    std::string headline;        // sentences that say it all

    [[nodiscard]] bool any(Finding finding) const;
};

[[nodiscard]] Comparison compare_jobs(JobFacts a, JobFacts b, const CompareOptions& options);

}  // namespace cep::compare
