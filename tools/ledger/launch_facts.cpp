// SPDX-License-Identifier: Apache-2.0
#include "ledger/launch_facts.hpp"

#include <algorithm>
#include <cmath>
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
    ++of.all;
    of.ended += is_ended;
    of.of_rank[rank_].push_back({static_cast<double>(span.length_ns()) * 1e-6, static_cast<double>(wait_ns) * 1e-6});
}

/// How much longer a phase takes where it waits longer.
class Slope {
  public:
    void add(double x, double y) {
        xx_ += x * x;
        xy_ += x * y;
        yy_ += y * y;
        ++count_;
    }
    void add(const Slope& other) {
        xx_ += other.xx_;
        xy_ += other.xy_;
        yy_ += other.yy_;
        count_ += other.count_;
    }
    /// In standard errors; 0 where too little is known.
    [[nodiscard]] double errors() const {
        constexpr double fewest_spans = 8;
        if (count_ < fewest_spans || !(xx_ > 0)) return 0;
        const double slope = xy_ / xx_;
        return slope / std::sqrt(std::max(1e-12, yy_ - slope * xy_) / count_ / xx_);
    }

  private:
    double xx_ = 0;
    double xy_ = 0;
    double yy_ = 0;
    double count_ = 0;
};

// If it waits, who is not the last one ends with that, and takes longer where it waits longer. If it goes on, who takes
// longer waits less.
bool LaunchCollector::PhaseSpans::goes_on() const {
    constexpr double least_errors = 3;
    constexpr double clearly = 1;
    Slope all_slope;
    for (const auto& [rank, spans] : of_rank) {
        Span mean{0, 0};
        const auto size = static_cast<double>(spans.size());
        for (const Span& one : spans) {
            mean.ms += one.ms / size;
            mean.wait_ms += one.wait_ms / size;
        }
        Slope slope;
        for (const Span& one : spans) slope.add(one.wait_ms - mean.wait_ms, one.ms - mean.ms);
        if (slope.errors() > clearly) return false;
        all_slope.add(slope);
    }
    return 2 * ended <= all && all_slope.errors() <= -least_errors;
}

std::map<std::uint32_t, LaunchFacts> LaunchCollector::find() const {
    constexpr std::size_t fewest_shares = 8;
    std::map<std::uint32_t, LaunchFacts> found;
    for (const auto& [phase, spans] : phases_) {
        LaunchFacts& facts = found[phase];
        facts.goes_on = spans.goes_on();
        for (const auto& [last, of] : spans.lasts) {
            if (2 * of.ends <= spans.all) continue;
            for (const auto& [key, shares] : of.shares)
                if (shares.size() >= fewest_shares) facts.shares.try_emplace(key, median_of(shares));
        }
    }
    return found;
}

}  // namespace cep::tool
