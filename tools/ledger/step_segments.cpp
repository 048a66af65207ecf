// SPDX-License-Identifier: Apache-2.0
#include "ledger/step_segments.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace cep::tool {
namespace {

std::int64_t nanoseconds(double ms) {
    return static_cast<std::int64_t>(ms * 1e6 + 0.5);
}

}  // namespace

std::int64_t SegmentBuilder::Item::launch_ns() const {
    return std::isnan(sample->lag_ms) ? SpanSegment::no_launch : interval.begin_ns - nanoseconds(sample->lag_ms);
}

// Flattened, as calls for each span take time.
[[gnu::flatten]] const StepSegments& SegmentBuilder::build(std::span<const StepSpan> spans,
                                                           const std::vector<RankPhase>& phases,
                                                           const std::vector<PhaseUse>& uses, bool follows) {
    uses_ = &uses;
    start(phases);
    if (follows && device_end_ns_ > 0) queue_.take_earlier(device_end_ns_);
    device_end_ns_ = 0;
    for (const StepSpan& span : spans) take(span, phases[span.phase]);
    result_.step_span_ms = step_ms_;
    if (has_starts_) hide_queued();
    sort(local_);
    sort(comm_);
    has_starts_ ? keep_outermost() : keep_least_deep();
    has_starts_ ? find_step_ms() : find_untimed_step_ms();
    cut();
    if (!has_starts_) place_segments();
    result_.inner_waiting.is_known = comm_.empty() || result_.matched_ms > 0;
    return result_;
}

void SegmentBuilder::start(const std::vector<RankPhase>& phases) {
    std::vector<LocalTime> local = std::move(result_.local);
    std::vector<SpanSegment> segments = std::move(result_.segments);
    local.clear();
    segments.clear();
    result_ = {};
    result_.local = std::move(local);
    result_.segments = std::move(segments);
    local_.clear();
    inner_.clear();
    comm_.clear();
    has_starts_ = true;
    has_step_ = false;
    has_evaluation_ = false;
    step_ms_ = 0;
    queue_ = {};
    if (local_indices_.size() < phases.size()) local_indices_.resize(phases.size());
}

void SegmentBuilder::take(const StepSpan& span, const RankPhase& phase) {
    const Sample& sample = *span.sample;
    result_.step_index = span.step;
    has_starts_ &= sample.has_start();
    const bool is_step = phase.kind == schema::Kind::step && phase.name == reading_.step_phase;
    is_step ? queue_.take_step(sample, phase.clock) : queue_.take_row(sample, phase.clock);
    if (phase.clock == Clock::gpu && sample.has_start())
        device_end_ns_ = std::max(device_end_ns_, sample.interval().end_ns);
    if (phase.kind == schema::Kind::step && reading_.encloses) {
        if (!is_step) return;
        step_ms_ += sample.duration_ms;
        if (!has_step_) step_ = sample.interval();
        step_.include(sample.interval());
        has_step_ = true;
        return;
    }
    Item& item = (phase.kind == schema::Kind::comm ? comm_ : local_).emplace_back();
    item.sample = &sample;
    item.phase = span.phase;
    item.kind = phase.kind != schema::Kind::step                  ? phase.kind
                : (*uses_)[span.phase].piece == TimeKind::compute ? schema::Kind::compute
                                                                  : schema::Kind::other;
    item.clock = phase.clock;
    item.blocks = phase.blocks;
    const std::vector<std::string>& others = reading_.of_other_threads;
    item.is_evaluation = (*uses_)[span.phase].piece == TimeKind::evaluation &&
                         std::find(others.begin(), others.end(), phase.name) == others.end();
    has_evaluation_ |= item.is_evaluation;
    item.interval = sample.interval();
    item.duration_ms = sample.duration_ms;
    phase.kind == schema::Kind::comm ? find_transfer(item) : local_time_of(item.phase).add_row(sample.seq());
}

void SegmentBuilder::hide_queued() {
    for (Item& item : local_) {
        if (item.clock != Clock::host) continue;
        const Interval seen = queue_.seen_of(item.interval);
        if (seen.length_ns() == item.interval.length_ns()) continue;
        item.interval = seen;
        item.duration_ms = static_cast<double>(seen.length_ns()) * 1e-6;
    }
}

std::uint32_t LocalTime::all_spans() const {
    const std::uint32_t numbers = last_seq - first_seq + 1;
    return spans == rows && numbers > rows ? numbers : spans;
}

// A collective begins with waiting, and ends with the transfer once all ranks are there.
void SegmentBuilder::find_transfer(Item& item) {
    const double duration_ms = item.sample->duration_ms;
    const Collective& collective = collectives_[item.sample->collective];
    result_.all_comm_ms += duration_ms;
    item.waiting_end_ns = item.interval.begin_ns;
    const bool is_matched = collective.ranks > 0;
    if (!is_matched && piece_of(item) != TimeKind::bubble) return;
    const double transfer_ms = is_matched ? collective.transfer_ms : (*uses_)[item.phase].transfer_ms;
    const double waited_ms = std::max(0.0, duration_ms - transfer_ms);
    item.waiting_ns = nanoseconds(waited_ms);
    if (!is_matched) return;
    item.waiting_end_ns += item.waiting_ns;
    result_.matched_ms += duration_ms;
    item.is_for_late = piece_of(item) != TimeKind::bubble;
}

void SegmentBuilder::sort(std::vector<Item>& items) {
    const auto before = [](const Item& a, const Item& b) { return begins_before(a, b); };
    if (!std::is_sorted(items.begin(), items.end(), before)) std::sort(items.begin(), items.end(), before);
}

void SegmentBuilder::keep_least_deep() {
    std::uint32_t least = Sample::max_depth;
    for (const Item& item : local_) least = std::min(least, item.sample->depth());
    std::erase_if(local_, [least](const Item& item) { return item.sample->depth() != least; });
}

// What is more than the step must have been side by side: then it is hidden by what comes before it in the order of
// TimeKind.
void SegmentBuilder::place_segments() {
    std::int64_t at_ns = 0;
    std::stable_sort(result_.segments.begin(), result_.segments.end(),
                     [](const SpanSegment& a, const SpanSegment& b) { return a.piece < b.piece; });
    for (SpanSegment& segment : result_.segments) {
        segment.interval = {at_ns, at_ns + segment.interval.length_ns()};
        at_ns = segment.interval.end_ns;
    }
}

// Spans of other threads have depths of their own, so that of two spans one is inside of the other only if it began
// later and ended earlier too. All before it began earlier. What loads, copies or works on the host does no compute:
// that is another thread's.
void SegmentBuilder::keep_outermost() {
    const auto is_as_deep = [this](const Item& item) { return item.sample->depth() == local_.front().sample->depth(); };
    if (std::all_of(local_.begin(), local_.end(), is_as_deep)) return;
    using Ends = std::array<std::int64_t, Sample::max_depth + 1>;
    Ends ends_ns;          // the last one of those kept, by depth
    Ends compute_ends_ns;  // of those that may have compute inside
    ends_ns.fill(std::numeric_limits<std::int64_t>::min());
    compute_ends_ns = ends_ns;
    std::size_t kept = 0;
    for (const Item& item : local_) {
        const std::uint32_t depth = item.sample->depth();
        const std::int64_t end_ns = item.interval.end_ns;
        const Ends& outer_ns = item.is_compute() ? compute_ends_ns : ends_ns;
        const bool inside = std::any_of(outer_ns.begin(), outer_ns.begin() + depth,
                                        [end_ns](std::int64_t other_ns) { return end_ns <= other_ns + tolerance_ns; });
        if (inside) {
            inner_.push_back(item);
            continue;
        }
        ends_ns[depth] = std::max(ends_ns[depth], end_ns);
        const bool may_compute = item.is_compute() || item.kind == schema::Kind::other || item.is_evaluation;
        if (may_compute) compute_ends_ns[depth] = std::max(compute_ends_ns[depth], end_ns);
        local_[kept++] = item;
    }
    local_.resize(kept);
}

LocalTime& SegmentBuilder::local_time_of(std::uint32_t phase) {
    const std::uint32_t index = local_indices_[phase];  // of an earlier step, if not of this one
    if (index < result_.local.size() && result_.local[index].phase == phase) return result_.local[index];
    local_indices_[phase] = static_cast<std::uint32_t>(result_.local.size());
    result_.local.push_back({phase});
    return result_.local.back();
}

void SegmentBuilder::cut() {
    comm_set_.clear();
    for (const Item& item : comm_) append(comm_set_, item.interval);
    result_.comm_ms = length_ms(comm_set_);
    compute_set_.clear();
    for (const Item& item : local_)
        if (has_starts_ && item.is_compute()) append(compute_set_, item.interval);
    for (const Item& item : local_) add_own_work(item, cut_local(item));
    for (const Item& item : comm_) cut_comm(item);
    for (const Item& item : inner_) cut_inner(item);
}

// What compute hides costs nobody anything.
void SegmentBuilder::add_own_work(const Item& item, const WaitsBesideWork::Sum& beside) {
    std::int64_t ns = length_ns(blocked_) + beside.ns;
    if (!item.is_compute()) ns += length_within_ns(compute_set_, item.interval);
    const double own_ms = std::max(0.0, item.duration_ms - static_cast<double>(ns) * 1e-6);
    result_.waits_inside |= item.duration_ms > own_ms * (1 + 1e-6);
    LocalTime& time = local_time_of(item.phase);
    time.own_ms += own_ms;
    ++time.spans;
}

// What the phase began on its own stream blocks it until it is done, as does all that it ends with; what it began on
// others, as WaitsBesideWork says.
void SegmentBuilder::sort_by_what_they_block(const Item& local) {
    beside_.clear();
    const auto first = std::partition_point(comm_.begin(), comm_.end(), [&local](const Item& item) {
        return item.interval.begin_ns + tolerance_ns < local.interval.begin_ns;
    });
    for (auto next = first; next != comm_.end(); ++next) {
        const Item& item = *next;
        if (item.interval.begin_ns > local.interval.end_ns + tolerance_ns) break;
        if (!local.interval.contains(item.interval, tolerance_ns)) continue;
        // By its depth, the thread was in both.
        const bool nested = item.blocks || item.sample->depth() > local.sample->depth();
        const bool beside = nested && item.sample->stream() != local.sample->stream();
        const bool at_end = local.interval.end_ns - item.interval.end_ns <= tolerance_ns;
        const LaunchFacts* const facts = (*uses_)[local.phase].launches;
        if (beside && !(facts != nullptr && facts->goes_on))
            beside_.add({{CommBesideWork::key_of((*uses_)[item.phase].number, item.sample->seq())},
                         item.sample->stream(),
                         item.interval,
                         item.waiting_end_ns - item.interval.begin_ns,
                         item.launch_ns(),
                         item.is_for_late,
                         at_end});
        if (!at_end && (!nested || beside)) continue;
        const std::int64_t begin_ns = beside ? item.waiting_end_ns : item.interval.begin_ns;
        blocked_.push_back(
            {std::max(begin_ns, local.interval.begin_ns), std::min(item.interval.end_ns, local.interval.end_ns)});
    }
}

// Leaves in blocked_ what blocks it on its own stream, or at its end.
WaitsBesideWork::Sum SegmentBuilder::find_blocked(const Item& local) {
    blocked_.clear();
    if (!has_starts_) return {};
    sort_by_what_they_block(local);
    unite(blocked_);
    if (beside_.empty()) return {};
    beside_.find_launches(local.interval);
    if (launches_ != nullptr) launches_->take((*uses_)[local.phase].number, local.interval, beside_);
    return beside_.until(local.interval, (*uses_)[local.phase].launches);
}

void SegmentBuilder::find_step_ms() {
    Interval rows{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
    if (has_step_) rows = step_;
    for (const auto* items : {&local_, &comm_})
        for (const Item& item : *items) rows.include(item.interval);
    if (!rows.empty()) result_.rows = rows;
    result_.step_ms = has_step_ ? step_ms_ : rows.empty() ? NAN : static_cast<double>(rows.length_ns()) * 1e-6;
}

// The rows behind the step's are behind the step, and those before it are inside of it or not, as reading_ says.
void SegmentBuilder::find_untimed_step_ms() {
    double ms = step_ms_;
    for (const auto* items : {&local_, &comm_})
        for (const Item& item : *items)
            if (!has_step_ || item.sample->is_behind_step()) ms += item.sample->duration_ms;
    result_.step_ms = has_step_ || ms > 0 ? ms : NAN;
}

void SegmentBuilder::add_segment(const Item& item, Interval interval, TimeKind piece) {
    if (interval.empty()) return;
    SpanSegment& segment = result_.segments.emplace_back();
    segment.interval = interval;
    segment.phase = item.phase;
    segment.piece = piece;
    if (!has_starts_) return;
    segment.is_host_paced = piece == TimeKind::compute && item.sample->is_host_paced();
    const bool is_begin = interval.begin_ns == item.interval.begin_ns;
    if (!is_begin || item.clock != Clock::gpu) return;
    segment.launch_ns = item.launch_ns();
    segment.stream = static_cast<std::uint16_t>(item.sample->stream());
    segment.span_end_ns = item.interval.end_ns;
}

// Compute without what blocks it; what blocks others hides them.
WaitsBesideWork::Sum SegmentBuilder::cut_local(const Item& item) {
    const WaitsBesideWork::Sum beside = find_blocked(item);
    std::int64_t begin_ns = item.interval.begin_ns;
    if (item.is_compute()) {
        result_.inner_waiting.pieces[beside.is_for_late ? TimeKind::waiting : TimeKind::bubble] += beside.waiting_ns;
        for (const Interval& blocked : blocked_) {
            add_segment(item, {begin_ns, blocked.begin_ns}, TimeKind::compute);
            begin_ns = std::max(begin_ns, blocked.end_ns);
        }
    }
    add_segment(item, {begin_ns, item.interval.end_ns}, piece_of(item));
    return beside;
}

void SegmentBuilder::cut_comm(const Item& item) {
    if (is_in_evaluation(item)) return;
    const std::int64_t transfer_ns = item.interval.begin_ns + item.waiting_ns;
    add_segment(item, {item.interval.begin_ns, transfer_ns}, waiting_of(item));
    add_segment(item, {transfer_ns, item.interval.end_ns}, TimeKind::transfer);
}

// Inside of compute, compute is that.
void SegmentBuilder::cut_inner(const Item& item) {
    const auto is_compute = [](const Item& outer) { return outer.is_compute(); };
    if (!is_in_evaluation(item) && !(item.is_compute() && is_inside_of(item, is_compute))) cut_local(item);
}

template <typename IsOne>
bool SegmentBuilder::is_inside_of(const Item& inner, IsOne is_one) const {
    return std::any_of(local_.begin(), local_.end(), [&](const Item& outer) {
        return is_one(outer) && outer.sample->depth() < inner.sample->depth() &&
               outer.interval.contains(inner.interval, tolerance_ns);
    });
}

/// What is inside of an evaluation is all evaluation.
bool SegmentBuilder::is_in_evaluation(const Item& inner) const {
    return has_starts_ && has_evaluation_ && is_inside_of(inner, [](const Item& outer) { return outer.is_evaluation; });
}

}  // namespace cep::tool
