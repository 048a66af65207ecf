// SPDX-License-Identifier: Apache-2.0
#include "model/collectives.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "base/hash.hpp"
#include "base/parallel.hpp"
#include "matching/collective_key.hpp"
#include "model/rank_spans.hpp"

namespace cep::tool {
namespace {

/// What tells a collective from all others.
struct StepKey {
    std::uint32_t step;
    Operation operation;
    std::uint64_t key;

    friend bool operator==(StepKey, StepKey) = default;
};

struct HashKey {
    std::size_t operator()(StepKey key) const {
        return mix_bits(key.key ^ std::uint64_t{key.step} << 32 ^ static_cast<std::uint64_t>(key.operation) << 56);
    }
};

/// The collectives of some steps, numbered from 0 in the order in which they were seen first.
class CollectiveFinder {
  public:
    /// Where the next collective is expected. All ranks of a group go through their collectives in the same order, so
    /// that a guess for each phase of a rank is nearly always right; of two groups that take turns, there are two.
    struct Guess {
        std::uint32_t next = 0;
        std::uint32_t other = 0;
    };

    /// Ranks come one after the other.
    std::uint32_t add(StepKey key, std::uint32_t rank, double duration_ms, Guess& guess) {
        if (!is_right(guess, key)) guess = {find_or_add(key), guess.other};
        const std::uint32_t found = guess.next++;
        Seen& seen = seen_[found];
        seen.ms = std::min(seen.ms, duration_ms);
        seen.has_rank_twice |= seen.last_rank == rank;
        if (seen.last_rank != rank) seen.ranks += seen.ranks < Collective::many_ranks;
        seen.last_rank = rank;
        return found;
    }
    /// Adds those of several ranks to the others, and returns their numbers there; of those of one rank 0, and of the
    /// few transfers between two ranks that have the key of another (see Sample::half_of()). If they are many, one name
    /// stands for many pairs.
    [[nodiscard]] std::vector<std::uint32_t> move_to(Collectives& all) {
        constexpr std::ptrdiff_t few = 1'000;  // one in so many
        const auto pairs = std::count_if(seen_.begin(), seen_.end(), is_pair);
        const bool are_few = few * std::count_if(seen_.begin(), seen_.end(), is_not_one_pair) < pairs;
        std::vector<std::uint32_t> numbers(seen_.size());
        for (std::size_t i = 0; i < seen_.size(); ++i) {
            if (seen_[i].ranks < 2 || (are_few && is_not_one_pair(seen_[i]))) continue;
            numbers[i] = static_cast<std::uint32_t>(all.size());
            all.push_back({seen_[i].ms, seen_[i].ranks});
        }
        seen_ = {};
        indices_ = {};
        return numbers;
    }

  private:
    static constexpr std::uint32_t nowhere = std::numeric_limits<std::uint32_t>::max();

    struct Seen {
        StepKey key;
        double ms = std::numeric_limits<double>::infinity();
        std::uint32_t ranks = 0;
        std::uint32_t last_rank = nowhere;
        bool has_rank_twice = false;
    };

    static bool is_pair(const Seen& one) { return one.key.operation == Operation::send_recv; }
    static bool is_not_one_pair(const Seen& one) { return is_pair(one) && (one.ranks > 2 || one.has_rank_twice); }
    [[nodiscard]] bool is_at(std::uint32_t index, StepKey key) const {
        return index < seen_.size() && seen_[index].key == key;
    }
    [[nodiscard]] bool is_right(Guess& guess, StepKey key) const {
        if (is_at(guess.next, key)) return true;
        std::swap(guess.next, guess.other);
        return is_at(guess.next, key);
    }
    std::uint32_t find_or_add(StepKey key) {
        const auto [known, is_new] = indices_.try_emplace(key, static_cast<std::uint32_t>(seen_.size()));
        if (is_new) seen_.push_back({key});
        return known->second;
    }

    std::vector<Seen> seen_;
    std::unordered_map<StepKey, std::uint32_t, HashKey> indices_;  // into seen_
};

/// Spans of one phase, in one step and on one rank, of which some have the same key.
class StepCounter {
  public:
    struct Span {
        std::uint64_t key;
        std::int64_t start_ns;
        const Sample* sample;
    };

    void add(const PhaseWalk& walk) {
        const Sample& sample = walk.sample();
        spans_.push_back({sample.collective, sample.start_ns, &sample});
    }
    /// Calls `use(key, sample)` for each, and forgets them. Equal keys are told apart by the order of the starts;
    /// without these, by that of the rows.
    template <typename Use>
    void number(Use use) {
        if (spans_.size() > 1)
            std::stable_sort(spans_.begin(), spans_.end(), [](const Span& a, const Span& b) {
                return a.key != b.key ? a.key < b.key : a.start_ns < b.start_ns;
            });
        for (std::size_t i = 0, first = 0; i < spans_.size(); ++i) {
            if (spans_[i].key != spans_[first].key) first = i;
            use(CollectiveKey::nth(spans_[i].key, i - first), *spans_[i].sample);
        }
        spans_.clear();
    }

  private:
    std::vector<Span> spans_;
};

/// Steps of the table, without the last.
struct StepRange {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
};

class CollectiveNumberer {
  public:
    CollectiveNumberer(RankSeries& ranks, const std::vector<std::int64_t>& steps, std::size_t threads)
        : steps_(steps.size()), threads_(threads), all_(1) {
        for (const auto& [rank, of_rank] : ranks) {
            if (count_comm(of_rank) == 0) continue;
            spans_.emplace_back(of_rank, steps, spans_.empty() ? nullptr : &spans_.back(), Attempts::all);
        }
    }

    Collectives number() {
        if (count_ == 0) return std::move(all_);
        const std::size_t length = std::max<std::size_t>(1, steps_ * block_spans / count_);
        const std::size_t wave = length * blocks_per_thread * std::max<std::size_t>(1, threads_);
        for (std::size_t first = 0; first < steps_; first += wave) {
            std::vector<StepRange> blocks;
            for (std::size_t i = first; i < std::min(steps_, first + wave); i += length)
                blocks.push_back({static_cast<std::uint32_t>(i),
                                  static_cast<std::uint32_t>(std::min({steps_, first + wave, i + length}))});
            number_wave(blocks);
        }
        return std::move(all_);
    }

  private:
    static constexpr std::size_t block_spans = std::size_t{1} << 17;
    static constexpr std::size_t blocks_per_thread = 4;  // of a wave, so that threads end at about the same time

    std::size_t count_comm(const std::vector<RunSeries>& of_rank) {
        std::size_t count = 0;
        for (const RunSeries& series : of_rank)
            for (const PhaseSeries& phase : series.phases)
                if (phase.kind == schema::Kind::comm) count += phase.samples.size();
        count_ += count;
        return count;
    }

    void number_wave(const std::vector<StepRange>& blocks) {
        std::vector<CollectiveFinder> finders(blocks.size());
        for_all(blocks.size(), threads_, [&](std::size_t i) { find(blocks[i], finders[i]); });
        std::vector<std::vector<std::uint32_t>> numbers;
        for (CollectiveFinder& finder : finders) numbers.push_back(finder.move_to(all_));
        for_all(blocks.size(), threads_, [&](std::size_t i) { replace(blocks[i], numbers[i]); });
    }

    void find(StepRange steps, CollectiveFinder& finder) const {
        std::vector<CollectiveFinder::Guess> guesses;  // by phase
        StepCounter counter;
        for (std::uint32_t rank = 0; rank < spans_.size(); ++rank) {
            if (guesses.size() < spans_[rank].phases().size()) guesses.resize(spans_[rank].phases().size());
            spans_[rank].for_each_phase(schema::Kind::comm, steps.first, [&](std::uint32_t phase, PhaseWalk walk) {
                const auto add = [&](std::uint32_t step, std::uint64_t key, const Sample& sample) {
                    sample.collective =
                        1 + finder.add({step, walk.series().operation, key}, rank, sample.duration_ms, guesses[phase]);
                };
                if (walk.series().is_counted) return find_counted(walk, steps, counter, add);
                for (; walk.position() < 2 * steps.last; walk.advance())
                    if (walk.position() % 2 != 0 && walk.sample().collective != 0)
                        add(walk.position() / 2, walk.sample().collective, walk.sample());
            });
        }
    }

    template <typename Add>
    static void find_counted(PhaseWalk& walk, StepRange steps, StepCounter& counter, const Add& add) {
        while (walk.position() < 2 * steps.last) {
            const std::uint32_t position = walk.position();
            for (; walk.position() == position; walk.advance())
                if (position % 2 != 0 && walk.sample().collective != 0) counter.add(walk);
            counter.number([&](std::uint64_t key, const Sample& sample) { add(position / 2, key, sample); });
        }
    }

    void replace(StepRange steps, const std::vector<std::uint32_t>& numbers) const {
        for (const RankSpans& spans : spans_)
            spans.for_each_phase(schema::Kind::comm, steps.first, [&](std::uint32_t, PhaseWalk walk) {
                for (; walk.position() < 2 * steps.last; walk.advance())
                    if (walk.position() % 2 != 0 && walk.sample().collective != 0)
                        walk.sample().collective = numbers[walk.sample().collective - 1];
            });
    }

    const std::size_t steps_;
    const std::size_t threads_;
    std::vector<RankSpans> spans_;
    std::size_t count_ = 0;
    Collectives all_;
};

}  // namespace

Collectives number_collectives(RankSeries& ranks, const std::vector<std::int64_t>& steps, std::size_t threads) {
    return CollectiveNumberer(ranks, steps, threads).number();
}

}  // namespace cep::tool
