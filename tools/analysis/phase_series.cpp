// SPDX-License-Identifier: Apache-2.0
#include "phase_series.hpp"

#include <algorithm>
#include <utility>

namespace cep::analysis {
namespace {

// The finaliser of SplitMix64.
std::uint64_t mix(std::uint64_t bits) {
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9U;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebU;
    return bits ^ (bits >> 31);
}

std::uint32_t clamped(const std::optional<std::int64_t>& value, std::uint32_t max) {
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(value.value_or(0), 0, max));
}

// Copying what is large to where there is twice the room touches as much memory again. Four times the room takes no
// more of it, as memory that was never written to is none.
void make_room(std::vector<Sample>& samples) {
    constexpr std::size_t large = (std::size_t{1} << 20) / sizeof(Sample);
    if (samples.size() == samples.capacity() && samples.size() >= large) samples.reserve(4 * samples.size());
}

}  // namespace

std::uint32_t Sample::place_of(const Row& row) {
    return clamped(row.depth, max_depth) << 28 | clamped(row.stream, max_stream) << 18 | clamped(row.seq, max_seq);
}

std::uint32_t Sample::collective_of(const Row& row) {
    if (!row.coll) return 0;
    std::uint64_t hash = mix(static_cast<std::uint64_t>(*row.coll) + 0x9e3779b97f4a7c15U);
    for (const char letter : row.group) hash = mix(hash ^ static_cast<unsigned char>(letter));
    return std::max(1U, static_cast<std::uint32_t>(hash));
}

void Totals::add(double duration_ms, bool is_top_level) {
    ++count;
    sum_ms += duration_ms;
    if (is_top_level) top_level_ms += duration_ms;
    min_ms = std::min(min_ms, duration_ms);
    max_ms = std::max(max_ms, duration_ms);
}

void Totals::merge(const Totals& other) {
    count += other.count;
    sum_ms += other.sum_ms;
    top_level_ms += other.top_level_ms;
    min_ms = std::min(min_ms, other.min_ms);
    max_ms = std::max(max_ms, other.max_ms);
}

void PhaseSeries::fold() {
    for (const Sample& sample : samples) {
        histogram.add(sample.duration_ms);
        in_histogram.add(sample.duration_ms, sample.is_top_level());
    }
    samples = {};
}

std::uint32_t RunSeries::find_phase(const Row& row) {
    const auto index = static_cast<std::uint32_t>(phases.size());
    const auto [found, is_new] = phase_indices_.try_emplace(std::string(row.name), index);
    if (is_new) {
        phases.emplace_back();
        phases.back().name = row.name;
        phases.back().kind = row.kind;
        phases.back().clock = row.clock;
        next_phases_.push_back({index, index});
    }
    return found->second;
}

// The phases of a step come in the same order in every step. Behind one that comes several times, such as a reduction
// in buckets, there are two.
PhaseSeries& RunSeries::phase_of(const Row& row) {
    if (phases.empty()) {
        last_phase_ = find_phase(row);
    } else {
        const NextPhases expected = next_phases_[last_phase_];
        const bool is_first = phases[expected.first].name == row.name;
        const bool is_other = !is_first && phases[expected.other].name == row.name;
        const std::uint32_t found = is_first ? expected.first : is_other ? expected.other : find_phase(row);
        if (!is_first) next_phases_[last_phase_] = {found, expected.first};
        last_phase_ = found;
    }
    PhaseSeries& phase = phases[last_phase_];
    phase.clock = combine(phase.clock, row.clock);
    return phase;
}

std::uint32_t RunSeries::find_step(std::int64_t step) {
    if (steps_ascend_ && (steps.empty() || steps.back() < step)) {
        steps.push_back(step);
        return static_cast<std::uint32_t>(steps.size() - 1);
    }
    if (steps_ascend_) {
        const auto found = std::lower_bound(steps.begin(), steps.end(), step);
        if (*found == step) return static_cast<std::uint32_t>(found - steps.begin());
        steps_ascend_ = false;
        for (std::size_t i = 0; i < steps.size(); ++i) step_indices_[steps[i]] = static_cast<std::uint32_t>(i);
    }
    const auto [found, is_new] = step_indices_.try_emplace(step, static_cast<std::uint32_t>(steps.size()));
    if (is_new) steps.push_back(step);
    return found->second;
}

std::uint32_t RunSeries::index_of_step(std::int64_t step) {
    if (steps.empty() || steps[last_step_] != step) last_step_ = find_step(step);
    return last_step_;
}

// The few counters of a step come in the same order in every step.
void RunSeries::add_counter(const Row& row) {
    for (std::size_t tried = 0; tried < counters.size(); ++tried) {
        CounterSeries& counter = counters[next_counter_];
        next_counter_ = (next_counter_ + 1) % counters.size();
        if (counter.name == row.name) return counter.add(*row.step, row.value);
    }
    counters.emplace_back(row.name, *row.step, row.value);
    next_counter_ = 0;
}

void RunSeries::add(const Row& row, SampleBudget& budget) {
    constexpr std::uint32_t portion = 1024;
    PhaseSeries& phase = phase_of(row);
    const Sample sample{row.duration_ms,
                        row.start_ns.value_or(Sample::no_start),
                        row.lag_ms ? static_cast<float>(*row.lag_ms) : std::numeric_limits<float>::quiet_NaN(),
                        row.kind == schema::Kind::comm ? Sample::collective_of(row) : 0,
                        index_of_step(*row.step),
                        Sample::place_of(row)};
    if (budget.exhausted()) {
        phase.fold();
        phase.histogram.add(row.duration_ms);
        phase.in_histogram.add(row.duration_ms, sample.is_top_level());
        return;
    }
    if (++unspent_samples_ == portion) budget.spend(std::exchange(unspent_samples_, 0));
    if (!phase.samples.empty()) {
        const Sample& last = phase.samples.back();
        const bool alike = has_run && sample.has_start() && last.step_index == sample.step_index &&
                           last.start_ns == sample.start_ns && last.place == sample.place;
        phase.may_repeat |= alike || steps[sample.step_index] < steps[last.step_index];
    }
    make_room(phase.samples);
    phase.samples.push_back(sample);
}

void RunSeries::seal() {
    phase_indices_ = {};
    next_phases_ = {};
    step_indices_ = {};
    // The end of a large vector that was never written to takes no memory; the ends of many small ones do.
    constexpr std::size_t large = 8192;
    if (steps.size() < large) steps.shrink_to_fit();
    for (PhaseSeries& phase : phases)
        if (phase.samples.size() < large) phase.samples.shrink_to_fit();
    std::sort(counters.begin(), counters.end(),
              [](const CounterSeries& a, const CounterSeries& b) { return a.name < b.name; });
}

PhaseSeries* RunSeries::find(std::string_view name) {
    const auto found =
        std::find_if(phases.begin(), phases.end(), [name](const PhaseSeries& phase) { return phase.name == name; });
    return found == phases.end() ? nullptr : &*found;
}

Clock combine(Clock a, Clock b) {
    if (a == b) return a;
    return Clock::mixed;
}

}  // namespace cep::analysis
