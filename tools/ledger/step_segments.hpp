// SPDX-License-Identifier: Apache-2.0
//
// Step segments: the spans of one rank in one step, cut at what they wait for. The ledger's pieces are made of them,
// and the table of own work.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ledger/launch_facts.hpp"
#include "ledger/piece_cutter.hpp"
#include "ledger/step_reading.hpp"
#include "ledger/waits_beside_work.hpp"
#include "model/collectives.hpp"
#include "model/device_queue.hpp"
#include "model/rank_spans.hpp"
#include "stats/interval_set.hpp"

namespace cep::tool {

/// What a rank's phase is counted as.
struct PhaseUse {
    TimeKind piece = TimeKind::other;
    double transfer_ms = 0;       // between two ranks: what is transfer of a span of which the other's row is not known
    std::uint32_t number = 0;     // of the phase, the same for all ranks: its index in the ledger
    std::size_t local_index = 0;  // of a local one: its index in the table
    const LaunchFacts* launches = nullptr;  // where they are known
};

/// One local phase in one step: all of its spans that lie side by side. Its own time is without what it waits for:
/// communication on its own stream that is inside of it; all of the communication that it ends with; and of what its
/// thread began there on other streams, the waiting, once where it is seen in one collective after the other. Of what
/// is no compute, it is also without what compute hides.
struct LocalTime {
    std::uint32_t phase = 0;
    std::uint32_t spans = 0;  // 0: all of them are inside of other phases
    double own_ms = 0;
    std::uint32_t rows = 0;  // with those that are inside of others
    std::uint32_t first_seq = 0;
    std::uint32_t last_seq = 0;

    void add_row(std::uint32_t seq) {
        first_seq = rows == 0 ? seq : std::min(first_seq, seq);
        last_seq = std::max(last_seq, seq);
        ++rows;
    }
    /// Also those whose rows are lost, as numbers are missing between the others. Of a phase that is inside of itself,
    /// nobody knows which.
    [[nodiscard]] std::uint32_t all_spans() const;
};

/// The spans of one rank in one step; of some steps, there are none.
struct StepSegments {
    std::uint32_t step_index = 0;  // of the job's steps
    std::vector<LocalTime> local;
    bool waits_inside = false;  // of phases
    double step_ms = 0;         // NaN if there is nothing to tell it from
    double comm_ms = 0;
    double matched_ms = 0;              // duration of the collectives that were matched
    double all_comm_ms = 0;             // duration of all
    double step_span_ms = 0;            // of spans that enclose the others
    Interval rows{0, 0};                // from the first begin of what is seen to the last end; empty without starts
    std::vector<SpanSegment> segments;  // without starts, from 0 on, in the order in which they hide each other
    InnerWaiting inner_waiting;
};

/// Step by step. One a thread.
class SegmentBuilder {
  public:
    /// `launches`: shown what phases began; null for none.
    SegmentBuilder(const StepReading& reading, const Collectives& collectives, LaunchCollector* launches = nullptr)
        : reading_(reading), collectives_(collectives), launches_(launches) {}

    /// The spans of one step. `uses`: by phase. `follows`: it is the next one of the rank, none lies between. The
    /// result is valid until the next call.
    const StepSegments& build(std::span<const StepSpan> spans, const std::vector<RankPhase>& phases,
                              const std::vector<PhaseUse>& uses, bool follows = false);

  private:
    /// A span, and what is made of it.
    struct Item {
        Interval interval;  // what is seen
        double duration_ms = 0;
        std::int64_t waiting_end_ns = 0;  // of a collective: where its transfer begins; its begin if it is not matched
        std::int64_t waiting_ns = 0;      // of communication, for the ledger
        const Sample* sample = nullptr;
        std::uint32_t phase = 0;
        schema::Kind kind = schema::Kind::other;
        Clock clock = Clock::none;
        bool is_for_late = false;    // its waiting is for ranks that are late: no bubble of a pipeline
        bool blocks = false;         // see PhaseSeries
        bool is_evaluation = false;  // of the trainer's thread, with all that is inside

        [[nodiscard]] bool is_compute() const { return kind == schema::Kind::compute; }
        [[nodiscard]] std::int64_t launch_ns() const;  // or SpanSegment::no_launch
    };

    static bool begins_before(const Item& a, const Item& b) {
        if (a.interval.begin_ns != b.interval.begin_ns) return a.interval.begin_ns < b.interval.begin_ns;
        return a.sample->depth() < b.sample->depth();
    }
    [[nodiscard]] TimeKind piece_of(const Item& item) const { return (*uses_)[item.phase].piece; }
    /// For communication.
    [[nodiscard]] TimeKind waiting_of(const Item& item) const {
        return piece_of(item) == TimeKind::bubble ? TimeKind::bubble : TimeKind::waiting;
    }
    static void sort(std::vector<Item>& items);
    void start(const std::vector<RankPhase>& phases);
    void take(const StepSpan& span, const RankPhase& phase);
    void find_transfer(Item& item);
    void hide_queued();
    void keep_least_deep();
    void keep_outermost();
    void place_segments();
    void cut();
    WaitsBesideWork::Sum cut_local(const Item& item);
    void cut_comm(const Item& item);
    void cut_inner(const Item& item);
    void add_own_work(const Item& item, const WaitsBesideWork::Sum& beside);
    [[nodiscard]] WaitsBesideWork::Sum find_blocked(const Item& local);
    void sort_by_what_they_block(const Item& local);
    void find_step_ms();
    void find_untimed_step_ms();
    LocalTime& local_time_of(std::uint32_t phase);
    /// Whether it is inside of a local span that `is_one` says.
    template <typename IsOne>
    [[nodiscard]] bool is_inside_of(const Item& inner, IsOne is_one) const;
    [[nodiscard]] bool is_in_evaluation(const Item& inner) const;
    void add_segment(const Item& item, Interval interval, TimeKind piece);

    const StepReading& reading_;
    const Collectives& collectives_;
    LaunchCollector* const launches_;
    const std::vector<PhaseUse>* uses_ = nullptr;  // by phase
    StepSegments result_;
    bool has_starts_ = true;
    bool has_step_ = false;
    bool has_evaluation_ = false;
    double step_ms_ = 0;
    Interval step_{0, 0};  // of the step spans
    DeviceQueue queue_;
    std::int64_t device_end_ns_ = 0;  // of the spans of the step
    // Both by their begin; without starts, as if rows were one behind the other:
    std::vector<Item> local_;
    std::vector<Item> comm_;
    std::vector<std::uint32_t> local_indices_;  // by phase: index of its LocalTime
    Intervals comm_set_;
    Intervals compute_set_;
    std::vector<Item> inner_;  // local ones that are inside of others
    // For one phase:
    Intervals blocked_;
    WaitsBesideWork beside_;
};

}  // namespace cep::tool
