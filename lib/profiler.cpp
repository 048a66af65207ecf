// SPDX-License-Identifier: Apache-2.0
#include "profiler.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <utility>

#include "base/error.hpp"
#include "base/guarded.hpp"
#include "base/host_clock.hpp"
#include "base/message.hpp"
#include "cuda/cuda_device.hpp"

namespace cep {
namespace {

/// Longest wait, beyond the timeout of cep_close(), for threads to leave a hot call.
constexpr std::int64_t leave_grace_ns = 100 * ns_per_ms;

[[nodiscard]] std::unique_ptr<cuda::CudaDevice> make_device(const Config& config) {
    if (config.backend == CEP_BACKEND_HOST) return nullptr;
    return std::make_unique<cuda::CudaDevice>(config.pool_limit);
}

/// Counts what is still pending at the end of a close as lost.
[[nodiscard]] Totals final_totals(const Session& session) noexcept {
    Totals totals = session.writer.totals();
    totals.dropped_io += totals.pending;
    totals.pending = 0;
    return totals;
}

/// Tells of a job that made regions and never called cep_step(), which records nothing. All ranks make this mistake;
/// rank 0 tells.
void tell_if_no_step(const cep_profiler& profiler) noexcept {
    const std::size_t count = profiler.regions.size();
    if (profiler.rank != 0 || count == 0 || profiler.board.read().step >= 0) return;
    std::array<const char*, 3> names{"", "", ""};
    profiler.regions.for_each([&](const cep_region& region) {
        if (region.number <= names.size()) names[region.number - 1] = region.text.c_str();
    });
    char more[40] = "";
    if (count > names.size()) (void)std::snprintf(more, sizeof more, " and %zu more", count - names.size());
    char text[1024];
    (void)std::snprintf(text, sizeof text,
                        "cep_step() was never called; nothing was recorded for %.200s%s%.200s%s%.200s%s: call it, in "
                        "Python prof.step(n), at the start of each step",
                        names[0], count > 1 ? ", " : "", names[1], count > 2 ? ", " : "", names[2], more);
    print_message(profiler.rank, text);
}

/// exit() in a signal handler that has interrupted this thread's cep_close(), which never resumes: writes the rest.
[[nodiscard]] std::int32_t end_interrupted_session(cep_profiler& profiler, std::int64_t deadline_ns) {
    Session* session = profiler.ending.load(std::memory_order_relaxed);
    if (session == nullptr) return CEP_OK;
    profiler.session.store(nullptr, std::memory_order_seq_cst);
    (void)wait_until_no_thread_inside(profiler, std::max(deadline_ns, monotonic_ns() + leave_grace_ns));
    const std::int32_t code = session->writer.finish(deadline_ns);
    (void)session->writer.join(deadline_ns);
    return code;
}

[[nodiscard]] std::int32_t end_session(cep_profiler& profiler, Session& session, std::int64_t deadline_ns,
                                       bool exiting) {
    (void)session.writer.flush(deadline_ns, true);  // spans that other threads end meanwhile are still recorded
    profiler.totals_before_close = session.writer.totals();
    profiler.kept_totals.store(&profiler.totals_before_close, std::memory_order_release);
    profiler.session.store(nullptr, std::memory_order_seq_cst);
    const auto grace_end_ns = [&] { return std::max(deadline_ns, monotonic_ns() + leave_grace_ns); };
    const bool alone = wait_until_no_thread_inside(profiler, grace_end_ns());
    const std::int32_t code = session.writer.finish(deadline_ns);
    const bool written = session.writer.join(grace_end_ns());
    profiler.totals_after_close = final_totals(session);
    profiler.kept_totals.store(&profiler.totals_after_close, std::memory_order_release);
    const bool shut_down = alone && !exiting;
    if (shut_down) session.recorder.for_each([](ThreadRecorder& thread) { thread.release_left_open(); });
    const bool polled = session.poller == nullptr || session.poller->stop(grace_end_ns(), shut_down);
    profiler.ending.store(nullptr, std::memory_order_relaxed);
    if (shut_down && written && polled)
        delete &session;
    else
        profiler.left_behind = &session;  // a thread may still use it
    return code;
}

}  // namespace

std::int64_t deadline_after(std::int64_t timeout_ms) noexcept {
    constexpr std::int64_t forever_ms = INT64_MAX / 4 / ns_per_ms;
    return monotonic_ns() + std::min(timeout_ms, forever_ms) * ns_per_ms;
}

Session::Session(Config checked, std::uint64_t serial, WriterInputs& inputs, std::atomic<std::int64_t>& stride)
    : config(std::move(checked)),
      device(make_device(config)),
      recorder(config, serial, wakeup, device.get()),
      poller(device == nullptr ? nullptr : std::make_unique<Poller>(*device, config, wakeup)),
      writer(config, inputs, recorder, device.get(), poller.get(), wakeup, stride) {}

std::int32_t open_profiler(Config config, cep_profiler*& out) {
    auto profiler = std::make_unique<cep_profiler>(next_serial());
    profiler->sampling = config.sampling;
    profiler->stride.store(config.sampling.record_every_n_steps, std::memory_order_relaxed);
    profiler->rank = config.rank;
    profiler->is_bounded = config.max_overhead_percent > 0;
    if (config.active()) profiler->capture.set(config.capture_range, config.rank);
    profiler->only_spans = config.layout != CEP_LAYOUT_FULL;
    if (!config.meta.empty())
        if (const std::int32_t code = profiler->inputs.meta.merge(config.meta.c_str()); code != CEP_OK) return code;
    std::unique_ptr<Session> session;
    if (config.active()) {
        if (const std::int32_t code = register_handlers(); code != CEP_OK) return code;
        session = std::make_unique<Session>(std::move(config), profiler->serial, profiler->inputs, profiler->stride);
        bool busy = false;
        if (const std::int32_t code = session->writer.open(busy); code != CEP_OK) return code;
        if (busy) {
            print_message(session->config.rank,
                          session->writer.path() + ": another profiler is writing this file; this one is off");
            session.reset();
        }
    }
    register_profiler(*profiler);
    profiler->session.store(session.release(), std::memory_order_release);
    out = profiler.release();
    return CEP_OK;
}

std::int32_t flush_profiler(cep_profiler& profiler, std::int64_t timeout_ms) noexcept {
    SessionGuard guard(profiler);
    Session* session = guard.session();
    if (session == nullptr) return CEP_OK;
    if (timeout_ms == 0) {
        profiler.inputs.flush_due.store(true, std::memory_order_release);
        session->wakeup.notify();
        return CEP_OK;
    }
    return guarded("cep_flush", [&] { return session->writer.flush(deadline_after(timeout_ms), false); });
}

std::int32_t close_profiler(cep_profiler& profiler, std::int64_t deadline_ns, bool exiting) noexcept {
    Session* session = profiler.session.load(std::memory_order_acquire);
    const bool first = session != nullptr && !profiler.closing.exchange(true);
    if (!first) {
        if (exiting && profiler.closer.load(std::memory_order_relaxed) == &this_thread)
            return guarded("exit", [&] { return end_interrupted_session(profiler, deadline_ns); });
        if (!profiler.closing.load() || profiler.forked.load()) return CEP_OK;
        if (!profiler.closed.wait(1, deadline_ns))
            return fail(CEP_ETIMEDOUT, "cep_close: another thread is still closing this profiler");
        if (profiler.close_code == CEP_OK) return CEP_OK;
        return fail(profiler.close_code, "cep_close: the first call that closed this profiler: %s",
                    describe(profiler.close_code));
    }
    profiler.ending.store(session, std::memory_order_relaxed);
    profiler.closer.store(&this_thread, std::memory_order_relaxed);
    tell_if_no_step(profiler);
    profiler.board.stop();
    if (!exiting) profiler.capture.end();
    profiler.close_code = guarded("cep_close", [&] { return end_session(profiler, *session, deadline_ns, exiting); });
    profiler.closed.serve(1);
    return profiler.close_code;
}

std::int32_t read_totals(cep_profiler& profiler, Totals& totals) noexcept {
    const SessionGuard guard(profiler);
    if (guard.refused())
        return fail(CEP_EINVAL,
                    "cep_get_stats: called by a signal handler within another cep call, or memory has run out");
    if (guard.session() != nullptr)
        totals = guard.session()->writer.totals();
    else if (const Totals* kept = profiler.kept_totals.load(std::memory_order_acquire))
        totals = *kept;
    return CEP_OK;
}

}  // namespace cep
