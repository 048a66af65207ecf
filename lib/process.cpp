// SPDX-License-Identifier: Apache-2.0
//
// The parts that concern the whole process: its threads, its exit and its forks.
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <new>

#include "base/error.hpp"
#include "base/host_clock.hpp"
#include "profiler.hpp"

namespace cep {

constinit thread_local ThisThread this_thread;

namespace {

constexpr std::int64_t exit_timeout_ms = 5000;

/// All profilers and recording threads, for close, exit and fork. There is no lock: a signal handler that calls exit()
/// or fork() may have interrupted any function here. Both lists only grow at their heads.
struct Registry {
    std::atomic<ThreadNode*> threads{nullptr};
    std::atomic<cep_profiler*> profilers{nullptr};
    std::atomic<std::uint64_t> last_serial{0};
    std::atomic<std::int64_t> thread_exit_key{-1};
    std::atomic<bool> handlers_registered{false};
    /// True: cep_close() makes every thread pass a memory barrier (membarrier(2)), so hot calls need none of their own.
    std::atomic<bool> remote_barriers{false};
};

constinit Registry registry;

void close_all_at_exit() {
    const std::int64_t deadline_ns = deadline_after(exit_timeout_ms);
    for (cep_profiler* profiler = newest_profiler(); profiler != nullptr; profiler = profiler->opened_before)
        (void)close_profiler(*profiler, deadline_ns, true);
}

/// Turns the child's copy of a profiler off. Closes the file, because the child's descriptor would keep it locked.
void turn_off_copy(cep_profiler& profiler) noexcept {
    profiler.forked.store(true, std::memory_order_relaxed);
    profiler.board.stop();
    profiler.session.store(nullptr, std::memory_order_relaxed);
    profiler.inputs.descriptor.close(false);
}

/// The child has none of the parent's threads, so its copies of the profilers are turned off and never freed.
void turn_off_in_child() {
    const KeepErrno keep;
    // The child keeps its own node. It stays inside if a signal handler forks: the call that the handler has
    // interrupted goes on in the child, too.
    if (this_thread.node != nullptr) this_thread.node->next = nullptr;
    registry.threads.store(this_thread.node, std::memory_order_relaxed);
    for (cep_profiler* profiler = newest_profiler(); profiler != nullptr; profiler = profiler->opened_before)
        turn_off_copy(*profiler);
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
    node->attachments.clear();
    node->latest = {};
    this_thread.node = nullptr;  // from here on, a signal handler that records gets another node
    std::atomic_signal_fence(std::memory_order_seq_cst);
    node->inside.store(0, std::memory_order_relaxed);
    node->owned.store(false, std::memory_order_release);
}

[[nodiscard]] bool register_remote_barriers() noexcept {
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

[[nodiscard]] ThreadNode* adopt_node() noexcept {
    for (ThreadNode* node = registry.threads.load(std::memory_order_acquire); node != nullptr; node = node->next) {
        bool owned = false;
        if (node->owned.compare_exchange_strong(owned, true, std::memory_order_acquire)) return node;
    }
    return nullptr;
}

[[nodiscard]] ThreadNode* create_node() noexcept {
    auto* node = new (std::nothrow) ThreadNode;
    if (node == nullptr) return nullptr;
    node->next = registry.threads.load(std::memory_order_relaxed);
    while (!registry.threads.compare_exchange_weak(node->next, node, std::memory_order_release)) {
    }
    return node;
}

}  // namespace

bool pass_remote_barrier() noexcept {
    const auto pass = [] { return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0; };
    if (!registry.remote_barriers.load(std::memory_order_relaxed)) return false;
    return pass() || (register_remote_barriers() && pass());
}

ThreadNode* make_thread_node() noexcept {
    if (this_thread.makes_node) return nullptr;
    this_thread.makes_node = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (this_thread.node == nullptr) {  // else a signal handler has just made it
        const KeepErrno keep;
        ThreadNode* node = adopt_node();
        if (node == nullptr) node = create_node();
        if (node != nullptr) {
            node->errno_place = &errno;
            node->remote_barriers = registry.remote_barriers.load(std::memory_order_relaxed);
            pthread_setspecific(static_cast<pthread_key_t>(registry.thread_exit_key.load()), node);
        }
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
    pthread_key_t key = 0;
    std::int64_t none = -1;
    if (registry.thread_exit_key.load() == none) {
        if (pthread_key_create(&key, &leave_recorders) != 0)
            return fail(
                CEP_ELIMIT,
                "cep_open: this process has used all its thread-specific keys (pthread_key_create, PTHREAD_KEYS_MAX)");
        if (!registry.thread_exit_key.compare_exchange_strong(none, key)) pthread_key_delete(key);  // another thread's
    }
    if (registry.handlers_registered.exchange(true)) return CEP_OK;
    registry.remote_barriers.store(register_remote_barriers(), std::memory_order_relaxed);
    pthread_atfork(nullptr, nullptr, &turn_off_in_child);
    std::atexit(&close_all_at_exit);
    return CEP_OK;
}

void register_profiler(cep_profiler& profiler) noexcept {
    profiler.opened_before = registry.profilers.load(std::memory_order_relaxed);
    while (!registry.profilers.compare_exchange_weak(profiler.opened_before, &profiler, std::memory_order_release)) {
    }
}

cep_profiler* newest_profiler() noexcept {
    return registry.profilers.load(std::memory_order_acquire);
}

bool wait_until_no_thread_inside(const cep_profiler& profiler, std::int64_t deadline_ns) noexcept {
    const auto is_inside = [&](const ThreadNode& node) {
        return node.inside.load(std::memory_order_seq_cst) == profiler.serial;
    };
    const auto others_are_inside = [&] {
        const ThreadNode* node = registry.threads.load(std::memory_order_acquire);
        for (; node != nullptr; node = node->next)
            if (node != this_thread.node && is_inside(*node)) return true;
        return false;
    };
    (void)pass_remote_barrier();
    while (others_are_inside()) {
        if (monotonic_ns() >= deadline_ns) return false;
        const timespec pause{0, 50'000};
        nanosleep(&pause, nullptr);
    }
    return this_thread.node == nullptr || !is_inside(*this_thread.node);
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
    session.wakeup.notify();  // a writer that sleeps for ever has not asked this recorder to wake it
    return recorder;
}

}  // namespace cep
