// SPDX-License-Identifier: Apache-2.0
#include "model/series_builder.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "matching/process_group.hpp"

namespace cep::tool {
namespace {

/// Puts the samples of a phase in the order of their steps, and those of a step in the order of their rows.
void sort_samples(PhaseSeries& phase) {
    std::vector<std::size_t> order(phase.samples.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&samples = phase.samples](std::size_t a, std::size_t b) {
        return samples[a].step_index < samples[b].step_index;
    });
    SampleList samples;
    std::vector<CommMessage> messages;
    for (const std::size_t i : order) {
        samples.push_back(phase.samples[i]);
        if (!phase.messages.empty()) messages.push_back(phase.messages[i]);
    }
    phase.samples = std::move(samples);
    phase.messages = std::move(messages);
}

}  // namespace

// As many as there are phases for one that is not known.
std::uint32_t SeriesBuilder::find_known_phase(std::string_view name) {
    constexpr std::size_t few = 16;  // so few are looked through as fast
    const auto count = static_cast<std::uint32_t>(series_.phases.size());
    if (count < few) {
        for (std::uint32_t i = 0; i < count; ++i)
            if (same_text(series_.phases[i].name, name)) return i;
        return count;
    }
    for (auto i = static_cast<std::uint32_t>(phase_indices_.size()); i < count; ++i)
        phase_indices_.try_emplace(series_.phases[i].name, i);
    const auto known = phase_indices_.find(std::string(name));
    return known != phase_indices_.end() ? known->second : count;
}

std::uint32_t SeriesBuilder::find_phase(const Row& row) {
    const auto count = static_cast<std::uint32_t>(series_.phases.size());
    if (const std::uint32_t known = find_known_phase(row.name); known < count) return known;
    PhaseSeries& phase = series_.phases.emplace_back();
    phase.name = row.name;
    phase.kind = row.kind;
    phase.clock = row.clock;
    next_phases_.push_back({count, count});
    return count;
}

// Behind a phase that comes several times in a step, such as a reduction in buckets, there are two.
std::uint32_t SeriesBuilder::find_next_phase(const Row& row) {
    if (series_.phases.empty()) return find_phase(row);
    const NextPhases expected = next_phases_[last_phase_];
    const std::uint32_t found =
        same_text(series_.phases[expected.other].name, row.name) ? expected.other : find_phase(row);
    next_phases_[last_phase_] = {found, expected.first};
    return found;
}

// The message of a row of the phase that came last.
CommMessage SeriesBuilder::add_comm(const Row& row, PhaseSeries& phase, SampleBudget& budget, Sample& sample) {
    if (comm_phases_.size() <= last_phase_) comm_phases_.resize(last_phase_ + 1);
    CommPhase& of = comm_phases_[last_phase_];
    const bool is_other_group = of.key.enter_group(row, series_.run);
    phase.is_counted |= CollectiveKey::is_counted(row);
    phase.may_share_name |= !of.key.is_placed();
    phase.operation = of.key.operation();
    sample.collective = of.key.is_known(row) ? Sample::half_of(of.key.of(row) + attempt_) : 0;
    if (!keeps_messages_) return {};
    if (is_other_group) of.channel = find_channel(row, last_phase_, budget);
    const std::int64_t bytes = row.bytes.value_or(0);
    CommTotals& totals =
        of.channel == CommChannel::none ? series_.without_channel : series_.channels[of.channel].totals;
    totals.add(row.duration_ms, bytes);
    return {of.channel, bytes};
}

std::uint32_t SeriesBuilder::find_channel(const Row& row, std::uint32_t phase, SampleBudget& budget) {
    channel_key_ = full_group_name(row.group, axis_coordinates_of(series_.run));
    channel_key_.append(reinterpret_cast<const char*>(&phase), sizeof phase);
    const auto found = channel_indices_.find(channel_key_);
    if (found != channel_indices_.end()) return found->second;
    if (!budget.admit_channel(series_.channels.size(), channel_key_.size())) return CommChannel::none;
    const auto index = static_cast<std::uint32_t>(series_.channels.size());
    channel_indices_.emplace(channel_key_, index);
    series_.channels.push_back({phase, channel_key_.substr(0, channel_key_.size() - sizeof phase)});
    return index;
}

// A phase comes with its first channel.
bool SeriesBuilder::admits_channel(const Row& row, SampleBudget& budget) {
    const std::vector<PhaseSeries>& phases = series_.phases;
    const bool is_expected = !phases.empty() && same_text(phases[next_phases_[last_phase_].first].name, row.name);
    const std::uint32_t phase = is_expected ? next_phases_[last_phase_].first : find_known_phase(row.name);
    const bool is_admitted = phase == phases.size() ? budget.admit_channel(series_.channels.size(), row.name.size())
                             : comm_phases_[phase].key.is_of_group(row)
                                 ? comm_phases_[phase].channel != CommChannel::none
                                 : find_channel(row, phase, budget) != CommChannel::none;
    if (!is_admitted) series_.without_channel.add(row.duration_ms, row.bytes.value_or(0));
    return is_admitted;
}

/// A start one behind the other, in the order of the rows; a step span begins with its step.
std::int64_t SeriesBuilder::place(const Row& row) {
    if (placed_step_ != last_step_) {
        placed_step_ = last_step_;
        step_begin_ns_ = placed_until_ns_;
    }
    const std::int64_t begin_ns = row.kind == schema::Kind::step ? step_begin_ns_ : placed_until_ns_;
    const auto ns = static_cast<std::int64_t>(row.duration_ms * 1e6 + 0.5);
    placed_until_ns_ = std::max(placed_until_ns_, std::min(begin_ns + ns, Sample::least_start - 1));
    return begin_ns;
}

void SeriesBuilder::enter_step(std::int64_t step) {
    const std::size_t known = series_.steps.size();
    last_step_ = find_step(step);
    level_of_step_ = StepChoice::level_of(step);
    if (series_.steps.size() == known) return;
    if (step_counts_.size() <= level_of_step_) step_counts_.resize(level_of_step_ + 1);
    ++step_counts_[level_of_step_];
}

StepTally SeriesBuilder::step_tally() const {
    StepTally tally;
    for (unsigned i = 0; i < step_counts_.size(); ++i) tally.add(i, step_counts_[i]);
    return tally;
}

std::uint32_t SeriesBuilder::find_step(std::int64_t step) {
    if (steps_ascend_ && (series_.steps.empty() || series_.steps.back() < step)) {
        series_.steps.push_back(step);
        return static_cast<std::uint32_t>(series_.steps.size() - 1);
    }
    if (steps_ascend_) {
        const auto found = std::lower_bound(series_.steps.begin(), series_.steps.end(), step);
        if (*found == step) return static_cast<std::uint32_t>(found - series_.steps.begin());
        steps_ascend_ = false;
        for (std::size_t i = 0; i < series_.steps.size(); ++i)
            step_indices_[series_.steps[i]] = static_cast<std::uint32_t>(i);
    }
    const auto [found, is_new] = step_indices_.try_emplace(step, static_cast<std::uint32_t>(series_.steps.size()));
    if (is_new) series_.steps.push_back(step);
    return found->second;
}

void SeriesBuilder::add_stride_change(const StrideChange& change) {
    if (series_.stride) {
        series_.stride->add(change);
    } else {
        series_.stride = change;
    }
}

void SeriesBuilder::add_counter(const Row& row) {
    const auto known = series_.counters.find(row.name);
    CounterSeries& counter = known != series_.counters.end() ? known->second : series_.counters[std::string(row.name)];
    counter.add(*row.step, row.value);
}

void SeriesBuilder::sort_steps() {
    std::vector<std::uint32_t> order(series_.steps.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(),
              [&steps = series_.steps](std::uint32_t a, std::uint32_t b) { return steps[a] < steps[b]; });
    std::vector<std::uint32_t> new_indices(order.size());
    StepNumbers::Numbers sorted;
    for (const std::uint32_t index : order) {
        new_indices[index] = static_cast<std::uint32_t>(sorted.size());
        sorted.push_back(series_.steps[index]);
    }
    series_.steps = StepNumbers(std::move(sorted));
    for (PhaseSeries& phase : series_.phases)
        for (std::size_t i = 0; i < phase.samples.size(); ++i)
            phase.samples[i].step_index = new_indices[phase.samples[i].step_index];
}

RunSeries SeriesBuilder::finish() {
    if (!steps_ascend_) sort_steps();
    for (PhaseSeries& phase : series_.phases) {
        if (phase.may_repeat) sort_samples(phase);
        phase.samples.seal();
        phase.messages.shrink_to_fit();
    }
    // The end of a large vector that was never written to takes no memory; the ends of many small ones do.
    constexpr std::size_t large = 8192;
    if (series_.steps.size() < large) series_.steps.shrink_to_fit();
    if (series_.phases.size() < large) series_.phases.shrink_to_fit();
    series_.channels.shrink_to_fit();
    return std::move(series_);
}

}  // namespace cep::tool
