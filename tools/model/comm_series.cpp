// SPDX-License-Identifier: Apache-2.0
#include "model/comm_series.hpp"

#include "matching/process_group.hpp"

namespace cep::tool {

const CollectiveKey& CommSeries::take(const Row& row, const RunInfo& run, std::uint32_t phase, SampleBudget& budget,
                                      Sample& sample, CommMessage& message) {
    if (phases_.size() <= phase) phases_.resize(phase + 1);
    OfPhase& of = phases_[phase];
    const bool is_other_group = of.key.enter_group(row, run);
    sample.collective = of.key.is_known(row) ? Sample::half_of(of.key.of(row) + attempt_) : 0;
    if (!keeps_messages_) return of.key;
    if (is_other_group) of.channel = find_channel(row, run, phase, budget);
    message = {of.channel, row.bytes.value_or(0)};
    (of.channel == CommChannel::none ? beyond_channels_ : channels_[of.channel].totals).add(row);
    return of.key;
}

std::uint32_t CommSeries::find_channel(const Row& row, const RunInfo& run, std::uint32_t phase, SampleBudget& budget) {
    channel_key_ = full_group_name(row.group, axis_places_of(run));
    channel_key_.append(reinterpret_cast<const char*>(&phase), sizeof phase);
    const auto found = channel_indices_.find(channel_key_);
    if (found != channel_indices_.end()) return found->second;
    if (!budget.admit_channel(channels_.size(), channel_key_.size())) return CommChannel::none;
    const auto index = static_cast<std::uint32_t>(channels_.size());
    channel_indices_.emplace(channel_key_, index);
    channels_.push_back({phase, channel_key_.substr(0, channel_key_.size() - sizeof phase)});
    return index;
}

// A phase comes with its first channel.
bool CommSeries::admits(const Row& row, const RunInfo& run, std::optional<std::uint32_t> phase, SampleBudget& budget) {
    const bool is_admitted = !phase ? budget.admit_channel(channels_.size(), row.name.size())
                             : phases_[*phase].key.is_of_group(row)
                                 ? phases_[*phase].channel != CommChannel::none
                                 : find_channel(row, run, *phase, budget) != CommChannel::none;
    if (!is_admitted) beyond_channels_.add(row);
    return is_admitted;
}

void CommSeries::seal() {
    phases_ = {};
    channel_indices_ = {};
    channel_key_ = {};
    channels_.shrink_to_fit();
}

}  // namespace cep::tool
