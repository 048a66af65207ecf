// SPDX-License-Identifier: Apache-2.0
#include "rank_steps.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

namespace cep::analysis {
namespace {

constexpr double not_known = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t tolerance_ns = 20'000;  // between the ends of spans that end with the same work
constexpr float idle_lag_ms = 0.05F;           // a launch takes a tenth of it: the device had waited
constexpr std::uint32_t least_group = 3;       // ranks; two may be neighbours of a pipeline
constexpr double small_lag = 0.02;             // of the phase before

std::int64_t nanoseconds(double ms) {
    return std::llround(ms * 1e6);
}

class StepAnalysis {
  public:
    StepAnalysis(const std::vector<StepSpan>& spans, const std::vector<RankPhase>& phases, std::string_view step_phase,
                 const Transfers& transfers)
        : phases_(phases), transfers_(transfers) {
        for (const StepSpan& span : spans) {
            const schema::Kind kind = phase_of(span).kind;
            has_starts_ &= span.sample->has_start();
            if (kind == schema::Kind::comm) {
                comm_.push_back(&span);
            } else if (kind != schema::Kind::step) {
                local_.push_back(&span);
            } else if (phase_of(span).name == step_phase) {
                step_ms_ += span.sample->duration_ms;
                has_step_ = true;
            }
        }
    }

    RankStep run() {
        keep_outermost();
        split_waiting();
        if (has_starts_) {
            by_intervals();
        } else {
            by_durations();
        }
        if (comm_.empty()) result_.wait_ms = 0;
        return std::move(result_);
    }

  private:
    [[nodiscard]] const RankPhase& phase_of(const StepSpan& span) const { return phases_[span.phase]; }
    [[nodiscard]] static bool by_begin(const StepSpan* a, const StepSpan* b) {
        if (a->sample->start_ns != b->sample->start_ns) return a->sample->start_ns < b->sample->start_ns;
        return a->sample->depth() < b->sample->depth();
    }

    // Spans of other threads have depths of their own, so that of two spans one is inside of the other only if it
    // began later and ended earlier too.
    void keep_outermost() {
        std::vector<const StepSpan*> outermost;
        if (has_starts_) {
            std::sort(local_.begin(), local_.end(), by_begin);
            std::sort(comm_.begin(), comm_.end(), by_begin);
            for (const StepSpan* span : local_) {
                const bool inside = std::any_of(outermost.begin(), outermost.end(), [&](const StepSpan* other) {
                    return other->sample->depth() < span->sample->depth() &&
                           other->interval().contains(span->interval(), tolerance_ns);
                });
                if (!inside) outermost.push_back(span);
            }
        } else {
            std::uint32_t least = Sample::max_depth;
            for (const StepSpan* span : local_) least = std::min(least, span->sample->depth());
            for (const StepSpan* span : local_)
                if (span->sample->depth() == least) outermost.push_back(span);
        }
        local_ = std::move(outermost);
    }

    // A collective begins with waiting, and ends with the transfer once all ranks are there.
    void split_waiting() {
        double wait_ms = 0;
        double group_wait_ms = 0;
        std::vector<Interval> group_waits;
        for (const StepSpan* span : comm_) {
            const double duration_ms = span->sample->duration_ms;
            result_.all_comm_ms += duration_ms;
            const Transfer transfer = transfers_.of(collective_key(span->step, phase_of(*span).name, *span->sample));
            if (transfer.ranks == 0) continue;
            result_.matched_ms += duration_ms;
            const double of_this_ms = std::max(0.0, duration_ms - transfer.ms);
            wait_ms += of_this_ms;
            if (transfer.ranks >= least_group) group_wait_ms += of_this_ms;
            if (!has_starts_) continue;
            waits_.push_back(waiting_of(*span));
            if (transfer.ranks >= least_group) group_waits.push_back(waits_.back());
        }
        waits_ = union_of(std::move(waits_));
        if (result_.matched_ms == 0) {
            result_.wait_ms = result_.group_wait_ms = not_known;
        } else {
            result_.wait_ms = has_starts_ ? length_ms(waits_) : wait_ms;
            result_.group_wait_ms = has_starts_ ? length_ms(union_of(std::move(group_waits))) : group_wait_ms;
        }
    }

    LocalTime& local_time_of(std::uint32_t phase) {
        for (LocalTime& time : result_.local)
            if (time.phase == phase) return time;
        result_.local.push_back({phase, 0, 0, 0});
        return result_.local.back();
    }

    void add_kind(const StepSpan& span, double own_ms) {
        const schema::Kind kind = phase_of(span).kind;
        if (kind == schema::Kind::compute) result_.compute_ms += own_ms;
        if (kind == schema::Kind::data || kind == schema::Kind::memory) result_.data_ms += own_ms;
    }

    void by_durations() {
        double sum_ms = 0;
        for (const StepSpan* span : local_) {
            LocalTime& time = local_time_of(span->phase);
            time.own_ms += span->sample->duration_ms;
            time.duration_ms += span->sample->duration_ms;
            ++time.spans;
            sum_ms += span->sample->duration_ms;
            add_kind(*span, span->sample->duration_ms);
        }
        for (const StepSpan* span : comm_) result_.comm_ms += span->sample->duration_ms;
        sum_ms += result_.comm_ms;
        result_.step_ms = has_step_ ? step_ms_ : sum_ms > 0 ? sum_ms : not_known;
        // Without times, what is more than the step must have been side by side.
        result_.overlap_ms = std::clamp(sum_ms - result_.step_ms, 0.0, result_.comm_ms);
        result_.exposed_ms = result_.comm_ms - result_.overlap_ms;
    }

    void by_intervals() {
        std::vector<Interval> local_intervals;
        std::vector<Interval> comm_intervals;
        std::vector<Interval> blocked;
        for (const StepSpan* span : comm_) comm_intervals.push_back(span->interval());
        for (const StepSpan* span : local_) {
            const Intervals waits = blocking(*span);
            const double own_ms = std::max(0.0, span->sample->duration_ms - length_ms(waits));
            LocalTime& time = local_time_of(span->phase);
            time.own_ms += own_ms;
            own_ms_.push_back(own_ms);
            time.duration_ms += span->sample->duration_ms;
            ++time.spans;
            add_kind(*span, own_ms);
            local_intervals.push_back(span->interval());
            blocked.insert(blocked.end(), waits.begin(), waits.end());
        }
        const Intervals comm = union_of(std::move(comm_intervals));
        const Intervals busy = difference_of(union_of(std::move(local_intervals)), union_of(std::move(blocked)));
        result_.comm_ms = length_ms(comm);
        result_.overlap_ms = length_ms(intersection_of(comm, busy));
        result_.exposed_ms = std::max(0.0, result_.comm_ms - result_.overlap_ms);
        find_step_ms();
        find_idle();
        find_host_paced();
    }

    [[nodiscard]] Intervals blocking(const StepSpan& local) const {
        const Interval phase = local.interval();
        std::vector<Interval> found;
        for (const StepSpan* span : comm_) {
            const Interval comm = span->interval();
            if (!phase.contains(comm, tolerance_ns)) continue;
            // By its depth, the thread was in both.
            const bool nested = span->sample->depth() > local.sample->depth();
            const bool same_stream = span->sample->stream() == local.sample->stream();
            const bool at_end = phase.end_ns - comm.end_ns <= tolerance_ns;
            if ((nested && same_stream) || at_end) {
                found.push_back(comm);
            } else if (nested) {
                found.push_back(waiting_of(*span));
            }
        }
        return intersection_of(union_of(std::move(found)), {phase});
    }

    /// What comes before its transfer; nothing where that is not known.
    [[nodiscard]] Interval waiting_of(const StepSpan& span) const {
        const Interval interval = span.interval();
        const Transfer transfer = transfers_.of(collective_key(span.step, phase_of(span).name, *span.sample));
        if (transfer.ranks == 0) return {interval.begin_ns, interval.begin_ns};
        return {interval.begin_ns, interval.end_ns - nanoseconds(transfer.ms)};
    }

    void find_step_ms() {
        result_.step_ms = has_step_ ? step_ms_ : not_known;
        if (has_step_) return;
        std::int64_t begin_ns = std::numeric_limits<std::int64_t>::max();
        std::int64_t end_ns = std::numeric_limits<std::int64_t>::min();
        for (const auto* spans : {&local_, &comm_})
            for (const StepSpan* span : *spans) {
                begin_ns = std::min(begin_ns, span->interval().begin_ns);
                end_ns = std::max(end_ns, span->interval().end_ns);
            }
        if (begin_ns < end_ns) result_.step_ms = static_cast<double>(end_ns - begin_ns) * 1e-6;
    }

    // Gaps between what the device did, before spans that it began as soon as they were launched; but not where the
    // host was loading data, which is counted as that.
    void find_idle() {
        std::vector<const StepSpan*> on_device;
        std::vector<Interval> on_host;
        for (const auto* spans : {&local_, &comm_})
            for (const StepSpan* span : *spans) {
                if (phase_of(*span).clock == Clock::gpu) {
                    on_device.push_back(span);
                } else if (phase_of(*span).kind == schema::Kind::data) {
                    on_host.push_back(span->interval());
                }
            }
        std::sort(on_device.begin(), on_device.end(), by_begin);
        std::vector<Interval> gaps;
        std::int64_t end_ns = on_device.empty() ? 0 : on_device.front()->interval().begin_ns;
        for (const StepSpan* span : on_device) {
            const Interval interval = span->interval();
            if (interval.begin_ns > end_ns && span->sample->lag_ms < idle_lag_ms)
                gaps.push_back({end_ns, interval.begin_ns});
            end_ns = std::max(end_ns, interval.end_ns);
        }
        result_.idle_ms = length_ms(difference_of(union_of(std::move(gaps)), union_of(std::move(on_host))));
    }

    // A phase that the device began as soon as it was launched, and had done by the time that the next work was
    // launched: its length is that of the host's work. (A trainer that synchronises between all phases looks the same.)
    void find_host_paced() {
        std::vector<std::pair<const StepSpan*, double>> on_device;  // with own time, 0 of communication
        for (std::size_t i = 0; i < local_.size(); ++i)
            if (phase_of(*local_[i]).clock == Clock::gpu) on_device.emplace_back(local_[i], own_ms_[i]);
        for (const StepSpan* span : comm_)
            if (phase_of(*span).clock == Clock::gpu) on_device.emplace_back(span, 0);
        std::stable_sort(on_device.begin(), on_device.end(),
                         [](const auto& a, const auto& b) { return by_begin(a.first, b.first); });
        for (std::size_t i = 0; i < on_device.size(); ++i) {
            const auto& [span, own_ms] = on_device[i];
            const double limit_ms = std::max<double>(idle_lag_ms, small_lag * span->sample->duration_ms);
            const StepSpan* next = i + 1 < on_device.size() ? on_device[i + 1].first : span;
            if (!(span->sample->lag_ms < limit_ms && next->sample->lag_ms < limit_ms)) continue;
            const schema::Kind kind = phase_of(*span).kind;
            if (kind == schema::Kind::compute) result_.compute_ms -= own_ms;
            if (kind == schema::Kind::data || kind == schema::Kind::memory) result_.data_ms -= own_ms;
            if (kind != schema::Kind::comm) result_.idle_ms += own_ms;
        }
    }

    const std::vector<RankPhase>& phases_;
    const Transfers& transfers_;
    std::vector<const StepSpan*> local_;
    std::vector<const StepSpan*> comm_;
    Intervals waits_;
    std::vector<double> own_ms_;  // of local_
    bool has_starts_ = true;
    bool has_step_ = false;
    double step_ms_ = 0;
    RankStep result_;
};

std::uint32_t hash_of(std::string_view name, std::uint32_t seq) {
    const std::size_t hash = std::hash<std::string_view>{}(name)*0x9e3779b97f4a7c15U + seq * 0x2545f4914f6cdd1dU;
    return static_cast<std::uint32_t>(hash >> 32 | 1U);
}

}  // namespace

Interval StepSpan::interval() const {
    return {sample->start_ns, sample->start_ns + nanoseconds(sample->duration_ms)};
}

Transfers::Key collective_key(std::uint32_t step, std::string_view phase, const Sample& sample) {
    return {step, sample.collective != 0 ? sample.collective : hash_of(phase, sample.seq())};
}

RankStep analyse_step(const std::vector<StepSpan>& spans, const std::vector<RankPhase>& phases,
                      std::string_view step_phase, const Transfers& transfers) {
    return StepAnalysis(spans, phases, step_phase, transfers).run();
}

}  // namespace cep::analysis
