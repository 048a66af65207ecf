// SPDX-License-Identifier: Apache-2.0
//
// The handle of cep.h, and how its calls reach the machinery behind it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "cuda/cuda_device.hpp"
#include "name_table.hpp"
#include "options.hpp"
#include "rank_file.hpp"
#include "record.hpp"
#include "recorder.hpp"
#include "resolver.hpp"

namespace cep {

/// What exists only while a profiler is on: freed by its close, once no thread is inside.
struct Session {
    Session(Config checked, ResolverInputs& inputs);

    const Config config;
    Wakeup wakeup;
    std::atomic<bool> cancelled{false};
    RankFile file;
    cuda::CudaState cuda;
    std::unique_ptr<Device> device;
    std::unique_ptr<DeviceResolver> device_resolver;
    Recorder recorder;
    Resolver resolver;
};

}  // namespace cep

/// Never freed, so that a call on a closed profiler, or one inherited by a forked child, finds it inert.
struct cep_profiler {
    static constexpr std::size_t max_names = 4096;

    explicit cep_profiler(std::uint64_t number) noexcept : serial(number) {}

    // Read on every hot call.
    std::atomic<bool> recording{false};
    std::atomic<bool> in_window{false};
    std::atomic<std::uint32_t> epoch{0};
    std::atomic<cep::Session*> session{nullptr};  ///< null: off, closed or forked
    cep::Sampling sampling;
    bool flat = false;
    const std::uint64_t serial;  ///< never 0, never reused

    cep::ResolverInputs inputs;
    std::atomic<bool> closing{false};
    cep::Session* left_behind = nullptr;  ///< after a close that could not free it
    cep::NameTable<cep_region> regions{max_names};
    cep::NameTable<cep::Name> names{max_names};

    std::atomic<const cep::Totals*> final_totals{nullptr};  ///< once closed; never freed

    [[nodiscard]] cep::StepContext step_context() const noexcept {
        return {inputs.step.load(std::memory_order_relaxed), epoch.load(std::memory_order_relaxed)};
    }
};

namespace cep {

/// A thread inside the session of one profiler: while this lives, close() does not free it.
class Visit {
  public:
    explicit Visit(cep_profiler& profiler) noexcept;
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    ~Visit();

    /// Null: the profiler is off, closed or forked.
    [[nodiscard]] Session* session() const noexcept { return session_; }
    /// The calling thread's recorder; null when there can be none (counted).
    [[nodiscard]] ThreadRecorder* recorder() noexcept;

  private:
    cep_profiler& profiler_;
    struct ThreadNode* node_;
    std::uint64_t outer_ = 0;  ///< what the thread was inside before
    Session* session_ = nullptr;
};

/// Opens a profiler: an enabled, listed one with a session, any other without.
[[nodiscard]] std::int32_t open_profiler(Config config, cep_profiler*& out);
[[nodiscard]] std::int32_t flush_profiler(cep_profiler& profiler, std::int64_t timeout_ms) noexcept;
[[nodiscard]] std::int32_t close_profiler(cep_profiler& profiler, std::int64_t timeout_ms, bool exiting) noexcept;

/// Waits until no thread is inside the session of that profiler, or the deadline has passed (false).
[[nodiscard]] bool wait_for_visitors(const cep_profiler& profiler, std::int64_t deadline_ns) noexcept;

/// Keeps the profiler findable for the life of the process. For one that is on, exit and fork are seen to.
void remember_profiler(cep_profiler& profiler, bool on);
/// A number for a new profiler.
[[nodiscard]] std::uint64_t next_serial() noexcept;

}  // namespace cep
