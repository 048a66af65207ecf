// SPDX-License-Identifier: Apache-2.0
//
// Waits beside work: how much of the waiting in collectives on other streams is in the way of a phase.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "ledger/piece_cutter.hpp"
#include "model/inner_launches.hpp"
#include "stats/interval_set.hpp"

namespace cep::tool {

/// A collective that a phase began on another stream.
struct CommBesideWork : InnerLaunch<std::int64_t> {
    /// `phase`: its own, the same for all ranks.
    [[nodiscard]] static std::uint64_t key_of(std::uint32_t phase, std::uint32_t seq) {
        return std::uint64_t{phase} << 32 | seq;
    }
    [[nodiscard]] std::uint64_t phase() const { return key >> 32; }
    [[nodiscard]] std::uint32_t seq() const { return static_cast<std::uint32_t>(key); }

    std::uint32_t stream = 0;
    Interval interval{};
    std::int64_t waiting_ns = 0;
    std::int64_t launch_ns = SpanSegment::no_launch;
    bool is_for_late = false;
    bool is_at_end = false;  // of the phase
    bool is_late = false;    // the one before on its stream held it up
};

/// What is known of a phase from many of its spans.
struct LaunchFacts {
    bool goes_on = false;  // it does not wait for what it began
    /// Of those on the streams with which it ends: at which share of its work until the last one they begin.
    std::unordered_map<std::uint64_t, double> shares{};  // by key

    /// NaN where it is not known.
    [[nodiscard]] double share_of(std::uint64_t key) const {
        const auto known = shares.find(key);
        return known == shares.end() ? NAN : known->second;
    }
};

/// What a phase waits for in collectives that it began on other streams, where they are one behind the other.
///
/// The phase goes on beside them. A rank that comes earlier than the last one waits, and comes to the next collective
/// as much earlier if it went on meanwhile: of what it waits there, only what exceeds the waiting before is new. It is
/// the same waiting that it does on each stream. A phase that ends with them waits for all that is behind its work: how
/// much that is, a launch shows of which the share is known.
class WaitsBesideWork {
  public:
    struct Sum {
        std::int64_t ns = 0;          // what is taken off the phase's own work
        std::int64_t waiting_ns = 0;  // what counts as waiting: at least as much
        bool is_for_late = false;     // whether that waits for late ranks; else it is a bubble
    };

    void clear() { all_.clear(); }
    [[nodiscard]] bool empty() const { return all_.empty(); }
    /// In the order of their begin. Its launch is found in the end.
    void add(const CommBesideWork& comm) {
        const auto is_before = [](const CommBesideWork& a, const CommBesideWork& b) { return a.stream < b.stream; };
        all_.insert(std::upper_bound(all_.begin(), all_.end(), comm, is_before), comm);
    }
    /// Once all of a span of the phase are there.
    void find_launches(const Interval& phase);
    [[nodiscard]] const std::vector<CommBesideWork>& all() const { return all_; }
    /// Calls `use` with those of each stream.
    template <typename Use>
    void for_each_stream(Use use) const {
        for (auto first = all_.begin(), next = first; first != all_.end(); first = next) {
            next = std::find_if(first, all_.end(), [&](const auto& one) { return one.stream != first->stream; });
            use(std::span(first, next));
        }
    }
    /// `facts`: null where nothing is known.
    [[nodiscard]] Sum until(const Interval& phase, const LaunchFacts* facts) const;

  private:
    std::vector<CommBesideWork> all_;  // stream by stream
};

}  // namespace cep::tool
