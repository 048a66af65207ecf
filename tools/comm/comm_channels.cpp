// SPDX-License-Identifier: Apache-2.0
#include "comm/comm_channels.hpp"

#include <algorithm>

#include "matching/process_group.hpp"
#include "stats/robust.hpp"
#include "stats/step_pattern.hpp"

namespace cep::comm {
namespace {

using namespace tool;

/// By step, ascending: where the first span of communication begins. Of steps with a start.
std::map<std::int64_t, std::int64_t> first_starts_ns(const RunSeries& series) {
    std::map<std::int64_t, std::int64_t> starts;
    for (const PhaseSeries& phase : series.phases)
        for (const Sample& sample : phase.samples) {
            if (phase.kind != schema::Kind::comm || !sample.has_start()) continue;
            const auto [found, is_new] = starts.try_emplace(series.steps[sample.step_index], sample.start_ns);
            if (!is_new) found->second = std::min(found->second, sample.start_ns);
        }
    return starts;
}

/// The time of the steps with samples, see CommChannels::steps_ms().
double time_of_steps_ms(const RunSeries& series) {
    const std::map<std::int64_t, std::int64_t> starts = first_starts_ns(series);
    std::vector<double> steps_ms;
    for (auto last = starts.begin(), next = last; next != starts.end(); last = next++)
        if (next != last && next->second > last->second)
            steps_ms.push_back(static_cast<double>(next->second - last->second) / 1e6 /
                               static_cast<double>(step_difference(last->first, next->first)));
    return steps_ms.empty() ? 0 : median_of(steps_ms) * static_cast<double>(starts.size());
}

}  // namespace

CommChannels::CommChannels(const Job& job) : job_(job) {
    for (const auto& [rank, all_series] : job.ranks)
        for (const RunSeries& series : all_series) add_series(rank, series);
    for (const auto& [name, group] : groups_) {
        std::uint64_t& most = most_of_kind_[group_kind(name)];
        most = std::max(most, group.ranks);
    }
}

void CommChannels::add_series(std::int64_t rank, const RunSeries& series) {
    OfSeries& of_series = of_series_.emplace_back();
    steps_ms_ += time_of_steps_ms(series);
    for (const CommChannel& channel : series.channels) {
        of_series.push_back(channel_of(channel.group, series.phases[channel.phase].name));
        channels_[of_series.back()].totals.merge(channel.totals);
        channels_[of_series.back()].is_host_timed &= series.phases[channel.phase].clock == Clock::host;
        Group& group = groups_[channel.group];
        group.ranks += group.ranks == 0 || group.last_rank != rank;
        group.last_rank = rank;
    }
    left_out_.merge(series.without_channel);
}

std::uint32_t CommChannels::channel_of(const std::string& group, const std::string& phase) {
    const auto [operation, is_new_phase] = operations_.try_emplace(phase, Operation::other);
    if (is_new_phase) operation->second = operation_of_name(phase);
    const std::string name = operation->second == Operation::other ? phase : "";
    const std::string key = name + '\0' + std::string(operation_name(operation->second));
    const auto [found, is_new] = indices_.try_emplace({group, key}, static_cast<std::uint32_t>(channels_.size()));
    if (is_new) channels_.push_back({group, operation->second, name});
    return found->second;
}

std::uint64_t CommChannels::most_ranks_of_kind(const std::string& group) const {
    return most_of_kind_.at(group_kind(group));
}

std::vector<Message> CommChannels::find_messages() const {
    std::vector<Message> messages(job_.collectives.size());
    for_each_span([&](std::uint32_t channel, std::int64_t bytes, std::int64_t step, const Sample& sample) {
        if (sample.collective == 0) return;
        Message& message = messages[sample.collective];
        if (message.spans == 0) {
            message.channel = channel;
            message.step = step;
        }
        message.bytes = std::max(message.bytes, bytes);
        message.total_ms += sample.duration_ms;
        ++message.spans;
    });
    for (std::size_t i = 0; i < messages.size(); ++i) messages[i].transfer_ms = job_.collectives[i].transfer_ms;
    return messages;
}

}  // namespace cep::comm
