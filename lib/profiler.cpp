// SPDX-License-Identifier: Apache-2.0
#include "profiler.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "cuda/cuda_resolver.hpp"
#include "error.hpp"
#include "host_clock.hpp"

namespace cep {
namespace {

/// Longest extra wait, past a close's own timeout, for threads that are inside a hot call right now.
constexpr std::int64_t visitor_grace_ns = 100 * ns_per_ms;

[[nodiscard]] std::int64_t deadline_after(std::int64_t timeout_ms) noexcept {
    constexpr std::int64_t forever_ms = INT64_MAX / 2 / ns_per_ms;
    return monotonic_ns() + std::min(timeout_ms, forever_ms) * ns_per_ms;
}

[[nodiscard]] std::int32_t end_session(cep_profiler& profiler, Session& session, std::int64_t deadline_ns,
                                       bool exiting) {
    std::int32_t code = session.resolver.flush(deadline_ns, true);
    profiler.session.store(nullptr, std::memory_order_seq_cst);
    const bool alone = wait_for_visitors(profiler, std::max(deadline_ns, monotonic_ns() + visitor_grace_ns));
    const bool finished =
        session.resolver.finish(std::max(deadline_ns, monotonic_ns() + visitor_grace_ns), alone && !exiting, code);
    profiler.final_totals.store(new Totals(session.resolver.totals()), std::memory_order_release);
    if (alone && finished)
        delete &session;
    else
        profiler.left_behind = &session;  // somebody still holds on to it
    return code;
}

}  // namespace

Session::Session(Config checked, ResolverInputs& inputs)
    : config(std::move(checked)),
      cuda(config.pool_limit),
      device(config.backend == CEP_BACKEND_HOST ? nullptr : std::make_unique<cuda::CudaDevice>(cuda)),
      device_resolver(device == nullptr ? nullptr : std::make_unique<cuda::CudaResolver>(cuda, cancelled)),
      recorder(config, wakeup, device.get()),
      resolver(config, inputs, recorder, file, device_resolver.get(), wakeup, cancelled) {}

std::int32_t open_profiler(Config config, cep_profiler*& out) {
    auto profiler = std::make_unique<cep_profiler>(next_serial());
    profiler->sampling = config.sampling;
    profiler->flat = config.layout == CEP_LAYOUT_FLAT;
    if (!config.meta.empty())
        if (const std::int32_t code = profiler->inputs.meta.merge(config.meta.c_str()); code != CEP_OK) return code;
    std::unique_ptr<Session> session;
    if (config.active()) {
        session = std::make_unique<Session>(std::move(config), profiler->inputs);
        if (const std::int32_t code = session->file.open(session->config); code != CEP_OK) return code;
    }
    remember_profiler(*profiler, session != nullptr);
    profiler->session.store(session.release(), std::memory_order_release);
    out = profiler.release();
    return CEP_OK;
}

std::int32_t flush_profiler(cep_profiler& profiler, std::int64_t timeout_ms) noexcept {
    Visit visit(profiler);
    Session* session = visit.session();
    if (session == nullptr) return CEP_OK;
    if (timeout_ms == 0) {
        profiler.inputs.flush_due.store(true, std::memory_order_release);
        session->wakeup.notify();
        return CEP_OK;
    }
    try {
        return session->resolver.flush(deadline_after(timeout_ms), false);
    } catch (const std::exception& error) {
        return fail(CEP_EINTERNAL, "cep_flush: %s", error.what());
    }
}

std::int32_t close_profiler(cep_profiler& profiler, std::int64_t timeout_ms, bool exiting) noexcept {
    Session* session = profiler.session.load(std::memory_order_acquire);
    if (session == nullptr || profiler.closing.exchange(true)) return CEP_OK;
    profiler.recording.store(false, std::memory_order_relaxed);
    profiler.in_window.store(false, std::memory_order_relaxed);
    try {
        return end_session(profiler, *session, deadline_after(timeout_ms), exiting);
    } catch (const std::bad_alloc&) {
        return fail(CEP_ENOMEM, "cep_close: out of memory");
    } catch (const std::exception& error) {
        return fail(CEP_EINTERNAL, "cep_close: %s", error.what());
    }
}

}  // namespace cep
