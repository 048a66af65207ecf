// SPDX-License-Identifier: Apache-2.0
//
// Job: what to simulate. It has a value for each setting, the faults, and the events.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cep::simulation {

inline constexpr double ns_per_ms = 1e6;

/// The phases of own work in a step, in their order.
enum class Phase : std::uint8_t { data_load, host_to_device, forward, backward, optimizer };
inline constexpr std::size_t phase_count = 5;
inline constexpr std::array<std::string_view, phase_count> phase_names = {"data_load", "host_to_device", "forward",
                                                                          "backward", "optimizer"};
using PhaseShares = std::array<double, phase_count>;
using PhaseSet = std::array<bool, phase_count>;

enum class Pattern : std::uint8_t { persistent, window, intermittent, drift, flapping };
inline constexpr std::array<std::string_view, 5> pattern_names = {"persistent", "window", "intermittent", "drift",
                                                                  "flapping"};

/// Makes the own work of some ranks longer in some steps.
struct Fault {
    std::string where;                 // for messages: "FILE: faults[0]"
    std::vector<std::int64_t> ranks;   // whose work is slower
    std::optional<std::int64_t> host;  // complete() sets the ranks of a host or stage
    std::optional<std::int64_t> stage;
    std::string phase;
    PhaseSet phases{};
    Pattern pattern = Pattern::persistent;
    std::optional<std::int64_t> first_step;  // set by complete()
    std::optional<std::int64_t> last_step;
    double slowdown = 1.0;
    double excess_ms = 0.0;
    std::optional<double> fraction;
    std::int64_t period_steps = 20;
};

enum class EventType : std::uint8_t { checkpoint, evaluation, slowdown_all };
inline constexpr std::array<std::string_view, 3> event_names = {"checkpoint", "evaluation", "slowdown_all"};

/// Something that happens to all ranks.
struct Event {
    std::string where;
    EventType type = EventType::checkpoint;
    std::optional<std::int64_t> step;
    std::optional<std::int64_t> every_steps;
    std::optional<std::int64_t> last_step;
    std::optional<double> duration_ms;
    double slowdown = 1.0;
    std::string phase;
    PhaseSet phases{};
};

struct Job {
    std::int64_t ranks = 8;
    std::int64_t ranks_per_host = 8;
    std::int64_t tp = 1;
    std::int64_t pp = 1;
    std::int64_t dp = 0;             // 0: what tp and pp leave
    std::int64_t micro_batches = 0;  // 0: 1, or 4 × pp with a pipeline
    std::int64_t steps = 1000;
    std::int64_t start_step = 0;
    std::int64_t record_every = 10;
    std::int64_t seed = 1;

    double step_ms = 100.0;
    PhaseShares phases = {0.03, 0.01, 0.29, 0.59, 0.08};
    std::vector<double> stage_weights;  // empty: 1 each
    double launch_ms = 0.2;

    double noise = 0.01;
    double host_noise = 0.002;
    double step_noise = 0.0;
    double rank_spread = 0.0;
    double noise_correlation = 0.0;
    double spike_fraction = 0.0;
    double spike_ms = 0.0;

    double gradient_mb = 100.0;
    std::int64_t buckets = 3;
    double overlap = 0.0;
    std::int64_t tp_collectives = 2;
    double activation_mb = 16.0;
    double latency_us = 10.0;
    double bandwidth_gb_per_s = 200.0;
    double transfer_noise = 0.02;
    bool hidden_collectives = false;
    bool plain_groups = false;

    double clock_skew_ms = 0.0;
    double clock_drift_ppm = 0.0;
    double drop_fraction = 0.0;
    std::vector<std::int64_t> missing_ranks;
    bool gzip = false;
    bool zstd = false;
    double mfu = 0.4;

    std::vector<Fault> faults;
    std::vector<Event> events;
    std::string where;  // begins what is said of settings: "FILE: " of a scenario that has any

    [[nodiscard]] std::int64_t last_step() const { return start_step + steps - 1; }
    [[nodiscard]] bool records(std::int64_t step) const { return (step - start_step) % record_every == 0; }
    /// Fills in what depends on other settings, and expands hosts and stages to ranks. Throws UsageError where
    /// settings contradict each other.
    void complete();
};

}  // namespace cep::simulation
