// SPDX-License-Identifier: Apache-2.0
#include "compare/job_steps.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/failure.hpp"
#include "stats/quantiles.hpp"

namespace cep::compare {
namespace {

using tool::PhaseSeries;
using tool::RunSeries;
using tool::Sample;

struct StepTime {
    std::int64_t step = 0;
    double duration_ms = 0;
};

bool before(const StepTime& a, const StepTime& b) {
    return a.step < b.step;
}

/// One phase of all ranks: for each rank and step, the time of all its spans.
class StepTimes {
  public:
    void add(std::int64_t step, double duration_ms) { of_rank_.push_back({step, duration_ms}); }

    void end_rank() {
        std::stable_sort(of_rank_.begin(), of_rank_.end(), before);
        const std::size_t first = all_.size();
        for (const StepTime& one : of_rank_) {
            if (all_.size() > first && all_.back().step == one.step) {
                all_.back().duration_ms += one.duration_ms;
            } else {
                all_.push_back(one);
            }
        }
        of_rank_.clear();
    }

    [[nodiscard]] PhaseSteps medians(std::string name, schema::Kind kind) {
        PhaseSteps phase{std::move(name), kind, {}, {}};
        std::stable_sort(all_.begin(), all_.end(), before);
        std::size_t most = 0;
        for_steps([&most](std::int64_t, std::size_t first, std::size_t last) { most = std::max(most, last - first); });
        std::vector<double> values;
        for_steps([&](std::int64_t step, std::size_t first, std::size_t last) {
            if (2 * (last - first) < most) return;
            values.clear();
            for (std::size_t i = first; i < last; ++i) values.push_back(all_[i].duration_ms);
            phase.steps.push_back(step);
            phase.durations_ms.push_back(tool::exact_quantile(values, 0.5));
        });
        return phase;
    }

  private:
    void for_steps(const std::function<void(std::int64_t, std::size_t, std::size_t)>& visit) const {
        for (std::size_t first = 0; first < all_.size();) {
            std::size_t last = first;
            while (last < all_.size() && all_[last].step == all_[first].step) ++last;
            visit(all_[first].step, first, last);
            first = last;
        }
    }

    std::vector<StepTime> of_rank_;
    std::vector<StepTime> all_;
};

PhaseSteps collect_phase(const tool::JobParts& parts, const std::string& name, schema::Kind kind) {
    StepTimes times;
    for (const auto& [rank, all_series] : parts.ranks) {
        for (const RunSeries& series : all_series)
            for (const PhaseSeries& phase : series.phases)
                if (phase.name == name)
                    for (const Sample sample : phase.samples)
                        times.add(series.steps[sample.step_index], sample.duration_ms);
        times.end_rank();
    }
    return times.medians(name, kind);
}

/// Of spans inside each other, a step is the sum of the outermost that were recorded.
PhaseSteps sum_outermost(const tool::JobParts& parts) {
    std::uint32_t outermost = Sample::max_depth;
    for (const auto& [rank, all_series] : parts.ranks)
        for (const RunSeries& series : all_series)
            for (const PhaseSeries& phase : series.phases)
                for (const Sample sample : phase.samples) outermost = std::min(outermost, sample.depth());
    StepTimes times;
    for (const auto& [rank, all_series] : parts.ranks) {
        for (const RunSeries& series : all_series)
            for (const PhaseSeries& phase : series.phases)
                for (const Sample sample : phase.samples)
                    if (sample.depth() == outermost) times.add(series.steps[sample.step_index], sample.duration_ms);
        times.end_rank();
    }
    return times.medians("step", schema::Kind::step);
}

struct PhaseFacts {
    std::array<std::uint64_t, schema::kind_names.size()> kinds{};
    double total_ms = 0;

    [[nodiscard]] schema::Kind kind() const {
        return static_cast<schema::Kind>(std::max_element(kinds.begin(), kinds.end()) - kinds.begin());
    }
};

std::map<std::string, PhaseFacts> collect_facts(const tool::JobParts& parts) {
    std::map<std::string, PhaseFacts> facts;
    for (const auto& [rank, all_series] : parts.ranks)
        for (const RunSeries& series : all_series)
            for (const PhaseSeries& phase : series.phases) {
                if (phase.samples.empty()) continue;
                PhaseFacts& of_phase = facts[phase.name];
                of_phase.kinds[static_cast<std::size_t>(phase.kind)] += phase.samples.size();
                for (const Sample sample : phase.samples) of_phase.total_ms += sample.duration_ms;
            }
    return facts;
}

// With step spans inside step spans, the outermost ones are the longest in all.
std::string longest_step_name(const std::map<std::string, PhaseFacts>& facts) {
    const PhaseFacts* longest = nullptr;
    std::string name;
    for (const auto& [phase, of_phase] : facts) {
        if (of_phase.kind() != schema::Kind::step) continue;
        if (longest != nullptr && of_phase.total_ms <= longest->total_ms) continue;
        longest = &of_phase;
        name = phase;
    }
    return name;
}

std::vector<std::int64_t> all_steps(const JobSteps& job) {
    std::set<std::int64_t> steps(job.step.steps.begin(), job.step.steps.end());
    for (const PhaseSteps& phase : job.phases) steps.insert(phase.steps.begin(), phase.steps.end());
    return {steps.begin(), steps.end()};
}

}  // namespace

JobSteps collect_steps(const tool::JobParts& parts, bool all_phases) {
    if (parts.has_histograms())
        throw tool::UsageError(
            "more durations than are kept, and a comparison needs every one: choose some with --steps, --ranks or "
            "--phases, or keep more with --max-samples");
    const std::map<std::string, PhaseFacts> facts = collect_facts(parts);
    JobSteps job;
    const std::string step_name = longest_step_name(facts);
    if (!step_name.empty()) {
        job.step = collect_phase(parts, step_name, schema::Kind::step);
    } else if (all_phases) {
        job.step_is_a_sum = true;
        job.step = sum_outermost(parts);
    }
    for (const auto& [name, of_phase] : facts)
        if (name != step_name) job.phases.push_back(collect_phase(parts, name, of_phase.kind()));
    job.recorded = all_steps(job);
    return job;
}

}  // namespace cep::compare
