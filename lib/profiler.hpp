// SPDX-License-Identifier: Apache-2.0
//
// The handle of cep.h, and the way its calls reach the session behind it.
#pragma once

#include <atomic>
#include <cstdint>

#include "cuda/capture_switch.hpp"
#include "options/options.hpp"
#include "record/name_table.hpp"
#include "record/record.hpp"
#include "record/recorder.hpp"
#include "record/step_board.hpp"
#include "record/this_thread.hpp"
#include "write/writer.hpp"

namespace cep {

/// The parts that exist only while a profiler is on. cep_close() frees them once no thread is inside.
struct Session {
    /// `stride` is the one that cep_step() uses; the writer may lengthen it.
    Session(Config checked, std::uint64_t serial, WriterInputs& inputs, std::atomic<std::int64_t>& stride);

    const Config config;
    Wakeup wakeup;  ///< wakes the writer
    const std::unique_ptr<cuda::CudaDevice> device;
    Recorder recorder;
    const std::unique_ptr<Poller> poller;
    Writer writer;
};

}  // namespace cep

/// Never freed: a call on a closed profiler, or on a forked child's copy, must find it inert.
struct cep_profiler {
    static constexpr std::size_t max_names = 4096;

    explicit cep_profiler(std::uint64_t number) noexcept : serial(number) {}

    // What each span reads and few calls write: one cache line.
    alignas(64) cep::StepBoard board;
    std::atomic<cep::Session*> session{nullptr};  ///< null: off, closed or forked
    const std::uint64_t serial;                   ///< never 0, never reused

    cep::Sampling sampling;
    std::atomic<std::int64_t> stride{1};  ///< the user's or a longer one; see StrideControl
    bool only_spans = false;              ///< no rows of other types
    bool is_bounded = false;              ///< max_overhead_percent is set
    cep::cuda::CaptureSwitch capture;
    std::int32_t rank = 0;
    cep::WriterInputs inputs{board};

    cep_profiler* opened_before = nullptr;  ///< the list of all profilers
    std::atomic<bool> closing{false};
    std::atomic<const cep::ThisThread*> closer{nullptr};  ///< the thread that closes it
    std::atomic<cep::Session*> ending{nullptr};           ///< the session that cep_close() ends
    std::atomic<bool> forked{false};                      ///< a child's copy of its parent's profiler
    cep::Requests closed;                                 ///< request 1 is served once close_code is known
    std::int32_t close_code = 0;                          ///< what the first cep_close() has returned
    cep::Session* left_behind = nullptr;                  ///< a session that cep_close() could not free
    cep::NameTable<cep_region> regions{max_names};
    cep::NameTable<cep::Name> names{max_names};

    cep::Totals totals_before_close;
    cep::Totals totals_after_close;
    std::atomic<const cep::Totals*> kept_totals{nullptr};  ///< one of the two above once a close has begun

    [[nodiscard]] bool recording() const noexcept { return board.recording(); }
    /// Whether there is a session. A quick check; only a SessionGuard can tell for certain.
    [[nodiscard]] bool is_on() const noexcept { return session.load(std::memory_order_relaxed) != nullptr; }
};

namespace cep {

/// Keeps the calling thread inside the session of a profiler: cep_close() does not free the session while this lives.
/// It enters no session if the profiler is off. It is also refused in a signal handler that has interrupted another
/// guarded call of this thread, because that call's changes are half done. errno stays as it was.
///
/// Every span makes one, so its members are inlined, and the compiler keeps its parts in registers.
class SessionGuard {
  public:
    [[gnu::always_inline]] explicit SessionGuard(cep_profiler& profiler) noexcept : profiler_(profiler) {
        if (!profiler.is_on()) return;
        ThreadNode* node = this_thread.node;
        if (node == nullptr) [[unlikely]]
            node = make_thread_node();
        refused_ = node == nullptr || node->inside.load(std::memory_order_relaxed) != 0;
        if (refused_) [[unlikely]]
            return;
        node_ = node;
        enter();
        errno_ = *node->errno_place;
    }
    SessionGuard(const SessionGuard&) = delete;
    SessionGuard& operator=(const SessionGuard&) = delete;
    [[gnu::always_inline]] ~SessionGuard() {
        if (node_ == nullptr) return;
        *node_->errno_place = errno_;
        node_->inside.store(0, std::memory_order_release);
    }

    /// Null: the profiler is off, closed or forked, or entry was refused.
    [[nodiscard]] Session* session() const noexcept { return session_; }
    [[nodiscard]] bool refused() const noexcept { return refused_; }
    /// Counts a refused call. For calls that would have recorded something.
    void count_if_refused() const noexcept {
        if (refused_) profiler_.inputs.refused.fetch_add(1, std::memory_order_relaxed);
    }
    /// The calling thread's recorder, attached the first time. Null if there is none for it; that is counted.
    [[nodiscard]] ThreadRecorder* recorder() noexcept {
        ThreadRecorder* const latest = latest_recorder();
        if (latest != nullptr) [[likely]]
            return latest;
        return find_or_attach_recorder(profiler_, *session_, *node_);
    }
    /// The calling thread's recorder if it has one.
    [[nodiscard]] ThreadRecorder* existing_recorder() const noexcept {
        ThreadRecorder* const latest = latest_recorder();
        if (latest != nullptr) [[likely]]
            return latest;
        return find_recorder(profiler_, *session_, *node_);
    }

  private:
    [[gnu::always_inline]] void enter() noexcept {
        // Either this thread sees that the session has gone, or cep_close() sees that this thread is inside. This needs
        // a barrier: here, or the remote one that cep_close() makes between storing the session and reading `inside`.
        if (node_->remote_barriers) [[likely]]
            node_->inside.store(profiler_.serial, std::memory_order_relaxed);
        else
            node_->inside.store(profiler_.serial, std::memory_order_seq_cst);
        std::atomic_signal_fence(std::memory_order_seq_cst);
        session_ = profiler_.session.load(std::memory_order_seq_cst);
    }
    [[nodiscard]] ThreadRecorder* latest_recorder() const noexcept {
        const ThreadNode::Attachment& latest = node_->latest;
        return latest.session == session_ && latest.profiler == &profiler_ ? latest.recorder : nullptr;
    }
    // Static, because a pointer to the guard would keep it in memory.
    [[nodiscard, gnu::noinline, gnu::cold]] static ThreadRecorder* find_recorder(const cep_profiler& profiler,
                                                                                 const Session& session,
                                                                                 ThreadNode& node) noexcept;
    [[nodiscard, gnu::noinline, gnu::cold]] static ThreadRecorder* find_or_attach_recorder(cep_profiler& profiler,
                                                                                           Session& session,
                                                                                           ThreadNode& node) noexcept;
    [[nodiscard, gnu::noinline, gnu::cold]] static ThreadRecorder* attach(cep_profiler& profiler, Session& session,
                                                                          ThreadNode& node) noexcept;

    cep_profiler& profiler_;
    ThreadNode* node_ = nullptr;  ///< null: not inside
    Session* session_ = nullptr;
    int errno_ = 0;
    bool refused_ = false;
};

/// Opens a profiler. It gets a session if it is enabled and its rank is listed.
[[nodiscard]] std::int32_t open_profiler(Config config, cep_profiler*& out);
[[nodiscard]] std::int32_t flush_profiler(cep_profiler& profiler, std::int64_t timeout_ms) noexcept;
[[nodiscard]] std::int32_t close_profiler(cep_profiler& profiler, std::int64_t deadline_ns, bool exiting) noexcept;
/// Returns CEP_EINVAL in a signal handler that has interrupted another call: the counts cannot be read then.
[[nodiscard]] std::int32_t read_totals(cep_profiler& profiler, Totals& totals) noexcept;
[[nodiscard]] std::int64_t deadline_after(std::int64_t timeout_ms) noexcept;

/// Waits until no other thread is inside the session of that profiler. False if the deadline passes first, or if this
/// thread is inside: a signal handler has interrupted a call there, or has left it with siglongjmp().
[[nodiscard]] bool wait_until_no_thread_inside(const cep_profiler& profiler, std::int64_t deadline_ns) noexcept;

/// Registers the handlers for exit, fork and thread exit, once per process. Must succeed before a profiler is on.
/// Returns CEP_ELIMIT if the process has no thread-specific key left.
[[nodiscard]] std::int32_t register_handlers();
/// Adds the profiler to the list of all.
void register_profiler(cep_profiler& profiler) noexcept;
/// The head of the list of all profilers.
[[nodiscard]] cep_profiler* newest_profiler() noexcept;
/// Serial number for a new profiler.
[[nodiscard]] std::uint64_t next_serial() noexcept;

}  // namespace cep
