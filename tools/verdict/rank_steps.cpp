// SPDX-License-Identifier: Apache-2.0
#include "verdict/rank_steps.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace cep::tool {
namespace {

constexpr double not_known = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t tolerance_ns = 20'000;  // between the ends of spans that end with the same work
constexpr float idle_lag_ms = 0.05F;           // a launch takes a tenth of it: the device had waited
constexpr std::uint32_t least_group = 3;       // ranks; two may be neighbours of a pipeline
constexpr double small_lag = 0.02;             // of the phase before

std::int64_t nanoseconds(double ms) {
    return static_cast<std::int64_t>(ms * 1e6 + 0.5);
}

bool is_data(schema::Kind kind) {
    return kind == schema::Kind::data || kind == schema::Kind::memory;
}

}  // namespace

const RankStep& StepAnalyser::analyse(std::span<const StepSpan> spans, const std::vector<RankPhase>& phases) {
    start(phases);
    for (const StepSpan& span : spans) take(span, phases[span.phase]);
    if (has_starts_) {
        sort(local_);
        sort(comm_);
        keep_outermost();
        by_intervals();
    } else {
        keep_least_deep();
        by_durations();
    }
    return result_;
}

void StepAnalyser::start(const std::vector<RankPhase>& phases) {
    std::vector<LocalTime> local = std::move(result_.local);
    local.clear();
    result_ = {};
    result_.local = std::move(local);
    local_.clear();
    comm_.clear();
    only_groups_ = has_starts_ = true;
    has_step_ = false;
    step_ms_ = wait_ms_ = group_wait_ms_ = 0;
    step_ = {0, 0};
    if (guesses_.size() < phases.size()) {
        guesses_.resize(phases.size());
        places_.resize(phases.size());
    }
}

void StepAnalyser::take(const StepSpan& span, const RankPhase& phase) {
    const Sample& sample = span.sample;
    has_starts_ &= sample.has_start();
    if (phase.kind == schema::Kind::step) {
        if (phase.name != step_phase_) return;
        step_ms_ += sample.duration_ms;
        if (sample.has_start()) {
            const Interval whole{sample.start_ns, sample.start_ns + nanoseconds(sample.duration_ms)};
            step_ = has_step_ ? Interval{std::min(step_.begin_ns, whole.begin_ns), std::max(step_.end_ns, whole.end_ns)}
                              : whole;
        }
        has_step_ = true;
        return;
    }
    Item& item = (phase.kind == schema::Kind::comm ? comm_ : local_).emplace_back();
    item.sample = &sample;
    item.phase = span.phase;
    item.kind = phase.kind;
    item.clock = phase.clock;
    if (sample.has_start()) item.interval = {sample.start_ns, sample.start_ns + nanoseconds(sample.duration_ms)};
    if (phase.kind == schema::Kind::comm) find_transfer(item, collective_key(span.step, phase, sample));
}

// A collective begins with waiting, and ends with the transfer once all ranks are there.
void StepAnalyser::find_transfer(Item& item, Transfers::Key key) {
    const double duration_ms = item.sample->duration_ms;
    const Transfer transfer = transfers_.of(key, guesses_[item.phase]);
    result_.all_comm_ms += duration_ms;
    item.waiting_end_ns = item.interval.begin_ns;
    if (transfer.ranks == 0) return;
    const double waited_ms = std::max(0.0, duration_ms - transfer.ms);
    result_.matched_ms += duration_ms;
    wait_ms_ += waited_ms;
    item.waiting_end_ns += nanoseconds(waited_ms);
    item.is_group = transfer.ranks >= least_group;
    only_groups_ &= item.is_group;
    if (item.is_group) group_wait_ms_ += waited_ms;
}

void StepAnalyser::sort(std::vector<Item>& items) {
    const auto before = [](const Item& a, const Item& b) { return begins_before(a, b); };
    if (!std::is_sorted(items.begin(), items.end(), before)) std::sort(items.begin(), items.end(), before);
}

void StepAnalyser::keep_least_deep() {
    std::uint32_t least = Sample::max_depth;
    for (const Item& item : local_) least = std::min(least, item.sample->depth());
    std::erase_if(local_, [least](const Item& item) { return item.sample->depth() != least; });
}

// Spans of other threads have depths of their own, so that of two spans one is inside of the other only if it began
// later and ended earlier too. All before it began earlier.
void StepAnalyser::keep_outermost() {
    const auto is_as_deep = [this](const Item& item) { return item.sample->depth() == local_.front().sample->depth(); };
    if (std::all_of(local_.begin(), local_.end(), is_as_deep)) return;
    std::array<std::int64_t, Sample::max_depth + 1> ends_ns;  // the last one of those kept, by depth
    ends_ns.fill(std::numeric_limits<std::int64_t>::min());
    std::size_t kept = 0;
    for (const Item& item : local_) {
        const std::uint32_t depth = item.sample->depth();
        const std::int64_t end_ns = item.interval.end_ns;
        const bool inside = std::any_of(ends_ns.begin(), ends_ns.begin() + depth,
                                        [end_ns](std::int64_t other_ns) { return end_ns <= other_ns + tolerance_ns; });
        if (inside) continue;
        ends_ns[depth] = std::max(ends_ns[depth], end_ns);
        local_[kept++] = item;
    }
    local_.resize(kept);
}

LocalTime& StepAnalyser::local_time_of(std::uint32_t phase) {
    const std::uint32_t place = places_[phase];  // of an earlier step, if not of this one
    if (place < result_.local.size() && result_.local[place].phase == phase) return result_.local[place];
    places_[phase] = static_cast<std::uint32_t>(result_.local.size());
    result_.local.push_back({phase, 0, 0, 0, false});
    return result_.local.back();
}

void StepAnalyser::add_kind(schema::Kind kind, double own_ms) {
    if (kind == schema::Kind::compute) result_.compute_ms += own_ms;
    if (is_data(kind)) result_.data_ms += own_ms;
}

void StepAnalyser::by_durations() {
    double sum_ms = 0;
    for (const Item& item : local_) {
        LocalTime& time = local_time_of(item.phase);
        time.own_ms += item.sample->duration_ms;
        time.duration_ms += item.sample->duration_ms;
        ++time.spans;
        sum_ms += item.sample->duration_ms;
        add_kind(item.kind, item.sample->duration_ms);
    }
    for (const Item& item : comm_) result_.comm_ms += item.sample->duration_ms;
    sum_ms += result_.comm_ms;
    result_.step_ms = has_step_ ? step_ms_ : sum_ms > 0 ? sum_ms : not_known;
    if (has_step_) result_.uncovered_ms = std::max(0.0, step_ms_ - sum_ms);
    // Without times, what is more than the step must have been side by side.
    result_.overlap_ms = std::clamp(sum_ms - result_.step_ms, 0.0, result_.comm_ms);
    result_.exposed_ms = result_.comm_ms - result_.overlap_ms;
    if (!comm_.empty()) {
        const bool is_known = result_.matched_ms > 0;
        result_.wait_ms = is_known ? wait_ms_ : not_known;
        result_.group_wait_ms = is_known ? group_wait_ms_ : not_known;
    }
}

void StepAnalyser::by_intervals() {
    find_comm();
    local_set_.clear();
    Blocked all;
    std::size_t first_comm = 0;
    for (Item& item : local_) {
        while (first_comm < comm_.size() && comm_[first_comm].interval.begin_ns + tolerance_ns < item.interval.begin_ns)
            ++first_comm;
        const Blocked blocked = find_blocked(item, first_comm);
        all.ms += blocked.ms;
        all.wait_ms += blocked.wait_ms;
        all.group_wait_ms += blocked.group_wait_ms;
        take_local(item, blocked);
        append(local_set_, item.interval);
    }
    // What is blocked is communication inside of a phase.
    result_.overlap_ms = std::max(0.0, shared_ms(comm_set_, local_set_) - all.ms);
    result_.exposed_ms = std::max(0.0, result_.comm_ms - result_.overlap_ms);
    if (!comm_.empty()) find_waiting(all);
    find_step_ms();
    find_uncovered();
    find_on_device();
    find_idle();
    find_host_paced();
    find_late_host();
}

void StepAnalyser::take_local(Item& item, const Blocked& blocked) {
    item.own_ms = std::max(0.0, item.sample->duration_ms - blocked.ms);
    LocalTime& time = local_time_of(item.phase);
    time.own_ms += item.own_ms;
    time.duration_ms += item.sample->duration_ms;
    ++time.spans;
    add_kind(item.kind, item.own_ms);
}

void StepAnalyser::find_comm() {
    for (Intervals* set : {&comm_set_, &waits_, &group_waits_}) set->clear();
    for (const Item& item : comm_) {
        append(comm_set_, item.interval);
        append(waits_, item.waiting());
        if (item.is_group && !only_groups_) append(group_waits_, item.waiting());
    }
    result_.comm_ms = length_ms(comm_set_);
}

// What it waits for inside of phases, as far as that blocks them, and all between them.
void StepAnalyser::find_waiting(const Blocked& in_phases) {
    if (result_.matched_ms == 0) {
        result_.wait_ms = result_.group_wait_ms = not_known;
        return;
    }
    const double beside_ms = length_ms(waits_) - shared_ms(waits_, local_set_);
    const double group_beside_ms =
        only_groups_ ? beside_ms : length_ms(group_waits_) - shared_ms(group_waits_, local_set_);
    result_.wait_ms = beside_ms + in_phases.wait_ms;
    result_.group_wait_ms = group_beside_ms + in_phases.group_wait_ms;
}

// What the phase began on its own stream blocks it until it is done, as does all that it ends with; what it began on
// others, as CommQueue says. It is the same waiting that it does on each such stream.
void StepAnalyser::sort_by_what_they_block(const Item& local, std::size_t first_comm) {
    blocked_.clear();
    blocked_waits_.clear();
    blocked_group_waits_.clear();
    queues_.clear();
    for (std::size_t i = first_comm; i < comm_.size(); ++i) {
        const Item& item = comm_[i];
        if (item.interval.begin_ns > local.interval.end_ns + tolerance_ns) break;
        if (!local.interval.contains(item.interval, tolerance_ns)) continue;
        // By its depth, the thread was in both.
        const bool nested = item.sample->depth() > local.sample->depth();
        const bool beside = nested && item.sample->stream() != local.sample->stream();
        const bool at_end = local.interval.end_ns - item.interval.end_ns <= tolerance_ns;
        if (beside) {
            StreamQueues& queues = queues_on(item.sample->stream());
            const bool is_late = item.interval.begin_ns - queues.end_ns <= tolerance_ns;
            queues.end_ns = item.interval.end_ns;
            queues.ends_phase |= at_end;
            queues.all.add(item.waiting(), is_late);
            if (item.is_group) queues.group.add(item.waiting(), is_late);
        }
        if (!at_end && (!nested || beside)) continue;
        const std::int64_t begin_ns = beside ? item.waiting_end_ns : item.interval.begin_ns;
        blocked_.push_back(
            {std::max(begin_ns, local.interval.begin_ns), std::min(item.interval.end_ns, local.interval.end_ns)});
        if (beside) continue;
        blocked_waits_.push_back(item.waiting());
        if (item.is_group) blocked_group_waits_.push_back(item.waiting());
    }
}

StepAnalyser::Blocked StepAnalyser::find_blocked(const Item& local, std::size_t first_comm) {
    const bool none_inside =
        first_comm == comm_.size() || comm_[first_comm].interval.begin_ns > local.interval.end_ns + tolerance_ns;
    if (none_inside) return {};
    sort_by_what_they_block(local, first_comm);
    if (blocked_.empty() && queues_.empty()) return {};
    std::int64_t beside_ns = 0;
    std::int64_t group_beside_ns = 0;
    for (const StreamQueues& queues : queues_) {
        beside_ns = std::max(beside_ns, queues.all.waiting_ns(queues.ends_phase));
        group_beside_ns = std::max(group_beside_ns, queues.group.waiting_ns(queues.ends_phase));
    }
    for (Intervals* intervals : {&blocked_, &blocked_waits_, &blocked_group_waits_}) unite(*intervals);
    const double beside_ms = static_cast<double>(beside_ns) * 1e-6;
    return {length_ms(blocked_) + beside_ms, length_ms(blocked_waits_) + beside_ms,
            length_ms(blocked_group_waits_) + static_cast<double>(group_beside_ns) * 1e-6};
}

StepAnalyser::StreamQueues& StepAnalyser::queues_on(std::uint32_t stream) {
    for (StreamQueues& queues : queues_)
        if (queues.stream == stream) return queues;
    queues_.push_back({stream, 0, false, {}, {}});
    return queues_.back();
}

void StepAnalyser::find_step_ms() {
    std::int64_t begin_ns = has_step_ ? step_.begin_ns : std::numeric_limits<std::int64_t>::max();
    std::int64_t end_ns = has_step_ ? step_.end_ns : std::numeric_limits<std::int64_t>::min();
    for (const auto* items : {&local_, &comm_}) {
        if (!items->empty()) begin_ns = std::min(begin_ns, items->front().interval.begin_ns);
        for (const Item& item : *items) end_ns = std::max(end_ns, item.interval.end_ns);
    }
    if (begin_ns < end_ns) result_.extent = {begin_ns, end_ns};
    result_.step_ms = has_step_           ? step_ms_
                      : begin_ns < end_ns ? static_cast<double>(end_ns - begin_ns) * 1e-6
                                          : not_known;
}

void StepAnalyser::find_uncovered() {
    covered_ = local_set_;
    covered_.insert(covered_.end(), comm_set_.begin(), comm_set_.end());
    unite(covered_);
    const Interval whole = has_step_ ? step_ : result_.extent;
    result_.uncovered_ms =
        static_cast<double>(whole.end_ns - whole.begin_ns - length_within_ns(covered_, whole)) * 1e-6;
}

// Of those that begin together, local ones come first.
void StepAnalyser::find_on_device() {
    on_device_.clear();
    std::size_t next_comm = 0;
    const auto add_comm_before = [&](const Item* local) {
        for (; next_comm < comm_.size() && (local == nullptr || begins_before(comm_[next_comm], *local)); ++next_comm)
            if (comm_[next_comm].clock == Clock::gpu) on_device_.push_back(&comm_[next_comm]);
    };
    for (const Item& item : local_) {
        if (item.clock != Clock::gpu) continue;
        add_comm_before(&item);
        on_device_.push_back(&item);
    }
    add_comm_before(nullptr);
}

// Gaps between what the device did, before spans that it began as soon as they were launched; but not where the host
// was loading data, which is counted as that.
void StepAnalyser::find_idle() {
    gaps_.clear();
    std::int64_t end_ns = on_device_.empty() ? 0 : on_device_.front()->interval.begin_ns;
    for (const Item* item : on_device_) {
        if (item->interval.begin_ns > end_ns && item->sample->lag_ms < idle_lag_ms)
            append(gaps_, {end_ns, item->interval.begin_ns});
        end_ns = std::max(end_ns, item->interval.end_ns);
    }
    if (gaps_.empty()) return;
    on_host_.clear();
    for (const Item& item : local_)
        if (item.clock != Clock::gpu && item.kind == schema::Kind::data) append(on_host_, item.interval);
    result_.idle_ms = length_ms(gaps_) - shared_ms(gaps_, on_host_);
}

// A phase that the device began as soon as it was launched, and had done by the time that the next work was launched:
// its length is that of the host's work. (A trainer that synchronises between all phases looks the same.)
void StepAnalyser::find_host_paced() {
    for (std::size_t i = 0; i < on_device_.size(); ++i) {
        const Item& item = *on_device_[i];
        const Item& next = *on_device_[std::min(i + 1, on_device_.size() - 1)];
        const double limit_ms = std::max<double>(idle_lag_ms, small_lag * item.sample->duration_ms);
        if (!(item.sample->lag_ms < limit_ms && next.sample->lag_ms < limit_ms)) continue;
        if (item.kind == schema::Kind::compute) result_.compute_ms -= item.own_ms;
        if (is_data(item.kind)) result_.data_ms -= item.own_ms;
        if (item.kind != schema::Kind::comm) result_.idle_ms += item.own_ms;
    }
}

// A phase after which the device began the stream's next work as soon as that was launched ended when its host let it.
void StepAnalyser::find_late_host() {
    last_local_.clear();
    for (const Item* item : on_device_) {
        const auto before = std::find_if(last_local_.begin(), last_local_.end(), [item](const Item* last) {
            return last->sample->stream() == item->sample->stream();
        });
        const bool is_first = before == last_local_.end();
        if (!is_first && (*before)->interval.end_ns <= item->interval.begin_ns + tolerance_ns) {
            if (item->sample->lag_ms < idle_lag_ms) local_time_of((*before)->phase).is_host_late = true;
            last_local_.erase(before);
        } else if (!is_first) {
            continue;  // inside of it
        }
        if (item->kind != schema::Kind::comm) last_local_.push_back(item);
    }
}

}  // namespace cep::tool
