// SPDX-License-Identifier: Apache-2.0
#include "simulate/settings.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "base/text.hpp"

namespace cep::simulation {
namespace {

using tool::UsageError;

constexpr double max_ranks = 1 << 20;
constexpr double max_steps = 1e7;
constexpr double max_ms = 1e7;
constexpr double max_sigma = 0.5;
constexpr double max_seed = 9.2e18;

constexpr Setting table[] = {
    {"ranks", &Job::ranks, 1, max_ranks, "N", "Ranks of the job"},
    {"ranks_per_host", &Job::ranks_per_host, 1, max_ranks, "N", "Ranks on a host"},
    {"tp", &Job::tp, 1, max_ranks, "N", "Tensor-parallel ranks"},
    {"pp", &Job::pp, 1, 1024, "N", "Pipeline stages (1F1B)"},
    {"dp", &Job::dp, 0, max_ranks},
    {"micro_batches", &Job::micro_batches, 0, 4096, "N", "Micro-batches in a step; 0: 1, or 4 x pp"},
    {"steps", &Job::steps, 1, max_steps, "N", "Steps of the job"},
    {"start_step", &Job::start_step, 0, 1e15},
    {"record_every", &Job::record_every, 1, max_steps, "N", "Write every N-th step"},
    {"seed", &Job::seed, 0, max_seed, "N", "Seed of all random numbers"},
    {"step_ms", &Job::step_ms, 0.01, max_ms, "MS", "Own work of a rank in a step"},
    {"phases", &Job::phases, 0, 100, "NAME=X,...", "Share of step-ms of each phase"},
    {"stage_weights", &Job::stage_weights, 0.01, 100},
    {"launch_ms", &Job::launch_ms, 0, max_ms},
    {"noise", &Job::noise, 0, max_sigma, "X", "Relative sigma of a rank's work"},
    {"host_noise", &Job::host_noise, 0, max_sigma},
    {"step_noise", &Job::step_noise, 0, max_sigma},
    {"rank_spread", &Job::rank_spread, 0, max_sigma},
    {"noise_correlation", &Job::noise_correlation, 0, 0.999},
    {"spike_fraction", &Job::spike_fraction, 0, 1},
    {"spike_ms", &Job::spike_ms, 0, max_ms},
    {"gradient_mb", &Job::gradient_mb, 0.001, 1e9, "MB", "Gradients reduced in a step"},
    {"buckets", &Job::buckets, 1, 64, "N", "All-reduces that the gradients take, each larger than the last"},
    {"overlap", &Job::overlap, 0, 1, "X", "Share of the last backward during which buckets become ready"},
    {"tp_collectives", &Job::tp_collectives, 1, 64},
    {"activation_mb", &Job::activation_mb, 0.001, 1e9},
    {"latency_us", &Job::latency_us, 0, 1e9},
    {"bandwidth_gb_per_s", &Job::bandwidth_gb_per_s, 1e-6, 1e9, "GB/S", "Bandwidth of a rank's link"},
    {"transfer_noise", &Job::transfer_noise, 0, max_sigma},
    {"hidden_collectives", &Job::hidden_collectives, 0, 1},
    {"plain_groups", &Job::plain_groups, 0, 1},
    {"clock_skew_ms", &Job::clock_skew_ms, 0, 1e10},
    {"clock_drift_ppm", &Job::clock_drift_ppm, 0, 1e4},
    {"drop_fraction", &Job::drop_fraction, 0, 1},
    {"missing_ranks", &Job::missing_ranks, 0, max_ranks},
    {"gzip", &Job::gzip, 0, 1},
    {"zstd", &Job::zstd, 0, 1},
    {"mfu", &Job::mfu, 0.001, 1},
};

template <class... Visitors>
struct Overloaded : Visitors... {
    using Visitors::operator()...;
};
template <class... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

template <class Number>
Number parse_number(std::string_view text, const std::string& where) {
    const std::optional<Number> value = tool::parse_number<Number>(text);
    if (!value || !std::isfinite(static_cast<double>(*value)))
        throw UsageError(
            fmt::format("{}: '{}' is not {} number", where, text, std::is_integral_v<Number> ? "a whole" : "a"));
    return *value;
}

/// "0,3-7".
std::vector<std::int64_t> parse_ranks(std::string_view text, const std::string& where) {
    std::vector<std::int64_t> ranks;
    for (const std::string_view range : tool::split(text, ',')) {
        const std::size_t dash = range.find('-');
        const auto first = parse_number<std::int64_t>(range.substr(0, dash), where);
        const auto last =
            dash == std::string_view::npos ? first : parse_number<std::int64_t>(range.substr(dash + 1), where);
        if (last < first || static_cast<double>(last) > max_ranks)
            throw UsageError(fmt::format("{}: '{}' is not a range of ranks", where, range));
        for (std::int64_t rank = first; rank <= last; ++rank) ranks.push_back(rank);
    }
    return ranks;
}

void set_phases(PhaseShares& shares, std::string_view text, const std::string& where) {
    for (const std::string_view phase : tool::split(text, ',')) {
        const std::size_t equals = phase.find('=');
        if (equals == std::string_view::npos) throw UsageError(fmt::format("{}: '{}' is not NAME=SHARE", where, phase));
        double& share = shares[index_of_name(phase_names, phase.substr(0, equals), where)];
        share = parse_number<double>(phase.substr(equals + 1), where);
    }
}

void set_phases(PhaseShares& shares, simdjson::dom::element value, const std::string& where) {
    for (const auto& [name, item] : json_as<simdjson::dom::object>(value, where)) {
        double& share = shares[index_of_name(phase_names, name, where)];
        share = json_as<double>(item, where);
    }
}

void check_limits(const Job& job, const Setting& setting, const std::string& where) {
    const auto check = [&](double value) { check_range(value, setting.min, setting.max, where); };
    const auto check_all = [&](const auto& values) { std::for_each(values.begin(), values.end(), check); };
    std::visit(Overloaded{[&](IntegerMember member) { check(static_cast<double>(job.*member)); },
                          [&](NumberMember member) { check(job.*member); },
                          [&](PhasesMember member) { check_all(job.*member); },
                          [&](NumbersMember member) { check_all(job.*member); }, [](FlagMember) {}, [](RanksMember) {}},
               setting.member);
}

}  // namespace

std::span<const Setting> all_settings() {
    return table;
}

const Setting* find_setting(std::string_view key) {
    const auto found = std::find_if(std::begin(table), std::end(table), [&](const Setting& s) { return s.key == key; });
    return found == std::end(table) ? nullptr : found;
}

std::string option_name(const Setting& setting) {
    std::string name = "--" + std::string(setting.key);
    std::replace(name.begin(), name.end(), '_', '-');
    return name;
}

std::string option_help(const Setting& setting) {
    const Job job;
    const std::string value = std::visit(
        Overloaded{[&](IntegerMember member) { return fmt::format("{}", job.*member); },
                   [&](NumberMember member) { return fmt::format("{}", job.*member); },
                   [&](PhasesMember member) {
                       std::string text;
                       for (std::size_t i = 0; i < phase_count; ++i)
                           text += fmt::format("{}{}={}", i == 0 ? "" : ", ", phase_names[i], (job.*member)[i]);
                       return text;
                   },
                   [](auto) { return std::string(); }},
        setting.member);
    return fmt::format("{} (default {})", setting.help, value);
}

std::size_t index_of_name(std::span<const std::string_view> names, std::string_view name, const std::string& where) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
    throw UsageError(fmt::format("{}: '{}' is not one of {}", where, name, tool::join(names, ", ")));
}

void check_range(double value, double min, double max, const std::string& where) {
    if (value >= min && value <= max) return;
    throw UsageError(fmt::format("{}: {} is not from {} to {}", where, value, min, max));
}

std::vector<std::int64_t> json_ranks(simdjson::dom::element value, const std::string& where) {
    return value.is_string() ? parse_ranks(json_as<std::string_view>(value, where), where)
                             : json_list<std::int64_t>(value, where);
}

void set_from_text(Job& job, const Setting& setting, std::string_view text, const std::string& where) {
    std::visit(Overloaded{[&](IntegerMember member) { job.*member = parse_number<std::int64_t>(text, where); },
                          [&](NumberMember member) { job.*member = parse_number<double>(text, where); },
                          [&](PhasesMember member) { set_phases(job.*member, text, where); }, [](auto) {}},
               setting.member);
    check_limits(job, setting, where);
}

void set_from_json(Job& job, const Setting& setting, simdjson::dom::element value, const std::string& where) {
    std::visit(Overloaded{[&](IntegerMember member) { job.*member = json_as<std::int64_t>(value, where); },
                          [&](NumberMember member) { job.*member = json_as<double>(value, where); },
                          [&](FlagMember member) { job.*member = json_as<bool>(value, where); },
                          [&](PhasesMember member) { set_phases(job.*member, value, where); },
                          [&](NumbersMember member) { job.*member = json_list<double>(value, where); },
                          [&](RanksMember member) { job.*member = json_ranks(value, where); }},
               setting.member);
    check_limits(job, setting, where);
}

void write_settings(tool::JsonWriter& json, const Job& job) {
    for (const Setting& setting : table) {
        json.key(setting.key);
        std::visit(Overloaded{[&](PhasesMember member) {
                                  json.begin_object();
                                  for (std::size_t i = 0; i < phase_count; ++i)
                                      json.members(phase_names[i], (job.*member)[i]);
                                  json.end_object();
                              },
                              [&](NumbersMember member) {
                                  json.begin_array();
                                  for (const double value : job.*member) json.value(value);
                                  json.end_array();
                              },
                              [&](auto member) { json.value(job.*member); }},
                   setting.member);
    }
}

}  // namespace cep::simulation
