// SPDX-License-Identifier: Apache-2.0
//
// Comparison: what changed from job A to job B, and which changes are significant.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compare/job_steps.hpp"
#include "read/coverage.hpp"
#include "stats/rank_test.hpp"
#include "verdict/verdict.hpp"

namespace cep::compare {

/// One of the two jobs.
struct JobFacts {
    std::string name;  // as on the command line
    tool::InputCounts inputs;
    tool::Coverage coverage;
    JobSteps steps;
    tool::Verdict verdict;
};

struct CompareOptions {
    static constexpr double alpha = 0.05;
    static constexpr std::size_t min_blocks = 5;     // fewer cannot be significant beside a few other phases
    static constexpr std::size_t max_blocks = 2000;  // of one job: the shift looks at every pair

    std::size_t block_steps = 0;  // 0: from the data
    double threshold = 0;         // smaller changes do not count; a fraction of A
};

/// One phase in one of the jobs.
struct PhaseSide {
    std::size_t steps = 0;
    std::size_t blocks = 0;
    double median_ms = 0;
    std::optional<ConfidenceInterval> interval_ms;  // of the median, 95 %
    std::optional<double> share;                    // of the step
};

/// `same`: the change is not significant, which does not prove that there is none.
enum class Outcome : std::uint8_t { same, slower, faster, undecided, only_a, only_b };
inline constexpr std::string_view outcome_names[] = {"same", "slower", "faster", "undecided", "only_a", "only_b"};

/// The change of a phase, or of the whole step. Changes are relative to the median of A.
struct Change {
    std::string name;
    schema::Kind kind = schema::Kind::other;
    PhaseSide a;
    PhaseSide b;
    Outcome outcome = Outcome::undecided;
    std::string reason;            // why it is undecided
    double correlation_steps = 1;  // integrated autocorrelation time
    std::size_t block_steps = 0;
    std::optional<RankTest> test;  // of the medians of blocks
    std::optional<double> change;  // the test's shift
    std::optional<ConfidenceInterval> change_interval;
    double corrected_p = 1;        // phases: by Holm over all that were tested. The step: p
    bool below_threshold = false;  // significant, and too small to count

    [[nodiscard]] bool in_both() const { return outcome != Outcome::only_a && outcome != Outcome::only_b; }
};

struct Comparison {
    JobFacts a;
    JobFacts b;
    CompareOptions options;
    std::optional<Change> step;
    std::vector<Change> phases;  // the longest first

    [[nodiscard]] bool any(Outcome outcome) const;
};

[[nodiscard]] Comparison compare_jobs(JobFacts a, JobFacts b, const CompareOptions& options);

}  // namespace cep::compare
