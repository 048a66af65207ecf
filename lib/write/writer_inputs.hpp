// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/background_thread.hpp"
#include "base/requests.hpp"
#include "record/step_board.hpp"
#include "write/rank_file.hpp"
#include "write/run_facts.hpp"

namespace cep {

/// State that the writer and the profiler share. It outlives the session.
struct WriterInputs {
    explicit WriterInputs(const StepBoard& steps) noexcept : board(steps) {}

    const StepBoard& board;
    // On another cache line than the board, which every span reads: the writer writes this in each round.
    alignas(64) std::atomic<bool> flush_due{false};  ///< cep_step() reached a flush step
    std::atomic<std::uint32_t> meta_version{0};      ///< grows with each cep_set_meta()
    std::mutex meta_mutex;                           ///< see MetaLock
    RunMeta meta;
    /// With a bound of the cost: the first recorded step, and when it began; −1: none so far.
    std::atomic<std::int64_t> first_step{-1};
    std::atomic<std::int64_t> first_step_ns{0};
    std::atomic<std::uint64_t> recorded_steps{0};  ///< with a bound
    std::atomic<std::uint64_t> refused{0};         ///< calls of a signal handler that interrupted another call
    std::atomic<bool> thread_start_failed{false};  ///< the system refused a thread: try again
    RankDescriptor descriptor;
    Requests closed;  ///< request 1 is served when the writer has finished
};

/// Holds the lock of WriterInputs::meta. No signal handler runs meanwhile: one that called exit() would leave the
/// writer waiting for the lock.
class MetaLock {
  public:
    explicit MetaLock(WriterInputs& inputs) : guard_(inputs.meta_mutex) {}

  private:
    const SignalsBlocked blocked_;
    const std::lock_guard<std::mutex> guard_;
};

}  // namespace cep
