// SPDX-License-Identifier: Apache-2.0
#include "verdict/efficiency.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "stats/robust.hpp"
#include "verdict/table_quantiles.hpp"

namespace cep::tool {
namespace {

constexpr double mostly_unknown = 0.5;  // of a step
constexpr double clearly_more = 1.5;    // times the second
constexpr double bound_share = 0.3;     // of a step, at least

struct KnownDevice {
    std::string_view words;  // in the name that the driver gives
    double peak_flops;
};

// Dense BF16 tensor-core peaks from NVIDIA's data sheets of each product; "with sparsity" figures are halved. A name
// of two words comes before the first of them.
constexpr std::array<KnownDevice, 15> known_devices = {{
    {"GB200", 2.5e15},
    {"B200", 2.25e15},
    {"H200", 989.4e12},
    {"GH200", 989.4e12},
    {"H100 PCIe", 756e12},
    {"H100 NVL", 835e12},
    {"H100", 989.4e12},
    {"H800", 989.4e12},
    {"A100", 312e12},
    {"A800", 312e12},
    {"H20", 148e12},
    {"L40S", 362e12},
    {"L40", 181e12},
    {"A30", 165e12},
    {"L4", 121e12},
}};

/// The value of a step on the median rank, the rank's value being of its median step.
template <typename Value>
std::optional<double> median_rank(const JobTable& table, Value value) {
    const auto fill = [&value](std::size_t rank, std::span<double> row) {
        for (std::size_t step = 0; step < row.size(); ++step) row[step] = value(rank, step);
    };
    const double median = median_of(quantiles_over_steps(table.ranks.size(), table.steps.size(), {0.5}, fill).front());
    return is_missing(median) ? std::nullopt : std::optional(median);
}

std::optional<double> peak_of(const RankRole& rank, std::optional<double> given) {
    if (given) return given;
    if (rank.peak_flops && *rank.peak_flops > 0) return rank.peak_flops;
    return known_peak_flops(rank.device_name);
}

std::optional<double> utilisation(const JobTable& table, std::optional<double> RankRole::*flops,
                                  std::optional<double> peak_flops) {
    const auto is_known = [flops](const RankRole& rank) { return (rank.*flops).has_value(); };
    if (std::none_of(table.ranks.begin(), table.ranks.end(), is_known)) return std::nullopt;
    std::vector<std::optional<double>> peaks;
    for (const RankRole& rank : table.ranks) peaks.push_back(peak_of(rank, peak_flops));
    return median_rank(table, [&](std::size_t rank, std::size_t step) {
        const std::optional<double>& done = table.ranks[rank].*flops;
        if (!done || !peaks[rank]) return std::nan("");
        return *done / (table.step_ms.at(rank, step) * 1e-3) / *peaks[rank];
    });
}

std::optional<double> tokens_per_second(const JobTable& table, double step_ms) {
    std::vector<double> tokens;
    for (const RankRole& rank : table.ranks)
        if (rank.tokens_per_step) tokens.push_back(*rank.tokens_per_step);
    if (tokens.empty() || step_ms <= 0) return std::nullopt;
    return median_of(std::move(tokens)) / (step_ms * 1e-3);
}

std::size_t count_stages(const JobTable& table) {
    std::set<std::int64_t> stages;
    for (const RankRole& rank : table.ranks)
        if (rank.pp) stages.insert(*rank.pp);
    return stages.size();
}

bool is_word(char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0;
}

bool has_words(std::string_view text, std::string_view words) {
    const std::size_t at = text.find(words);
    if (at == std::string_view::npos) return false;
    const std::size_t end = at + words.size();
    return (at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]));
}

void find_bubble(const JobTable& table, Efficiency& efficiency) {
    const auto stages = static_cast<double>(count_stages(table));
    if (stages < 2) return;
    efficiency.bubble_fraction = median_rank(table, [&](auto rank, auto step) {
        double own_ms = 0;
        for (const LocalPhase& phase : table.local)
            if (const double ms = phase.own_ms.at(rank, step); !is_missing(ms)) own_ms += ms;
        return std::max(0.0, 1 - own_ms / table.step_ms.at(rank, step));
    });
    double micro_batches = 0;
    for (const LocalPhase& phase : table.local)
        if (phase.kind == schema::Kind::compute) micro_batches = std::max(micro_batches, phase.usual_spans);
    if (micro_batches > 0) efficiency.theoretical_bubble_fraction = (stages - 1) / (micro_batches + stages - 1);
}

}  // namespace

std::optional<StepShares> find_shares(const JobTable& table) {
    const double step_ms = typical_ms(table.median_step_ms);
    if (step_ms <= 0 || (table.local.empty() && !table.has_comm)) return std::nullopt;
    const auto share = [&](const StepMatrix& ms) { return typical_ms(ms) / step_ms; };
    StepShares shares;
    shares.compute = share(table.compute_ms);
    shares.comm = share(table.exposed_ms);
    shares.wait = share(table.wait_ms);
    shares.data = share(table.data_ms);
    shares.host = share(table.idle_ms);
    shares.rest = std::max(0.0, 1 - shares.compute - shares.comm - shares.data - shares.host);
    return shares;
}

std::string_view bound_name(Bound bound) {
    constexpr std::array<std::string_view, 6> names = {"unknown", "compute", "comm", "data", "host", "mixed"};
    return names[static_cast<std::size_t>(bound)];
}

Bound bound_of(const StepShares& shares) {
    if (shares.rest > mostly_unknown) return Bound::unknown;
    std::array<std::pair<double, Bound>, 4> candidates = {{{shares.compute, Bound::compute},
                                                           {shares.comm, Bound::comm},
                                                           {shares.data, Bound::data},
                                                           {shares.host, Bound::host}}};
    std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    const auto& [share, bound] = candidates.front();
    if (shares.hides_comm && bound == Bound::compute) return Bound::unknown;
    return share >= bound_share && share >= clearly_more * candidates[1].first ? bound : Bound::mixed;
}

std::optional<double> known_peak_flops(std::string_view device_name) {
    for (const KnownDevice& device : known_devices)
        if (has_words(device_name, device.words)) return device.peak_flops;
    return std::nullopt;
}

Efficiency find_efficiency(const JobTable& table, std::optional<double> peak_flops) {
    Efficiency efficiency;
    if (table.ranks.empty() || table.steps.empty()) return efficiency;
    efficiency.mfu = utilisation(table, &RankRole::flops_per_step, peak_flops);
    efficiency.hfu = utilisation(table, &RankRole::hardware_flops_per_step, peak_flops);
    efficiency.tokens_per_s = tokens_per_second(table, typical_ms(table.median_step_ms));
    if (table.has_comm) {
        efficiency.comm_ms = median_rank(table, [&](auto rank, auto step) { return table.comm_ms.at(rank, step); });
        efficiency.exposed_comm_ms =
            median_rank(table, [&](auto rank, auto step) { return table.exposed_ms.at(rank, step); });
        efficiency.overlap_efficiency = median_rank(table, [&](auto rank, auto step) {
            const double comm_ms = table.comm_ms.at(rank, step);
            return comm_ms > 0 ? table.overlap_ms.at(rank, step) / comm_ms : std::nan("");
        });
    }
    find_bubble(table, efficiency);
    return efficiency;
}

}  // namespace cep::tool
