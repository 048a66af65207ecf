// SPDX-License-Identifier: Apache-2.0
#include "ledger/waits_beside_work.hpp"

#include <algorithm>
#include <cmath>

namespace cep::tool {
namespace {

/// The waiting in collectives one behind the other. Those that are late began when the one before ended, so that the
/// rank was ready for them before: nobody knows when.
class Queue {
  public:
    void add(std::int64_t waiting_ns, bool is_late) {
        const std::int64_t more_ns = std::max<std::int64_t>(0, waiting_ns - last_ns_);
        new_ns_ += more_ns;
        last_ns_ = waiting_ns;
        if (is_late) {
            ++late_;
            late_ns_ += more_ns;
        } else if (++timely_ > 1) {
            timely_ns_ += more_ns;
        }
    }
    /// `ends_phase`: the phase ends with the last of them. Then those that were late waited for as much more as the
    /// others did, one by one; what does not end with its communication shows by its end how late that was.
    [[nodiscard]] std::int64_t waiting_ns(bool ends_phase) const {
        if (!ends_phase || timely_ < 2) return new_ns_;
        return new_ns_ + std::max<std::int64_t>(0, late_ * timely_ns_ / (timely_ - 1) - late_ns_);
    }

  private:
    std::int64_t last_ns_ = 0;
    std::int64_t new_ns_ = 0;  // of each, what exceeds the one before
    std::int64_t late_ = 0;
    std::int64_t late_ns_ = 0;  // of new_ns_
    std::int64_t timely_ = 0;
    std::int64_t timely_ns_ = 0;  // of new_ns_, but for the first: that was late before
};

/// Between two collectives of which one began when the other ended, the phase did as much as behind the last, and
/// waited for the rest. `host_ns`: between their launches.
std::int64_t held_up_ns(const CommBesideWork& late, std::int64_t behind_ns, std::int64_t host_ns) {
    return std::clamp<std::int64_t>(late.interval.length_ns() - std::max(behind_ns, host_ns), 0, late.waiting_ns);
}

}  // namespace

double LaunchFacts::share_of(Launch::Key key) const {
    const auto known = std::lower_bound(shares.begin(), shares.end(), key,
                                        [](const auto& one, Launch::Key other) { return one.first < other; });
    return known == shares.end() || known->first != key ? NAN : known->second;
}

WaitsBesideWork::Sum WaitsBesideWork::until(const Interval& phase, const LaunchFacts* facts) const {
    Sum most;
    for (auto at = all_.begin(); at != all_.end(); ++at) {
        const auto is_on_its_stream = [at](const CommBesideWork& one) { return one.stream == at->stream; };
        if (std::any_of(all_.begin(), at, is_on_its_stream)) continue;
        const Sum sum = on_stream(at->stream, phase, facts);
        most.ns = std::max(most.ns, sum.ns);
        most.for_late_ns = std::max(most.for_late_ns, sum.for_late_ns);
        most.hidden_ns = std::max(most.hidden_ns, sum.hidden_ns);
    }
    return most;
}

WaitsBesideWork::Sum WaitsBesideWork::on_stream(std::uint32_t stream, const Interval& phase,
                                                const LaunchFacts* facts) const {
    if (facts != nullptr && !facts->shares.empty())
        if (const std::optional<Sum> known = behind_work(stream, phase, *facts)) return *known;
    const auto is_on = [stream](const CommBesideWork& one) { return one.stream == stream; };
    const bool ends_phase =
        std::any_of(all_.begin(), all_.end(), [&](const CommBesideWork& one) { return is_on(one) && one.is_at_end; });
    const std::int64_t behind_ns = phase.end_ns - std::find_if(all_.rbegin(), all_.rend(), is_on)->interval.end_ns;
    Queue all;
    Queue for_late;
    Sum held;
    std::int64_t end_ns = 0;  // of the one before
    std::int64_t launch_ns = 0;
    for (const CommBesideWork& one : all_) {
        if (!is_on(one)) continue;
        const bool is_late = one.interval.begin_ns - end_ns <= tolerance_ns;
        const bool has_launch = one.launch_ns != SpanSegment::no_launch;
        const std::int64_t host_ns = has_launch ? one.launch_ns - launch_ns : 0;
        end_ns = one.interval.end_ns;
        launch_ns = has_launch ? one.launch_ns : one.interval.begin_ns;
        const std::int64_t held_ns = is_late ? held_up_ns(one, behind_ns, host_ns) : 0;
        all.add(one.waiting_ns, is_late);
        held.hidden_ns += held_ns;
        if (!one.is_for_late) continue;
        for_late.add(one.waiting_ns, is_late);
        held.for_late_ns += held_ns;
    }
    const std::int64_t ns = all.waiting_ns(ends_phase);
    if (ends_phase) return {ns, for_late.waiting_ns(true), ns};
    return {ns, std::max(for_late.waiting_ns(false), held.for_late_ns), held.hidden_ns};
}

// The launch that comes last of those that tell it. Where the row of the last one was lost, all behind it is waiting.
std::optional<WaitsBesideWork::Sum> WaitsBesideWork::behind_work(std::uint32_t stream, const Interval& phase,
                                                                 const LaunchFacts& facts) const {
    constexpr double least_share = 0.05;
    double work_ns = NAN;
    double last_share = NAN;
    const CommBesideWork* last = nullptr;
    for_each_launch(stream, phase, [&](const CommBesideWork& one, const Launch& launch) {
        const auto [of, seq] = launch.key;
        const bool is_behind_lost = last == nullptr && seq > 0 && !std::isnan(facts.share_of({of, seq - 1}));
        last = &one;
        last_share = facts.share_of(launch.key);
        if (launch.is_free && !is_behind_lost && last_share > least_share)
            work_ns = static_cast<double>(launch.after_ns) / last_share;
    });
    const bool goes_on_behind = !last->is_at_end && last_share == 1;
    if (std::isnan(work_ns) || goes_on_behind) return std::nullopt;
    const std::int64_t until_ns = last->is_at_end ? last->interval.begin_ns + last->waiting_ns : phase.end_ns;
    const std::int64_t ns = std::max<std::int64_t>(0, until_ns - phase.begin_ns - static_cast<std::int64_t>(work_ns));
    return Sum{ns, last->is_for_late ? ns : 0, ns};
}

}  // namespace cep::tool
