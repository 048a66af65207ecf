// SPDX-License-Identifier: Apache-2.0
#include "ledger/launch_facts.hpp"

#include <algorithm>
#include <span>

#include "stats/robust.hpp"

namespace cep::tool {

void LaunchCollector::take(std::uint32_t phase, const Interval& span, const WaitsBesideWork& beside) {
    PhaseSpans& of = phases_[phase];
    std::int64_t wait_ns = 0;
    bool is_ended = false;
    for (const CommBesideWork& one : beside.all()) {
        wait_ns = std::max(wait_ns, one.waiting_ns);
        is_ended |= one.is_at_end;
    }
    beside.for_each_stream([&of](std::span<const CommBesideWork> launches) {
        constexpr std::size_t most_launches = 1024;
        if (launches.size() > most_launches) return;
        LastLaunch& with = of.lasts[launches.back().key];
        with.ends += launches.back().is_at_end;
        add_shares(launches, with.shares);
    });
    ++of.count;
    of.ended += is_ended;
    of.has_one_each &= beside.all().size() == 1;
    of.of_rank[rank_].push_back({static_cast<double>(wait_ns) * 1e-6, static_cast<double>(span.length_ns()) * 1e-6,
                                 static_cast<double>(beside.all().front().after) * 1e-6});
}

template <typename LengthOf>
bool LaunchCollector::PhaseSpans::grows_less(double least_slope, LengthOf length_of) const {
    constexpr double fewest_spans = 8;
    constexpr double least_errors = 3;
    constexpr double clearly = 1;
    GroupSlope all;
    for (const auto& [rank, spans] : of_rank) {
        std::vector<GroupSlope::Pair> pairs;
        for (const Lengths& one : spans) pairs.push_back({one.wait_ms, length_of(one)});
        GroupSlope slope;
        slope.add(pairs);
        if (slope.freedom() + 1 >= fewest_spans && slope.errors(least_slope) > clearly) return false;
        all.add(slope);
    }
    return all.freedom() + 1 >= fewest_spans && all.errors(least_slope) <= -least_errors;
}

// If it waits, who is not the last one ends with that, and takes longer where it waits longer. If it goes on, who takes
// longer waits less. Behind the begin of communication that is the only one, it takes as much longer as it waits, or
// does not.
bool LaunchCollector::PhaseSpans::goes_on() const {
    constexpr double slope_of_half = 0.5;
    if (2 * ended > count) return false;
    return grows_less(0, [](const Lengths& one) { return one.span_ms; }) ||
           (has_one_each && grows_less(slope_of_half, [](const Lengths& one) { return one.span_ms - one.before_ms; }));
}

std::map<std::uint32_t, LaunchFacts> LaunchCollector::find() const {
    constexpr std::size_t fewest_shares = 8;
    std::map<std::uint32_t, LaunchFacts> found;
    for (const auto& [phase, spans] : phases_) {
        LaunchFacts& facts = found[phase];
        facts.goes_on = spans.goes_on();
        for (const auto& [last, of] : spans.lasts) {
            if (2 * of.ends <= spans.count) continue;
            for (const auto& [key, shares] : of.shares)
                if (shares.size() >= fewest_shares) facts.shares.try_emplace(key, median_of(shares));
        }
    }
    return found;
}

}  // namespace cep::tool
