// SPDX-License-Identifier: Apache-2.0
//
// What the library keeps for each thread that records.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

struct cep_profiler;

namespace cep {

struct Session;
class ThreadRecorder;

/// One for each thread that records: the session that the thread is inside, and its recorders. It is never freed; a
/// later thread reuses a dead thread's.
struct alignas(64) ThreadNode {
    struct Attachment {
        cep_profiler* profiler = nullptr;
        Session* session = nullptr;
        ThreadRecorder* recorder = nullptr;  ///< null: none was free
        std::uint32_t vacancies = 0;         ///< Recorder::vacancies() at that time
    };

    /// In `inside`: the thread is in no session, but its calls are refused all the same.
    static constexpr std::uint64_t in_no_session = UINT64_MAX;

    // The first cache line is all that a call needs.
    /// Serial of the profiler whose session the thread is inside; 0: none. A call that finds another number here comes
    /// from a signal handler, which has interrupted another call.
    std::atomic<std::uint64_t> inside{0};
    int* errno_place = nullptr;  ///< the thread's errno: asking for it is a call of the C library
    /// True: cep_close() makes every thread pass a memory barrier (membarrier(2)), so hot calls need none of their own.
    bool remote_barriers = false;
    Attachment latest;  ///< of the attachments with a recorder, the one used last

    std::vector<Attachment> attachments;
    std::atomic<bool> owned{true};
    ThreadNode* next = nullptr;  ///< in the list of all nodes, which only grows
};

/// The state of the calling thread.
struct ThisThread {
    ThreadNode* node = nullptr;
    /// Set while the thread makes its node. A call that finds it set comes from a signal handler.
    volatile bool makes_node = false;
    /// The profilers in which the thread has a phase. Those that were closed meanwhile stay counted.
    std::uint32_t phases = 0;
};

// It is small, so a library that a program loads at run time finds room for it in the thread's static block, and
// reading it takes no call.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local ThisThread this_thread;

/// After this call, the calling thread sees all that other threads had done before it, in their program order. False if
/// the system cannot do that.
bool pass_remote_barrier() noexcept;

/// Makes the calling thread's node. Null if memory runs out, or in a signal handler that has interrupted this function.
[[nodiscard, gnu::noinline, gnu::cold]] ThreadNode* make_thread_node() noexcept;

/// Whether the calling thread has ever been inside a session. If not, it has no open span.
[[nodiscard]] inline bool this_thread_has_recorded() noexcept {
    return this_thread.node != nullptr;
}

/// Whether the calling thread may have a phase (cep_phase()) in any profiler. If not, there is none to end.
[[nodiscard]] inline bool this_thread_has_phase() noexcept {
    return this_thread.phases != 0;
}
/// Keeps count of the profilers in which the calling thread has a phase.
inline void note_phase(bool before, bool after) noexcept {
    if (after && !before) ++this_thread.phases;
    if (before && !after) --this_thread.phases;
}

}  // namespace cep
