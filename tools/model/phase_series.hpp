// SPDX-License-Identifier: Apache-2.0
//
// Phase series: the durations of the phases, and what is kept of the counters, of one rank in one run.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "matching/operation.hpp"
#include "read/run_info.hpp"
#include "stats/interval_set.hpp"

namespace cep::tool {

/// Adaptive sampling by hash: a step is kept if the hash of its number begins with as many zero bits as the level asks
/// for. Each level leaves about half of the steps of the one below. So every file and thread keeps the same steps,
/// however it came to its level; and no fault that comes every n-th step is kept always or never.
class StepChoice {
  public:
    static constexpr unsigned none = 64;  // a level that leaves no step

    explicit constexpr StepChoice(unsigned level = 0) : level_(std::min(level, none)) {}

    /// The highest level that keeps this step.
    [[nodiscard]] static constexpr unsigned level_of(std::int64_t step) {
        const int zeros = std::countl_zero(mix_bits(static_cast<std::uint64_t>(step)));
        return std::min(static_cast<unsigned>(zeros), none - 1);
    }
    [[nodiscard]] constexpr bool keeps(std::int64_t step) const { return level_of(step) >= level_; }
    [[nodiscard]] constexpr bool keeps_all() const { return level_ == 0; }
    [[nodiscard]] constexpr unsigned level() const { return level_; }

    friend constexpr auto operator<=>(StepChoice, StepChoice) = default;

  private:
    unsigned level_;
};

/// Leaves so many of some steps, which ascend: those whose numbers have the smallest hashes, so that each is as likely
/// as any other and every run leaves the same. Every n-th one would meet a fault of every n-th step always or never.
template <typename Step, typename NumberOf>
void leave_some(std::vector<Step>& steps, std::size_t count, NumberOf number_of) {
    if (steps.size() <= count) return;
    const auto hash = [&](const Step& step) { return mix_bits(static_cast<std::uint64_t>(number_of(step))); };
    const auto last = steps.begin() + static_cast<std::ptrdiff_t>(count);
    std::nth_element(steps.begin(), last, steps.end(), [&](const Step& a, const Step& b) { return hash(a) < hash(b); });
    steps.erase(last, steps.end());
    std::sort(steps.begin(), steps.end());
}

/// Counts by level_of() their step.
class StepTally {
  public:
    /// By level: how many it keeps.
    using Left = std::array<std::uint64_t, StepChoice::none>;

    void add(unsigned level_of_step, std::uint64_t count = 1) { counts_[level_of_step] += count; }
    void add(const StepTally& other) {
        for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    }
    [[nodiscard]] Left left() const {
        Left left = counts_;
        for (std::size_t i = left.size() - 1; i > 0; --i) left[i - 1] += left[i];
        return left;
    }

  private:
    Left counts_{};
};

/// One span.
struct Sample {
    static constexpr std::int64_t no_start = std::numeric_limits<std::int64_t>::min();
    static constexpr std::int64_t least_start = no_start / 2;  // what is less is no start, but an order
    static constexpr std::uint32_t max_depth = 15;
    static constexpr std::uint32_t max_stream = 1023;
    static constexpr std::uint32_t max_seq = (1U << 17) - 1;
    static constexpr std::uint32_t flag = 1U << 17;

    /// What is kept of a key until collectives are numbered. Half is enough, as keys are compared within one step only:
    /// of n collectives in a step, any two have the same with a chance of n² / 2^33. With 1,000 that is one step in
    /// 8,600, with 10,000 one in 86. In that step, one of the two counts a wait that is too long; transfers between two
    /// ranks get no number.
    [[nodiscard]] static std::uint32_t half_of(std::uint64_t collective_key) {
        return std::max(1U, static_cast<std::uint32_t>(collective_key));
    }

    /// Without a start, as if rows were one behind the other.
    [[nodiscard]] Interval interval() const {
        return {start_ns, start_ns + static_cast<std::int64_t>(duration_ms * 1e6 + 0.5)};
    }
    [[nodiscard]] bool has_start() const { return start_ns >= least_start; }
    [[nodiscard]] std::uint32_t seq() const { return attributes & max_seq; }
    [[nodiscard]] std::uint32_t stream() const { return attributes >> 18 & max_stream; }
    [[nodiscard]] std::uint32_t depth() const { return attributes >> 28; }
    /// To find depths changes nothing else of a job.
    void set_depth(std::uint32_t depth) const {
        attributes = std::min(depth, max_depth) << 28 | (attributes & ~(max_depth << 28));
    }
    /// For a sample with a start: the span is as long as the host's work.
    [[nodiscard]] bool is_host_paced() const { return (attributes & flag) != 0; }
    /// For a sample without a start: its row stands behind that of the step span.
    [[nodiscard]] bool is_behind_step() const { return (attributes & flag) != 0; }

    double duration_ms;
    std::int64_t start_ns;  // where the row does not say: from no_start on, as if rows were one behind the other
    float lag_ms;           // NaN where the row does not say
    /// Its number, see Collectives; 0 where it has none. While files are read half of its key; to number collectives
    /// changes nothing else of a job.
    mutable std::uint32_t collective;
    std::uint32_t step_index;          // into RunSeries::steps
    mutable std::uint32_t attributes;  // depth, stream, a flag and seq
};
static_assert(sizeof(Sample) == 32);  // there may be tens of millions

class SampleList {
  public:
    static constexpr std::size_t chunk_samples = 2048;

    class const_iterator {
      public:
        [[nodiscard]] const Sample& operator*() const { return *at_; }
        /// False at the end.
        bool advance() {
            if (++at_ != end_) [[likely]]
                return true;
            enter(number_ + 1);
            return at_ != end_;
        }
        const_iterator& operator++() {
            advance();
            return *this;
        }
        /// Its sample is the i-th of the list.
        void seek(std::size_t i) {
            enter(i / chunk_samples);
            if (at_ != end_) at_ += i % chunk_samples;
        }
        /// That i, before the end.
        [[nodiscard]] std::size_t index() const {
            return number_ * chunk_samples + static_cast<std::size_t>(at_ - list_->chunk(number_).data());
        }
        [[nodiscard]] friend bool operator==(const const_iterator& i, std::default_sentinel_t) {
            return i.at_ == i.end_;
        }

      private:
        friend class SampleList;
        explicit const_iterator(const SampleList* list) : list_(list) { enter(0); }
        void enter(std::size_t number) {
            number_ = number;
            const std::span<const Sample> chunk =
                number < list_->chunks() ? list_->chunk(number) : std::span<const Sample>();
            at_ = chunk.data();
            end_ = at_ + chunk.size();
        }

        const SampleList* list_;
        std::size_t number_ = 0;
        const Sample* at_ = nullptr;
        const Sample* end_ = nullptr;
    };

    SampleList() = default;
    SampleList(std::initializer_list<Sample> samples) {
        for (const Sample& sample : samples) push_back(sample);
    }

    void push_back(const Sample& sample) {
        if (chunks_.empty() || chunks_.back().size() == chunk_samples) [[unlikely]]
            chunks_.emplace_back().reserve(chunks_.size() > 1 ? chunk_samples : 4);
        chunks_.back().push_back(sample);
    }
    /// Returns how many there were. Asks once for each sample, in their order.
    template <typename IsGone>
    std::size_t erase_if(IsGone is_gone) {
        const std::size_t before = size();
        std::size_t kept = 0;
        for (const Sample& sample : *this)
            if (!is_gone(sample)) (*this)[kept++] = sample;
        if (kept == before) return 0;
        chunks_.resize((kept + chunk_samples - 1) / chunk_samples);
        if (!chunks_.empty()) {
            const std::size_t in_last = kept - (chunks_.size() - 1) * chunk_samples;
            chunks_.back().erase(chunks_.back().begin() + static_cast<std::ptrdiff_t>(in_last), chunks_.back().end());
        }
        return before - kept;
    }
    /// No samples follow: gives back what they would have had for room.
    void seal() {
        if (!chunks_.empty()) chunks_.back().shrink_to_fit();
        chunks_.shrink_to_fit();
    }

    [[nodiscard]] bool empty() const { return chunks_.empty(); }
    [[nodiscard]] std::size_t size() const {
        return chunks_.empty() ? 0 : (chunks_.size() - 1) * chunk_samples + chunks_.back().size();
    }
    [[nodiscard]] const Sample& operator[](std::size_t i) const {
        return chunks_[i / chunk_samples][i % chunk_samples];
    }
    [[nodiscard]] Sample& operator[](std::size_t i) { return chunks_[i / chunk_samples][i % chunk_samples]; }
    [[nodiscard]] const Sample& back() const { return chunks_.back().back(); }
    [[nodiscard]] const_iterator begin() const { return const_iterator(this); }
    [[nodiscard]] std::default_sentinel_t end() const { return {}; }

    /// None of them is empty; all but the last have chunk_samples.
    [[nodiscard]] std::size_t chunks() const { return chunks_.size(); }
    [[nodiscard]] std::span<const Sample> chunk(std::size_t i) const { return chunks_[i]; }

  private:
    std::vector<std::vector<Sample>> chunks_;  // the last may have room for fewer
};

/// The steps of a series. All ranks of a job usually have the same, and then share them in memory.
class StepNumbers {
  public:
    using Numbers = std::vector<std::int64_t>;

    StepNumbers() = default;
    StepNumbers(std::initializer_list<std::int64_t> numbers) : StepNumbers(Numbers(numbers)) {}
    explicit StepNumbers(Numbers numbers) : numbers_(std::make_shared<Numbers>(std::move(numbers))) {}

    void push_back(std::int64_t number) {
        if (numbers_.use_count() > 1) numbers_ = std::make_shared<Numbers>(*numbers_);
        numbers_->push_back(number);
    }
    void shrink_to_fit() { numbers_->shrink_to_fit(); }
    /// Takes the memory of `last` if they are the same, else becomes the last.
    void share(StepNumbers& last) {
        if (last.all() == all()) numbers_ = last.numbers_;
        last = *this;
    }

    [[nodiscard]] const Numbers& all() const { return *numbers_; }
    [[nodiscard]] bool empty() const { return numbers_->empty(); }
    [[nodiscard]] std::size_t size() const { return numbers_->size(); }
    [[nodiscard]] std::int64_t operator[](std::size_t i) const { return (*numbers_)[i]; }
    [[nodiscard]] std::int64_t back() const { return numbers_->back(); }
    [[nodiscard]] Numbers::const_iterator begin() const { return numbers_->begin(); }
    [[nodiscard]] Numbers::const_iterator end() const { return numbers_->end(); }
    friend bool operator==(const StepNumbers& a, const StepNumbers& b) {
        return a.numbers_ == b.numbers_ || a.all() == b.all();
    }

  private:
    std::shared_ptr<Numbers> numbers_ = std::make_shared<Numbers>();
};

struct Totals {
    std::uint64_t count = 0;
    double sum_ms = 0;
    double min_ms = std::numeric_limits<double>::infinity();
    double max_ms = 0;

    void add(double duration_ms) {
        ++count;
        sum_ms += duration_ms;
        min_ms = std::min(min_ms, duration_ms);
        max_ms = std::max(max_ms, duration_ms);
    }
    void merge(const Totals& other);
};

/// Spans of communication, in samples or not.
struct CommTotals {
    std::uint64_t spans = 0;
    std::uint64_t spans_without_bytes = 0;
    double total_ms = 0;

    void add(double duration_ms, std::int64_t bytes) {
        ++spans;
        spans_without_bytes += bytes <= 0;
        total_ms += duration_ms;
    }
    void merge(const CommTotals& other) {
        spans += other.spans;
        spans_without_bytes += other.spans_without_bytes;
        total_ms += other.total_ms;
    }
};

/// What a span of communication sends.
struct CommMessage {
    std::uint32_t channel = 0;  // index into RunSeries::channels, or CommChannel::none
    std::int64_t bytes = 0;     // 0 where the row does not say
};

/// The spans of one phase in one process group.
struct CommChannel {
    static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

    std::uint32_t phase = 0;  // index into RunSeries::phases
    std::string group;        // its full_group_name(); "" where the rows name none
    CommTotals totals{};
};

struct PhaseSeries {
    std::string name;
    schema::Kind kind = schema::Kind::other;
    Clock clock = Clock::none;
    SampleList samples;                      // of the steps that are kept, step by step
    std::vector<CommMessage> messages;       // of these, if the job keeps messages; of communication
    Totals of_all_steps;                     // of nothing where all steps are kept
    bool may_repeat = false;                 // its steps went back, or a row looked like the one before it
    bool is_counted = false;                 // of communication: some row says no number of its own
    Operation operation = Operation::other;  // of communication
    bool may_share_name = false;  // of communication: in some row no coordinate of the rank says which group it is
    bool blocks = false;          // of communication: the work that it is inside of waits, see blocking_comm.hpp

    [[nodiscard]] bool has_all_steps() const { return of_all_steps.count == 0; }
    /// Leaves some samples, and returns how many are gone. Asks once for each, in their order.
    template <typename IsGone>
    std::size_t erase_samples_if(IsGone is_gone) {
        auto message = messages.begin();
        auto kept = messages.begin();
        const std::size_t gone = samples.erase_if([&](const Sample& sample) {
            const bool goes = is_gone(sample);
            if (message != messages.end()) {
                if (!goes) *kept++ = *message;
                ++message;
            }
            return goes;
        });
        messages.erase(kept, messages.end());
        return gone;
    }
};

[[nodiscard]] Totals totals_of(const PhaseSeries& phase);

[[nodiscard]] constexpr Clock combine(Clock a, Clock b) {
    return a == b ? a : Clock::mixed;
}

/// One counter on one rank in one run: memory in use, or anything else. The order of the rows does not matter, nor that
/// some come twice.
struct CounterSeries {
    double max = -std::numeric_limits<double>::infinity();
    std::int64_t last_step = INT64_MIN;
    double last = -std::numeric_limits<double>::infinity();  // of that step; of several the largest

    void add(std::int64_t step, double value) {
        max = std::max(max, value);
        if (step < last_step) return;
        last = step > last_step ? value : std::max(last, value);
        last_step = step;
    }
};

/// The phases of one rank in one run, from one file. A SeriesBuilder makes it.
struct RunSeries {
    RunInfo run;
    bool has_run = false;  // false: rows before any run row; run.attempt is then 1
    StepNumbers steps;     // ascending
    std::vector<PhaseSeries> phases;
    StatsRow stats;
    bool has_stats = false;
    bool says_depths = false;                   // some row does
    std::vector<bool> is_superseded;            // by index of its steps: a later attempt did it again; empty if none
    Interval superseded{INT64_MAX, INT64_MIN};  // of the spans of these; empty for none
    std::optional<StrideChange> stride;         // from the user's to that of the last change
    std::map<std::string, CounterSeries, std::less<>> counters;  // by name
    std::vector<CommChannel> channels;  // if the job keeps messages: as many as there is room for
    CommTotals without_channel;         // of spans for whose channels there is none

    /// Leaves the samples of the steps that are kept, once all of them are counted in the totals.
    void thin(StepChoice choice);
    /// nullptr for a phase that it does not have.
    [[nodiscard]] PhaseSeries* find(std::string_view name);
};

/// By rank: one series for each of its runs and files.
using RankSeries = std::map<std::int64_t, std::vector<RunSeries>>;

}  // namespace cep::tool
