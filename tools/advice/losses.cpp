// SPDX-License-Identifier: Apache-2.0
#include "advice/losses.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "base/parallel.hpp"
#include "base/units.hpp"
#include "stats/robust.hpp"
#include "stats/step_pattern.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t max_phases_located = 3;  // of which the steps are looked for
constexpr std::size_t max_ranks_asked = 64;    // for the steps of a phase
constexpr std::size_t max_ranges = 4;          // of steps in a sentence
constexpr double few = 0.5;                    // of the steps, or ranks
constexpr double far_beyond = 3;               // times the median step
constexpr double most_of = 0.5;                // of the time of a phase

constexpr std::string_view compare_command = "cep compare before after";  // its first table has a line for each piece

/// By piece.
constexpr std::array<Advice, piece_count> advices = {{
    {"the largest part is compute; at a low MFU: bf16 or TF32, fused attention, torch.compile, a larger batch, less "
     "recomputation (torch.profiler, then cep kernels)",
     "cep kernels traces; cep compare before after"},
    {"transfer: overlap it with backward, fewer and larger messages (cep estimate tries bucket sizes), "
     "check the links (cep comm)",
     "cep comm after; cep compare before after"},
    {"waiting for other ranks: even out their work; cep summarize --by rank says who works longest",
     "cep summarize --by rank after"},
    {"bubble: more micro-batches, interleaved stages", "cep estimate after"},
    {"copies: offload less, or prefetch on a stream of their own", compare_command},
    {"copies to the device: pin_memory and non_blocking together, and prefetch the next batch on a stream of its own",
     compare_command},
    {"loading: more loader workers, a larger prefetch_factor, faster storage; stalls at epoch starts: "
     "persistent_workers",
     compare_command},
    {"host phases: move them off the loop, or do them less often", compare_command},
    {"checkpoints: write them asynchronously, or less often", compare_command},
    {"evaluation: less often, on fewer batches, or in a job of its own", compare_command},
    {"metrics and logging: less often, and without a synchronising call such as item(); off the loop", compare_command},
    {"give these phases a kind, and do what they do less often", compare_command},
    {"the host is late: look for synchronising calls, Python overhead, small kernels (torch.compile, CUDA graphs)",
     "py-spy record --pid PID; cep compare before after"},
    {"time more phases: no row says what the steps do meanwhile", "cep summarize after"},
    {"start-up: compile once (caches), keep shapes the same, warm up before the measured steps", compare_command},
    {"between the steps: time what the trainer does there (loader, logging, evaluation) with phases",
     "cep summarize after"},
    {"restarts: look at why the job ended, and at how long it waits to come back", "cep summarize --attempt all after"},
    {"steps done again: checkpoint more often, or asynchronously", "cep summarize after"},
    {"record two steps in a row now and then, or choose another stride: something falls on steps that are not recorded",
     "cep summarize after"},
}};

/// The time of a phase by step, over some ranks.
std::map<std::int64_t, double> time_by_step(const Job& job, std::string_view name) {
    std::vector<const RunSeries*> having;
    for (const auto& [rank, of_rank] : job.ranks)
        for (const RunSeries& series : of_rank)
            if (std::any_of(series.phases.begin(), series.phases.end(),
                            [&](const auto& one) { return one.name == name; }))
                having.push_back(&series);
    std::map<std::int64_t, double> times_ms;
    std::vector<double> of_steps_ms;  // of series that have the same steps, by index of the step; NaN for none
    const std::size_t stride = std::max<std::size_t>(1, having.size() / max_ranks_asked);
    for (std::size_t i = 0; i < having.size(); i += stride) {
        const StepNumbers& steps = having[i]->steps;
        of_steps_ms.resize(steps.size(), std::numeric_limits<double>::quiet_NaN());
        for (const PhaseSeries& phase : having[i]->phases) {
            if (phase.name != name) continue;
            for (const Sample& sample : phase.samples) {
                double& ms = of_steps_ms[sample.step_index];
                ms = is_missing(ms) ? sample.duration_ms : ms + sample.duration_ms;
            }
        }
        if (i + stride < having.size() && having[i + stride]->steps == steps) continue;
        for (std::size_t step = 0; step < steps.size(); ++step)
            if (!is_missing(of_steps_ms[step])) times_ms[steps[step]] += of_steps_ms[step];
        of_steps_ms.clear();
    }
    return times_ms;
}

std::string describe_steps(const std::vector<std::int64_t>& steps) {
    const std::optional<std::int64_t> stride = steps.size() > 2 ? infer_stride(steps) : std::nullopt;
    const bool is_regular = stride && *stride > 1 && find_missing_steps(steps, *stride).count == 0 &&
                            steps.back() - steps.front() == *stride * static_cast<std::int64_t>(steps.size() - 1);
    if (is_regular)
        return fmt::format("every {} steps from {} to {}", *stride, format_integer(steps.front()),
                           format_integer(steps.back()));
    return format_numbers("step", steps, max_ranges);
}

/// The steps that a phase is in, or that have most of its time, if these are few of all.
std::string locate_phase(const Job& job, const Ledger& ledger, std::string_view phase) {
    const std::map<std::int64_t, double> times_ms = time_by_step(job, phase);
    std::vector<std::int64_t> steps;
    std::vector<double> values;
    double all_ms = 0;
    for (const auto& [step, ms] : times_ms) {
        steps.push_back(step);
        values.push_back(ms);
        all_ms += ms;
    }
    const auto is_few = [&](std::size_t count) {
        return static_cast<double>(count) < few * static_cast<double>(ledger.steps.size());
    };
    if (steps.empty()) return "";
    if (is_few(steps.size())) return describe_steps(steps);
    const double limit_ms = far_beyond * median_of(values);
    std::vector<std::int64_t> long_ones;
    double long_ms = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
        if (values[i] <= limit_ms) continue;
        long_ones.push_back(steps[i]);
        long_ms += values[i];
    }
    return !long_ones.empty() && is_few(long_ones.size()) && long_ms > most_of * all_ms ? describe_steps(long_ones)
                                                                                        : "";
}

/// Steps far longer than the median step, if they are few and explain the loss. Of start-up, the first ones.
std::string locate_long_steps(const Ledger& ledger, TimeKind piece, double loss_ms) {
    std::vector<std::int64_t> steps;
    double excess_ms = 0;
    for (const LedgerStep& step : ledger.steps) {
        const double own_ms = step.own_ms();
        if (own_ms <= far_beyond * ledger.step_times.typical_ms) {
            if (piece == TimeKind::startup) break;
            continue;
        }
        steps.push_back(step.step);
        excess_ms += own_ms - ledger.step_times.typical_ms;
    }
    const bool explains = excess_ms > most_of * loss_ms && excess_ms < loss_ms / most_of;
    const bool are_few = static_cast<double>(steps.size()) < few * static_cast<double>(ledger.steps.size());
    return steps.empty() || !explains || !are_few ? "" : describe_steps(steps);
}

std::vector<std::int64_t> ranks_with(const Job& job, std::string_view phase) {
    std::vector<std::int64_t> ranks;
    for (const auto& [rank, of_rank] : job.ranks)
        for (const RunSeries& series : of_rank)
            if (std::any_of(series.phases.begin(), series.phases.end(),
                            [&](const auto& one) { return one.name == phase && !one.samples.empty(); })) {
                ranks.push_back(rank);
                break;
            }
    const bool are_few = static_cast<double>(ranks.size()) <= few * static_cast<double>(job.ranks.size());
    return are_few && job.ranks.size() > 1 ? ranks : std::vector<std::int64_t>{};
}

const PhaseLedger* largest_phase(const Ledger& ledger, TimeKind piece) {
    const PhaseLedger* largest = nullptr;
    for (const PhaseLedger& phase : ledger.phases)
        if (phase.piece == piece && phase.visible_ms > 0 &&
            (largest == nullptr || phase.visible_ms > largest->visible_ms))
            largest = &phase;
    return largest;
}

TimeLoss loss_of(const Ledger& ledger, TimeKind piece) {
    TimeLoss loss;
    loss.piece = piece;
    loss.ms = ledger.mean_ms(piece);
    loss.share = ledger.share(piece);
    loss.gpu_hours = gpu_hours(ledger.pieces[piece]);
    loss.next = advice_on(piece).next;
    loss.check = advice_on(piece).check;
    if (const PhaseLedger* phase = largest_phase(ledger, piece)) loss.phase = phase->name;
    return loss;
}

}  // namespace

const Advice& advice_on(TimeKind piece) {
    return advices[static_cast<std::size_t>(piece)];
}

double gpu_hours(std::int64_t ns) {
    return static_cast<double>(ns) / 3.6e12;
}

std::string TimeLoss::where() const {
    std::string text = phase;
    if (!steps.empty()) text += (text.empty() ? "" : ", ") + steps;
    if (!ranks.empty()) text += (text.empty() ? "" : ", ") + format_numbers("rank", ranks, max_ranges);
    return text;
}

std::string TimeLoss::describe() const {
    const std::string text = fmt::format("{}: {} of the time", facts_of(piece).meaning, format_percent(share));
    return where().empty() ? text : text + " (" + where() + ")";
}

std::vector<TimeLoss> find_losses(const Job& job, const Ledger& ledger, std::size_t threads) {
    std::vector<TimeLoss> losses;
    for (std::size_t i = 1; i < piece_count; ++i)
        if (ledger.share(TimeKind(i)) >= least_loss) losses.push_back(loss_of(ledger, TimeKind(i)));
    std::stable_sort(losses.begin(), losses.end(), [](const TimeLoss& a, const TimeLoss& b) { return a.ms > b.ms; });
    for_all(std::min(losses.size(), max_phases_located), threads, [&](std::size_t i) {
        TimeLoss& loss = losses[i];
        loss.steps =
            loss.phase.empty() ? locate_long_steps(ledger, loss.piece, loss.ms) : locate_phase(job, ledger, loss.phase);
        if (!loss.phase.empty()) loss.ranks = ranks_with(job, loss.phase);
    });
    return losses;
}

}  // namespace cep::tool
