// SPDX-License-Identifier: Apache-2.0
//
// The last work of a writer when the profiler closes.
#include <algorithm>

#include "base/error.hpp"
#include "base/host_clock.hpp"
#include "cep/cep.h"
#include "write/writer.hpp"

namespace cep {

void Writer::finish_device_spans(std::int64_t deadline_ns) noexcept {
    if (poller_ == nullptr || !poller_->started()) return;
    poller_->add_waiters(1);  // never removed: the poller polls often until it stops
    bool asked = false;
    std::uint32_t number = 0;
    for (;;) {
        (void)round();
        const std::int64_t now = monotonic_ns();
        if (!collector_.has_pending() || now >= deadline_ns + grace_ns) return;
        if (now >= deadline_ns) {
            // The deadline has passed: ask once more for everything that the device has finished.
            if (now >= deadline_ns + grace_ns / 2) poller_->set_final_pass();
            if (asked && poller_->caught_up(number)) break;
            if (!asked && !collector_.has_unsent()) {
                number = poller_->ask_to_catch_up();
                asked = true;
            }
        }
        wakeup_.wait(Pace::urgent_ns);
    }
    (void)round();
}

void Writer::finish_file(std::int64_t deadline_ns) noexcept {
    (void)round();
    finish_device_spans(deadline_ns);
    const bool abandons = collector_.has_pending();
    collector_.write_open_rows();
    collector_.abandon_pending();
    write_rest(deadline_ns);
    std::int32_t code = abandons ? CEP_ETIMEDOUT : CEP_OK;
    if (code == CEP_OK && io_failing_.load(std::memory_order_relaxed)) code = CEP_EIO;
    finish_code_.store(code, std::memory_order_release);
    file_.close();
    inputs_.closed.serve(1);
}

void Writer::give_up() noexcept {
    file_.give_up(unwritten_);
    RowBlock uncollected;
    collector_.take_block(uncollected);
    file_.give_up(uncollected);
}

void Writer::write_rest(std::int64_t deadline_ns) noexcept {
    const auto retry_until_written = [&] {
        for (write_block(true); has_rows() && file_.failure_is_transient() && monotonic_ns() < deadline_ns;
             write_block(true))
            wakeup_.wait(std::min(Pace::longest_ns, std::max<std::int64_t>(deadline_ns - monotonic_ns(), 0)));
    };
    retry_until_written();
    const bool lost = has_rows();
    give_up();
    collector_.write_stats(RowKind::closing);
    if (lost)
        write_block(true);  // one try
    else
        retry_until_written();
    give_up();
}

std::int32_t Writer::finish(std::int64_t deadline_ns) noexcept {
    finish_deadline_ns_.store(deadline_ns, std::memory_order_release);
    stand_in_wakeup_.notify();
    if (!started() && recorder_.has_recorded()) start();
    wakeup_.notify();
    while (!started() && !inputs_.closed.served(1)) {
        const WriteSignalsBlocked blocked;
        if (act_as_writer([&] { finish_file(deadline_ns); })) break;
        wakeup_.wait(Pace::urgent_ns);
        if (monotonic_ns() > deadline_ns + grace_ns) break;
    }
    if (!inputs_.closed.wait(1, deadline_ns + 2 * grace_ns)) {
        inputs_.closed.serve(1);
        return fail(CEP_ETIMEDOUT, "%s: writing did not finish within the timeout", file_.path().c_str());
    }
    switch (finish_code_.load(std::memory_order_acquire)) {
        case CEP_OK:
            return CEP_OK;
        case CEP_EIO:
            return fail(CEP_EIO, "%s: rows could not be written", file_.path().c_str());
        default:
            return fail(CEP_ETIMEDOUT, "%s: device work did not finish within the timeout", file_.path().c_str());
    }
}

bool Writer::join(std::int64_t deadline_ns) noexcept {
    const bool stand_in_ended = stand_in_thread_.join(deadline_ns);
    return thread_.join(deadline_ns) && stand_in_ended;
}

}  // namespace cep
