// SPDX-License-Identifier: Apache-2.0
//
// The handle of cep.h, and how its calls reach the machinery behind it.
#pragma once

#include <atomic>
#include <cstdint>

#include "name_table.hpp"
#include "options.hpp"
#include "record.hpp"
#include "recorder.hpp"
#include "step_board.hpp"
#include "writer.hpp"

namespace cep {

/// What exists only while a profiler is on: freed by its close, once no thread is inside.
struct Session {
    Session(Config checked, WriterInputs& inputs);

    const Config config;
    Wakeup wakeup;  ///< the writer's
    const std::unique_ptr<Device> device;
    Recorder recorder;
    const std::unique_ptr<Poller> poller;
    Writer writer;
};

}  // namespace cep

/// Never freed, so that a call on a closed profiler, or one inherited by a forked child, finds it inert.
struct cep_profiler {
    static constexpr std::size_t max_names = 4096;

    explicit cep_profiler(std::uint64_t number) noexcept : serial(number) {}

    std::atomic<cep::Session*> session{nullptr};  ///< null: off, closed or forked
    cep::WriterInputs inputs;
    cep::Sampling sampling;
    bool flat = false;
    const std::uint64_t serial;  ///< never 0, never reused

    std::atomic<bool> closing{false};
    std::atomic<bool> forked{false};      ///< a child's copy of its parent's profiler
    cep::Session* left_behind = nullptr;  ///< after a close that could not free it
    cep::NameTable<cep_region> regions{max_names};
    cep::NameTable<cep::Name> names{max_names};

    cep::Totals totals_before_close;
    cep::Totals totals_after_close;
    std::atomic<const cep::Totals*> kept_totals{nullptr};  ///< one of these, from the begin of a close on

    [[nodiscard]] bool recording() const noexcept { return inputs.board.recording(); }
    /// Whether there is a session, at a glance: a Visit says so for sure.
    [[nodiscard]] bool is_on() const noexcept { return session.load(std::memory_order_relaxed) != nullptr; }
};

namespace cep {

/// A thread inside the session of one profiler: while this lives, close() does not free it. There is no visit, and
/// nothing is touched, where the profiler is off; nor in a signal handler that has interrupted another visit of this
/// thread, since what that one was doing is half done.
class Visit {
  public:
    explicit Visit(cep_profiler& profiler) noexcept;
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    ~Visit();

    /// Null: the profiler is off, closed or forked, or the visit was refused.
    [[nodiscard]] Session* session() const noexcept { return session_; }
    [[nodiscard]] bool refused() const noexcept { return refused_; }
    /// For calls that would have recorded something: counts one that was refused.
    void count_if_refused() const noexcept {
        if (refused_) profiler_.inputs.refused.fetch_add(1, std::memory_order_relaxed);
    }
    /// The calling thread's recorder, made the first time; null when there can be none (counted).
    [[nodiscard]] ThreadRecorder* recorder() noexcept;
    /// The calling thread's recorder if it has one.
    [[nodiscard]] ThreadRecorder* known_recorder() const noexcept;

  private:
    [[nodiscard]] ThreadRecorder* attach() noexcept;

    cep_profiler& profiler_;
    struct ThreadNode* node_ = nullptr;
    struct ThisThread* thread_ = nullptr;  ///< null: no visit
    Session* session_ = nullptr;
    bool refused_ = false;
};

/// Whether the calling thread has ever been inside a session; where not, it has no open span.
[[nodiscard]] bool this_thread_has_recorded() noexcept;

/// Opens a profiler: an enabled, listed one with a session, any other without.
[[nodiscard]] std::int32_t open_profiler(Config config, cep_profiler*& out);
[[nodiscard]] std::int32_t flush_profiler(cep_profiler& profiler, std::int64_t timeout_ms) noexcept;
[[nodiscard]] std::int32_t close_profiler(cep_profiler& profiler, std::int64_t deadline_ns, bool exiting) noexcept;
/// CEP_EINVAL in a signal handler that has interrupted another call: nothing can be read then.
[[nodiscard]] std::int32_t read_totals(cep_profiler& profiler, Totals& totals) noexcept;
[[nodiscard]] std::int64_t deadline_after(std::int64_t timeout_ms) noexcept;

/// Waits until no thread (but the calling one, when it is `exiting`) is inside the session of that profiler, or the
/// deadline has passed (false).
[[nodiscard]] bool wait_for_visitors(const cep_profiler& profiler, std::int64_t deadline_ns, bool exiting) noexcept;

/// Sees to exit, fork and the end of threads; needed before a profiler is on. CEP_ELIMIT where the process has no
/// thread-specific key left.
[[nodiscard]] std::int32_t register_handlers();
/// Keeps the profiler findable for the life of the process. May throw.
void remember_profiler(cep_profiler& profiler);
/// A number for a new profiler.
[[nodiscard]] std::uint64_t next_serial() noexcept;

}  // namespace cep
