// SPDX-License-Identifier: Apache-2.0
//
// The parts that concern the whole process: its threads, its exit and its forks.
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <vector>

#include "error.hpp"
#include "host_clock.hpp"
#include "profiler.hpp"

namespace cep {

/// One for each thread that has recorded: the session that the thread is inside, and its recorders.
struct ThreadNode {
    struct Attachment {
        cep_profiler* profiler;
        Session* session;
        ThreadRecorder* recorder;  ///< null: none was free
        std::uint32_t vacancies;   ///< Recorder::vacancies() at that time
    };

    /// Serial of the profiler whose session the thread is inside; 0: none.
    std::atomic<std::uint64_t> inside{0};
    std::vector<Attachment> attachments;
    ThreadNode* previous = nullptr;
    ThreadNode* next = nullptr;
};

/// The state of the calling thread.
struct ThisThread {
    ThreadNode* node = nullptr;
    /// Set while the thread is inside the library. A call that finds it set comes from a signal handler.
    volatile bool is_inside = false;
    /// The profilers in which the thread has a phase. Those that were closed meanwhile stay counted.
    std::uint32_t phases = 0;
};

namespace {

constexpr std::int64_t exit_timeout_ms = 5000;

/// All profilers and recording threads, for close, exit and fork. Constant-initialised and never destroyed.
struct Registry {
    std::mutex mutex;
    ThreadNode* threads = nullptr;
    std::vector<cep_profiler*>* profilers = nullptr;
    std::atomic<std::uint64_t> last_serial{0};
    pthread_key_t thread_exit_key = 0;
    bool handlers_registered = false;
    /// True: cep_close() makes every thread pass a memory barrier (membarrier(2)), so hot calls need none of their own.
    std::atomic<bool> remote_barriers{false};
};

constinit Registry registry;
thread_local ThisThread this_thread;

void close_all_at_exit() {
    std::vector<cep_profiler*> open;
    {
        const std::lock_guard guard(registry.mutex);
        if (registry.profilers != nullptr) open = *registry.profilers;
    }
    const std::int64_t deadline_ns = deadline_after(exit_timeout_ms);
    for (cep_profiler* profiler : open) (void)close_profiler(*profiler, deadline_ns, true);
}

void lock_for_fork() {
    registry.mutex.lock();
}
void unlock_in_parent() {
    registry.mutex.unlock();
}

/// Turns the child's copy of a profiler off. Closes the file, because the child's descriptor would keep it locked.
void turn_off_copy(cep_profiler& profiler) noexcept {
    profiler.forked.store(true, std::memory_order_relaxed);
    profiler.inputs.board.stop();
    profiler.session.store(nullptr, std::memory_order_relaxed);
    const int fd = profiler.inputs.fd.exchange(-1, std::memory_order_relaxed);
    if (fd >= 0) ::close(fd);
}

/// The child has none of the parent's threads, so its copies of the profilers are turned off and never freed.
void turn_off_in_child() {
    const KeepErrno keep;
    registry.threads = this_thread.node;
    if (this_thread.node != nullptr) {
        this_thread.node->previous = this_thread.node->next = nullptr;
        this_thread.node->inside.store(0, std::memory_order_relaxed);
    }
    if (registry.profilers != nullptr)
        for (cep_profiler* profiler : *registry.profilers) turn_off_copy(*profiler);
    registry.mutex.unlock();
}

/// At thread exit: leaves the recorders to later threads. The writer still takes the records in them.
void leave_recorders(void* pointer) {
    auto* node = static_cast<ThreadNode*>(pointer);
    this_thread.is_inside = true;
    for (const ThreadNode::Attachment& attachment : node->attachments) {
        if (attachment.recorder == nullptr) continue;
        node->inside.store(attachment.profiler->serial, std::memory_order_seq_cst);
        if (attachment.profiler->session.load(std::memory_order_seq_cst) == attachment.session)
            attachment.session->recorder.leave(*attachment.recorder);
        node->inside.store(0, std::memory_order_release);
    }
    this_thread.is_inside = false;
    const std::lock_guard guard(registry.mutex);
    (node->previous != nullptr ? node->previous->next : registry.threads) = node->next;
    if (node->next != nullptr) node->next->previous = node->previous;
    this_thread.node = nullptr;
    delete node;
}

[[nodiscard]] bool register_remote_barriers() noexcept {
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

/// After this call, the calling thread sees all that other threads had done before it, in their program order.
void remote_barrier() noexcept {
    if (!registry.remote_barriers.load(std::memory_order_relaxed)) return;
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0 && register_remote_barriers())
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

// Out of line: a call whose thread has its node then saves no registers for this.
[[nodiscard, gnu::noinline, gnu::cold]] ThreadNode* make_node() noexcept {
    const KeepErrno keep;
    auto* node = new (std::nothrow) ThreadNode;
    if (node == nullptr) return nullptr;
    const std::lock_guard guard(registry.mutex);
    node->next = registry.threads;
    if (node->next != nullptr) node->next->previous = node;
    registry.threads = node;
    pthread_setspecific(registry.thread_exit_key, node);
    return this_thread.node = node;
}

}  // namespace

bool this_thread_has_recorded() noexcept {
    return this_thread.node != nullptr;
}

bool this_thread_has_phase() noexcept {
    return this_thread.phases != 0;
}

std::uint64_t next_serial() noexcept {
    return registry.last_serial.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::int32_t register_handlers() {
    const std::lock_guard guard(registry.mutex);
    if (registry.handlers_registered) return CEP_OK;
    if (pthread_key_create(&registry.thread_exit_key, &leave_recorders) != 0)
        return fail(
            CEP_ELIMIT,
            "cep_open: this process has used all its thread-specific keys (pthread_key_create, PTHREAD_KEYS_MAX)");
    registry.handlers_registered = true;
    registry.remote_barriers.store(register_remote_barriers(), std::memory_order_relaxed);
    pthread_atfork(&lock_for_fork, &unlock_in_parent, &turn_off_in_child);
    std::atexit(&close_all_at_exit);
    return CEP_OK;
}

void register_profiler(cep_profiler& profiler) {
    const std::lock_guard guard(registry.mutex);
    if (registry.profilers == nullptr) registry.profilers = new std::vector<cep_profiler*>;
    registry.profilers->push_back(&profiler);
}

bool wait_until_no_thread_inside(const cep_profiler& profiler, std::int64_t deadline_ns, bool exiting) noexcept {
    const auto is_inside = [&] {
        const std::lock_guard guard(registry.mutex);
        for (const ThreadNode* node = registry.threads; node != nullptr; node = node->next) {
            if (exiting && node == this_thread.node) continue;  // exit() in a signal handler: the call never resumes
            if (node->inside.load(std::memory_order_seq_cst) == profiler.serial) return true;
        }
        return false;
    };
    remote_barrier();
    while (is_inside()) {
        if (monotonic_ns() >= deadline_ns) return false;
        const timespec pause{0, 50'000};
        nanosleep(&pause, nullptr);
    }
    return true;
}

SessionGuard::SessionGuard(cep_profiler& profiler) noexcept : profiler_(profiler) {
    if (!profiler.is_on()) return;
    ThisThread* const thread = &this_thread;
    refused_ = thread->is_inside;
    if (refused_) return;
    thread->is_inside = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    node_ = thread->node;
    if (node_ == nullptr) node_ = make_node();
    refused_ = node_ == nullptr;
    if (refused_) {
        thread->is_inside = false;
        return;
    }
    thread_ = thread;
    // Either this thread sees that the session has gone, or cep_close() sees that this thread is inside. This needs a
    // barrier: here, or the remote one that cep_close() makes between storing the session and reading `inside`.
    if (registry.remote_barriers.load(std::memory_order_relaxed)) {
        node_->inside.store(profiler.serial, std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
        node_->inside.store(profiler.serial, std::memory_order_seq_cst);
    }
    session_ = profiler.session.load(std::memory_order_seq_cst);
}

SessionGuard::~SessionGuard() {
    if (thread_ == nullptr) return;
    node_->inside.store(0, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    thread_->is_inside = false;
}

void SessionGuard::note_phase(bool before, bool after) noexcept {
    if (after && !before) ++thread_->phases;
    if (before && !after) --thread_->phases;
}

ThreadRecorder* SessionGuard::existing_recorder() const noexcept {
    for (const ThreadNode::Attachment& attachment : node_->attachments)
        if (attachment.session == session_ && attachment.profiler == &profiler_) return attachment.recorder;
    return nullptr;
}

ThreadRecorder* SessionGuard::recorder() noexcept {
    for (const ThreadNode::Attachment& attachment : node_->attachments) {
        if (attachment.session != session_ || attachment.profiler != &profiler_) continue;
        if (attachment.recorder != nullptr) return attachment.recorder;
        if (attachment.vacancies != session_->recorder.vacancies()) break;
        session_->recorder.count_refused();
        return nullptr;
    }
    ThreadRecorder* recorder = attach();
    if (recorder == nullptr) session_->recorder.count_refused();
    return recorder;
}

[[gnu::noinline, gnu::cold]] ThreadRecorder* SessionGuard::attach() noexcept {
    const KeepErrno keep;
    const std::uint32_t vacancies = session_->recorder.vacancies();
    try {
        std::erase_if(node_->attachments, [this](const ThreadNode::Attachment& attachment) {
            return attachment.session == session_ ||
                   attachment.profiler->session.load(std::memory_order_acquire) != attachment.session;
        });
        node_->attachments.reserve(node_->attachments.size() + 1);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
    ThreadRecorder* recorder = session_->recorder.attach();
    if (recorder == nullptr && !session_->recorder.is_full()) return nullptr;  // no memory: the next call tries again
    node_->attachments.push_back({&profiler_, session_, recorder, vacancies});
    session_->writer.start();
    return recorder;
}

}  // namespace cep
