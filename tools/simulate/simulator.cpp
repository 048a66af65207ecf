// SPDX-License-Identifier: Apache-2.0
#include "simulate/simulator.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/parallel.hpp"
#include "base/progress.hpp"
#include "simulate/timeline.hpp"

namespace cep::simulation {
namespace {

/// One run of the job's steps with some of its faults.
struct Twin {
    std::unique_ptr<Timeline> timeline;
    std::vector<std::int64_t> ends_ns;
};

class Simulator {
  public:
    Simulator(const Job& job, const std::string& directory, std::size_t threads)
        : job_(job),
          layout_(job),
          threads_(threads),
          clocks_(make_host_clocks(job, layout_)),
          files_(job, layout_, clocks_, directory),
          items_(layout_.ranks) {
        add_twins();
    }

    Outcome run() {
        tool::for_all(layout_.ranks, threads_, [&](std::size_t rank) { files_.begin(rank); });
        const std::int64_t end_step = job_.start_step + job_.steps;
        const std::int64_t block_steps = steps_of_a_block();
        for (std::int64_t step = job_.start_step; step < end_step; step += block_steps)
            run_block(step, std::min(step + block_steps, end_step));
        const std::int64_t now_ns = twins_.front().ends_ns.back();
        tool::for_all(layout_.ranks, threads_, [&](std::size_t rank) { files_.end(rank, now_ns); });
        return finish();
    }

  private:
    void add_twin(std::vector<bool> active_faults) {
        twins_.push_back({std::make_unique<Timeline>(job_, layout_, std::move(active_faults)), {}});
        twins_.back().ends_ns.reserve(static_cast<std::size_t>(job_.steps));
    }

    void add_twins() {
        const std::size_t faults = job_.faults.size();
        add_twin(std::vector<bool>(faults, true));
        if (faults > 0) add_twin(std::vector<bool>(faults, false));
        for (std::size_t i = 0; faults > 1 && i < faults; ++i) {
            std::vector<bool> others(faults, true);
            others[i] = false;
            add_twin(std::move(others));
        }
    }

    // Enough steps to occupy the threads, in a few dozen megabytes.
    [[nodiscard]] std::int64_t steps_of_a_block() const {
        constexpr std::int64_t block_bytes = 32 << 20;
        const std::int64_t tasks = 2 * job_.micro_batches;
        const std::int64_t rows =
            8 + job_.buckets + tasks * (1 + (job_.tp > 1 ? job_.tp_collectives : 0)) + (job_.pp > 1 ? 2 * tasks : 0);
        const std::int64_t step_bytes = job_.ranks * rows * static_cast<std::int64_t>(sizeof(Item));
        return std::max<std::int64_t>(1, block_bytes / step_bytes) * job_.record_every;
    }

    void run_block(std::int64_t first_step, std::int64_t end_step) {
        tool::for_all(twins_.size(), threads_, [&](std::size_t index) { run_twin(index, first_step, end_step); });
        write_items();
    }

    void run_twin(std::size_t index, std::int64_t first_step, std::int64_t end_step) {
        Twin& twin = twins_[index];
        for (std::int64_t step = first_step; step < end_step; ++step) {
            const bool writes = index == 0 && job_.records(step);
            twin.timeline->advance(step, writes ? &items_ : nullptr);
            twin.ends_ns.push_back(twin.timeline->now_ns());
        }
    }

    void write_items() {
        tool::for_all(layout_.ranks, threads_, [&](std::size_t rank) {
            files_.write(rank, items_[rank]);
            items_[rank].clear();
        });
        std::uint64_t bytes = 0;
        for (std::size_t rank = 0; rank < layout_.ranks; ++rank) bytes += files_.text_bytes(rank);
        progress_.advance(bytes - std::exchange(shown_bytes_, bytes));
    }

    Outcome finish() {
        Outcome outcome;
        outcome.effects = twins_.front().timeline->work().effects();
        outcome.ends_ns = std::move(twins_.front().ends_ns);
        outcome.ends_without_faults_ns = twins_.size() > 1 ? twins_[1].ends_ns : outcome.ends_ns;
        for (std::size_t i = 2; i < twins_.size(); ++i) outcome.ends_without_fault_ns.push_back(twins_[i].ends_ns);
        if (job_.faults.size() == 1) outcome.ends_without_fault_ns.push_back(outcome.ends_without_faults_ns);
        outcome.clocks = clocks_;
        outcome.rows = files_.total();
        outcome.files = files_.files();
        outcome.recorded_steps = (job_.steps + job_.record_every - 1) / job_.record_every;
        return outcome;
    }

    const Job& job_;
    const Layout layout_;
    const std::size_t threads_;
    const std::vector<HostClock> clocks_;
    RankFiles files_;
    std::vector<Twin> twins_;  // the first is the job itself, the second has no faults
    Items items_;
    std::uint64_t shown_bytes_ = 0;
    tool::Progress progress_{0};
};

}  // namespace

Outcome simulate(const Job& job, const std::string& directory, std::size_t threads) {
    return Simulator(job, directory, threads).run();
}

}  // namespace cep::simulation
