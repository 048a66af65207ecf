// SPDX-License-Identifier: Apache-2.0
#include "cuda/poller.hpp"

#include <ctime>
#include <exception>

#include "base/host_clock.hpp"
#include "base/message.hpp"
#include "options/options.hpp"

namespace cep {
namespace {

constexpr std::int64_t search_pause_ns = ns_per_s;
/// A pass takes the driver's locks, for which the trainer's launches wait. So passes keep this distance, also if a
/// caller asks for one flush after the other.
constexpr std::int64_t pass_distance_ns = ns_per_ms / 10;

void sleep_until(std::int64_t ns) noexcept {
    const std::int64_t left_ns = ns - monotonic_ns();
    const timespec left{.tv_sec = 0, .tv_nsec = left_ns};
    if (left_ns > 0) (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &left, nullptr);
}

}  // namespace

Poller::Poller(cuda::CudaDevice& device, const Config& config, Wakeup& writer)
    : device_(device), rank_(config.rank), first_of_host_(config.local_rank == 0), writer_(writer) {
    device.set_poller(wakeup_);
}

std::uint32_t Poller::ask_to_catch_up() noexcept {
    const std::uint32_t number = catch_up_.ask();
    wakeup_.notify();
    return number;
}

void Poller::run() noexcept {
    while (!stop_.load(std::memory_order_acquire)) {
        const PollResult last = work();
        self_ns_.set(static_cast<std::uint64_t>(clock_ns(CLOCK_THREAD_CPUTIME_ID)));
        const std::int64_t ended_ns = monotonic_ns();
        wakeup_.wait(next_pause(last));
        sleep_until(ended_ns + pass_distance_ns);
    }
    print_notice();
    if (shut_down_.load(std::memory_order_acquire)) device_.shut_down();
}

PollResult Poller::work() noexcept {
    const std::uint32_t asked = catch_up_.asked();
    PollResult last{.pending = true};
    try {
        accept_spans();
        last = device_.poll(times_, final_pass_.load(std::memory_order_relaxed));
    } catch (const std::exception&) {  // no memory: the spans stay in the ring for the next pass
    }
    print_notice();
    const bool served = last.caught_up && !refused_ && !catch_up_.served(asked);
    if (served) catch_up_.serve(asked);
    if (served || (last.resolved > 0 && is_urgent())) writer_.wake();
    return last;
}

void Poller::accept_spans() {
    DeviceSpan span{};
    while (refused_ || spans_.pop(span)) {
        if (refused_) span = *refused_;
        refused_ = span;
        device_.accept(span);
        refused_.reset();
    }
}

void Poller::print_notice() noexcept {
    try {
        const std::string notice = device_.take_notice(first_of_host_);
        if (!notice.empty()) print_message(rank_, notice);
    } catch (const std::exception&) {  // no memory for the message
    }
}

std::int64_t Poller::next_pause(const PollResult& last) noexcept {
    if (!last.pending) {
        pace_.restart();
        return last.searching ? search_pause_ns : Wakeup::for_ever_ns;
    }
    return is_urgent() ? Pace::urgent_ns : pace_.next_ns(last.resolved);
}

bool Poller::stop(std::int64_t deadline_ns, bool shut_down) noexcept {
    shut_down_.store(shut_down, std::memory_order_release);
    stop_.store(true, std::memory_order_release);
    wakeup_.notify();
    const bool ended = thread_.join(deadline_ns);
    if (!ended) shut_down_.store(false, std::memory_order_release);
    return ended;
}

}  // namespace cep
