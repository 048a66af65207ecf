// SPDX-License-Identifier: Apache-2.0
//
// Communication channels: the collectives of a job by operation and process group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "matching/operation.hpp"
#include "model/job.hpp"

namespace cep::comm {

/// One operation of one process group, on all of its ranks.
struct Channel {
    std::string group;  // "" where the rows name none
    tool::Operation operation = tool::Operation::other;
    std::string name;           // of the phase, for Operation::other; else ""
    tool::CommTotals totals{};  // of all spans, in the sample or not
    bool is_host_timed = true;  // all its spans
};

/// One collective: what the spans of its ranks have in common.
struct Message {
    std::uint32_t channel = 0;  // index into CommChannels::all()
    std::uint32_t spans = 0;
    std::int64_t bytes = 0;  // the largest of its ranks; 0: not known
    std::int64_t step = 0;
    double total_ms = 0;  // of all spans
    double transfer_ms = 0;
};

/// The job keeps messages, and must outlive it.
class CommChannels {
  public:
    explicit CommChannels(const tool::Job& job);

    [[nodiscard]] const std::vector<Channel>& all() const { return channels_; }
    [[nodiscard]] const tool::CommTotals& left_out() const { return left_out_; }
    [[nodiscard]] std::uint64_t ranks_of(const std::string& group) const { return groups_.at(group).ranks; }
    /// The ranks of the largest group of the kind.
    [[nodiscard]] std::uint64_t most_ranks_of_kind(const std::string& group) const;
    /// How long all ranks were in the steps that have samples; 0: not known. Of each rank the number of its steps times
    /// the median time from the first collective of one to that of the next.
    [[nodiscard]] double steps_ms() const { return steps_ms_; }
    /// Calls `use(message)` for each collective.
    template <typename Use>
    void for_each_message(Use use) const {
        for_each_span([&](std::uint32_t channel, std::int64_t bytes, std::int64_t step, const tool::Sample& sample) {
            if (sample.collective == 0) use(Message{channel, 1, bytes, step, sample.duration_ms, sample.duration_ms});
        });
        for (const Message& message : find_messages())
            if (message.spans > 0) use(message);
    }

  private:
    struct Group {
        std::uint64_t ranks = 0;
        std::int64_t last_rank = -1;
    };
    using OfSeries = std::vector<std::uint32_t>;  // by channel of the series: index into channels_

    void add_series(std::int64_t rank, const tool::RunSeries& series);
    std::uint32_t channel_of(const std::string& group, const std::string& phase);
    [[nodiscard]] std::vector<Message> find_messages() const;

    template <typename Use>
    void for_each_span(Use use) const {
        auto channels = of_series_.begin();
        for (const auto& [rank, all_series] : job_.ranks)
            for (const tool::RunSeries& series : all_series) {
                for (const tool::PhaseSeries& phase : series.phases)
                    for (std::size_t i = 0; i < phase.messages.size(); ++i)
                        if (const auto [channel, bytes] = phase.messages[i]; channel != tool::CommChannel::none)
                            use((*channels)[channel], bytes, series.steps[phase.samples[i].step_index],
                                phase.samples[i]);
                ++channels;
            }
    }

    const tool::Job& job_;
    std::vector<Channel> channels_;
    std::map<std::pair<std::string, std::string>, std::uint32_t> indices_;  // by group, and operation or name
    std::unordered_map<std::string, tool::Operation> operations_;           // by phase
    std::vector<OfSeries> of_series_;                                       // in the order of the job
    std::map<std::string, Group> groups_;
    std::map<std::string, std::uint64_t> most_of_kind_;
    tool::CommTotals left_out_;
    double steps_ms_ = 0;
};

}  // namespace cep::comm
