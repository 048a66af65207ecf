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

constinit thread_local ThisThread this_thread;

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
    // It stays inside if a signal handler forks: the call that the handler has interrupted goes on in the child, too.
    if (this_thread.node != nullptr) this_thread.node->previous = this_thread.node->next = nullptr;
    if (registry.profilers != nullptr)
        for (cep_profiler* profiler : *registry.profilers) turn_off_copy(*profiler);
    registry.mutex.unlock();
}

/// At thread exit: leaves the recorders to later threads. The writer still takes the records in them.
void leave_recorders(void* pointer) {
    auto* node = static_cast<ThreadNode*>(pointer);
    node->inside.store(ThreadNode::in_no_session, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    for (const ThreadNode::Attachment& attachment : node->attachments) {
        if (attachment.recorder == nullptr) continue;
        node->inside.store(attachment.profiler->serial, std::memory_order_seq_cst);
        if (attachment.profiler->session.load(std::memory_order_seq_cst) == attachment.session)
            attachment.session->recorder.leave(*attachment.recorder);
        node->inside.store(ThreadNode::in_no_session, std::memory_order_release);
    }
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

void add_thread(ThreadNode& node) noexcept {
    node.remote_barriers = registry.remote_barriers.load(std::memory_order_relaxed);
    const std::lock_guard guard(registry.mutex);
    node.next = registry.threads;
    if (node.next != nullptr) node.next->previous = &node;
    registry.threads = &node;
    pthread_setspecific(registry.thread_exit_key, &node);
}

}  // namespace

ThreadNode* make_thread_node() noexcept {
    if (this_thread.makes_node) return nullptr;
    this_thread.makes_node = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (this_thread.node == nullptr) {  // else a signal handler has just made it
        const KeepErrno keep;
        auto* node = new (std::nothrow) ThreadNode;
        if (node != nullptr) add_thread(*node);
        this_thread.node = node;
    }
    std::atomic_signal_fence(std::memory_order_seq_cst);
    this_thread.makes_node = false;
    return this_thread.node;
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

ThreadRecorder* SessionGuard::find_recorder(const cep_profiler& profiler, const Session& session,
                                            ThreadNode& node) noexcept {
    for (const ThreadNode::Attachment& attachment : node.attachments) {
        if (attachment.session != &session || attachment.profiler != &profiler) continue;
        if (attachment.recorder != nullptr) node.latest = attachment;
        return attachment.recorder;
    }
    return nullptr;
}

ThreadRecorder* SessionGuard::find_or_attach_recorder(cep_profiler& profiler, Session& session,
                                                      ThreadNode& node) noexcept {
    for (const ThreadNode::Attachment& attachment : node.attachments) {
        if (attachment.session != &session || attachment.profiler != &profiler) continue;
        if (attachment.recorder != nullptr) return find_recorder(profiler, session, node);
        if (attachment.vacancies != session.recorder.vacancies()) break;
        session.recorder.count_refused();
        return nullptr;
    }
    ThreadRecorder* recorder = attach(profiler, session, node);
    if (recorder == nullptr) session.recorder.count_refused();
    return recorder;
}

ThreadRecorder* SessionGuard::attach(cep_profiler& profiler, Session& session, ThreadNode& node) noexcept {
    const std::uint32_t vacancies = session.recorder.vacancies();
    try {
        std::erase_if(node.attachments, [&session](const ThreadNode::Attachment& attachment) {
            return attachment.session == &session ||
                   attachment.profiler->session.load(std::memory_order_acquire) != attachment.session;
        });
        node.attachments.reserve(node.attachments.size() + 1);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
    ThreadRecorder* recorder = session.recorder.attach();
    if (recorder == nullptr && !session.recorder.is_full()) return nullptr;  // no memory: the next call tries again
    node.attachments.push_back({&profiler, &session, recorder, vacancies});
    session.writer.start();
    return recorder;
}

}  // namespace cep
