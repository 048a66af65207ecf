// SPDX-License-Identifier: Apache-2.0
//
// Comparison: what changed from job A to job B, and which changes are significant.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compare/job_steps.hpp"
#include "model/settings.hpp"
#include "read/coverage.hpp"
#include "show/document.hpp"
#include "stats/confidence.hpp"
#include "verdict/verdict.hpp"

namespace cep::compare {

using tool::ConfidenceInterval;

/// One of the two jobs.
struct JobFacts {
    std::string name;  // as on the command line
    tool::InputCounts inputs;
    tool::Coverage coverage;
    JobSteps steps;
    tool::Verdict verdict;
    tool::Settings settings{};
};

struct CompareOptions {
    static constexpr double alpha = 0.05;
    static constexpr std::size_t min_steps = 5;

    std::size_t block_steps = 0;  // 0: from the data
    double threshold = 0;         // smaller changes do not count; a fraction of A
};

/// One phase in one of the jobs.
struct PhaseSide {
    std::size_t steps = 0;   // that have it
    std::size_t blocks = 0;  // as many fill the recorded steps
    double mean_ms = 0;      // of all recorded steps
    ConfidenceInterval mean_interval_ms;
    double median_ms = 0;                           // of the steps that have it
    std::optional<ConfidenceInterval> interval_ms;  // of the median, 95 %
    double p99_ms = 0;
    std::optional<double> share;  // of the step
};

/// `same`: the change is not significant, which does not prove that there is none.
enum class Outcome : std::uint8_t { same, slower, faster, undecided, only_a, only_b };
inline constexpr std::string_view outcome_names[] = {"same", "slower", "faster", "undecided", "only_a", "only_b"};

/// What is known of a change beside its size.
struct ChangeTest {
    double p = 1;              // of no change of the mean, two-sided
    double corrected_p = 1;    // phases: by Holm over all that were tested. The step: p
    double u = 0;              // pairs of steps in which B's takes longer; equal ones count half
    double rank_biserial = 0;  // from −1 (B's is shorter in every pair) to 1
    double shift_ms = 0;       // of the mean
    ConfidenceInterval shift_interval_ms;
};

/// The change of a phase, or of the whole step: of the mean time for the same work, relative to A.
struct Change {
    std::string name;
    schema::Kind kind = schema::Kind::other;
    PhaseSide a;
    PhaseSide b;
    Outcome outcome = Outcome::undecided;
    std::string reason;            // why it is undecided
    double correlation_steps = 1;  // so many steps are worth one independent one
    std::size_t block_steps = 0;
    std::optional<ChangeTest> test;
    std::optional<double> change;
    std::optional<ConfidenceInterval> change_interval;
    bool below_threshold = false;  // significant, and too small to count

    [[nodiscard]] bool in_both() const { return outcome != Outcome::only_a && outcome != Outcome::only_b; }
};

/// What the times of B are multiplied by, so that they are for the work of a step of A.
struct SameWork {
    std::string_view unit = "step";  // or "token", "FLOP": for which the times are
    bool of_devices = false;         // times are those of all devices together, as the jobs have different numbers
    double factor = 1;

    [[nodiscard]] bool is_step() const { return unit == "step"; }
};

/// One piece of the ledger, of a step. The differences add up to the change of the mean step.
struct PieceChange {
    tool::TimeKind piece = tool::TimeKind::compute;
    double a_ms = 0;
    double b_ms = 0;
    double difference_ms = 0;  // for the work of a step of A
};

struct Comparison {
    JobFacts a;
    JobFacts b;
    CompareOptions options;
    SameWork same_work;
    std::optional<Change> step;
    std::vector<Change> phases;       // the longest first
    std::vector<PieceChange> pieces;  // that either job has; none where there is no step to compare

    [[nodiscard]] bool any(Outcome outcome) const;
};

/// What a comparison takes from one job. `name`: as on the command line; `side`: "A" or "B"; `command` begins messages.
/// Throws what collect_steps() throws.
[[nodiscard]] JobFacts facts_of_job(std::string_view command, const std::string& side, const std::string& name,
                                    const tool::Job& job, tool::Verdict verdict);
[[nodiscard]] Comparison compare_jobs(JobFacts a, JobFacts b, const CompareOptions& options);

/// JSON has schema cep.compare/1. CSV has a line for the step and one for each phase.
[[nodiscard]] tool::Document make_document(Comparison comparison);

/// A setting that both jobs have with other values, or one of them.
struct SettingChange {
    std::string name;
    std::string a;  // "not set" where it has none
    std::string b;
};
/// None where a job was recorded without its settings.
[[nodiscard]] std::vector<SettingChange> changed_settings(const tool::Settings& a, const tool::Settings& b);

/// What changed: "Steps take 4.2 % less time in B (130.0 → 124.5 ms a step; 95 % interval 3.1 % to 5.3 %)."
[[nodiscard]] std::string describe_step(const Comparison& comparison);

/// Where the change comes from: settings that differ, pieces of the ledger, typical step and tail, the phases that
/// changed most, the verdict.
[[nodiscard]] std::vector<std::string> describe_reasons(const Comparison& comparison);

/// "rank 5 in forward"; nothing where the verdict does not know.
[[nodiscard]] std::optional<std::vector<std::string>> name_stragglers(const tool::Verdict& verdict);

}  // namespace cep::compare
