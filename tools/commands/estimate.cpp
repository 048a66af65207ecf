// SPDX-License-Identifier: Apache-2.0
//
// cep estimate
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/options.hpp"
#include "estimate/estimate.hpp"
#include "ledger/job_table.hpp"
#include "model/load.hpp"
#include "summary/counter_summary.hpp"

namespace cep::cli {
namespace {

using namespace tool;
using estimate::Training;

constexpr double largest = 1e15;
constexpr double most_ranks = 1 << 20;

Check number_from(double least, double most) {
    return {[least, most](const std::string& text) {
        const auto number = parse_number<double>(text);
        return number && *number >= least && *number <= most
                   ? std::string()
                   : fmt::format("'{}' is no number from {} to {}, such as 8 or 7e9", text, least, most);
    }};
}

template <std::size_t Count>
std::vector<std::string> words_of(const char* const (&names)[Count]) {
    return {std::begin(names), std::end(names)};
}

template <typename Enum, std::size_t Count>
Enum named(const std::string& word, const char* const (&names)[Count]) {
    return static_cast<Enum>(std::find(std::begin(names), std::end(names), word) - std::begin(names));
}

/// Mean over the ranks that have it; 0 for none.
double mean_own_ms(const Ledger& ledger, std::string_view phase) {
    const PhaseLedger* const found = ledger.find(phase);
    double sum = 0;
    double ranks = 0;
    for (const double ms : found == nullptr ? std::vector<double>{} : found->own_ms) {
        if (!(ms > 0)) continue;
        sum += ms;
        ++ranks;
    }
    return ranks > 0 ? sum / ranks : 0;
}

estimate::Measured measured_of(const Job& job, const Ledger& ledger) {
    estimate::Measured measured;
    if (ledger.empty()) return measured;
    measured.step_ms = ledger.run.step_ms;
    measured.mfu = ledger.run.mfu;
    if (ledger.run.steps > 0)
        measured.transfer_ms = ledger.mean_ms(TimeKind::transfer) / ledger.run.steps +
                               ledger.hidden_comm_ms / static_cast<double>(ledger.ranks.size()) / ledger.run.steps;
    if (ledger.pieces[TimeKind::bubble] > 0) measured.bubble = ledger.share(TimeKind::bubble);
    if (const auto memory = summarize_memory(job.ranks); memory && memory->peak_allocated_bytes)
        measured.memory_bytes = memory->peak_allocated_bytes->max;
    double flops = 0;
    for (const auto& [rank, series] : job.ranks) flops += role_of(rank, series).flops_per_step.value_or(0);
    if (flops > 0) measured.flops_per_step = flops;
    return measured;
}

struct EstimateCommand {
    InputOptions input;
    OutputOptions output;
    RunOptions run_options;
    JobOptions job_options;
    Training training;
    std::string recompute = "none";
    std::string schedule = "1f1b";
    std::string gpu;
    std::optional<double> peak_flops;
    double ranks = 0;
    std::vector<std::uint64_t> worlds;

    [[nodiscard]] bool has_job() const { return !input.inputs.empty() || !input.files_from.empty(); }

    [[nodiscard]] std::optional<double> peak() const {
        if (peak_flops || gpu.empty()) return peak_flops;
        const std::optional<double> known = known_peak_flops(gpu);
        if (!known) throw UsageError("--gpu: no peak is known for '" + gpu + "'; name it with --peak-flops");
        return known;
    }

    /// What the options name, which is before what the job says.
    [[nodiscard]] Training named_training() const {
        Training named = training;
        named.batch.recompute = cli::named<estimate::Recompute>(recompute, estimate::recompute_names);
        named.layout.schedule = cli::named<estimate::Schedule>(schedule, estimate::schedule_names);
        named.layout.ranks = ranks > 0 ? ranks : named.layout.tp * named.layout.pp;
        named.machine.device = gpu;
        named.machine.peak_flops = peak();
        return named;
    }

    void take_from_job(Training& all, const Job& job, const Ledger& ledger) const {
        if (ranks == 0)
            all.layout.ranks = static_cast<double>(job.coverage.ranks_expected.value_or(job.coverage.ranks_seen));
        if (ledger.empty()) return;
        if (all.machine.step_ms == 0) all.machine.step_ms = ledger.run.step_ms;
        if (all.machine.backward_ms == 0) all.machine.backward_ms = mean_own_ms(ledger, "backward");
        const RankRole role = role_of(job.ranks.begin()->first, job.ranks.begin()->second);
        if (!all.machine.peak_flops) all.machine.peak_flops = peak_of(role, std::nullopt);
        if (all.machine.device.empty()) all.machine.device = role.device_name;
        if (all.batch.tokens_per_step() == 0 && role.tokens_per_step) all.batch.tokens = *role.tokens_per_step;
    }

    [[nodiscard]] LoadOptions load_options() const {
        LoadOptions options = job_options.load_options({}, input, run_options);
        options.keeps_messages = true;
        return options;
    }

    Status run() const {
        output.check();
        Training all = named_training();
        estimate::Measured measured;
        std::optional<estimate::WhatIf> what_if;
        Status status = Status::done;
        if (has_job()) {
            const InputSet set = input.find();
            refuse_input_as_output(set, output.path);
            const Job job = load(set, load_options());
            status = report_status("estimate", job.inputs, job.coverage, input.strict);
            if (status == Status::nothing_readable) return status;
            const Ledger ledger = find_job_time(job, {all.machine.peak_flops, input.reading().thread_count()}).ledger;
            take_from_job(all, job, ledger);
            measured = measured_of(job, ledger);
            what_if = estimate::find_what_if(job, worlds, input.reading().thread_count());
        }
        const std::string name = !has_job() ? "" : input.inputs.empty() ? input.files_from : input.inputs.front();
        estimate::Estimate made = what_if && !all.model.is_known() ? estimate::Estimate{all, {}, {}, {}}
                                                                   : estimate::make_estimate(all, measured);
        made.what_if = std::move(what_if);
        output.write(estimate::make_document(std::move(made), name), input);
        return status;
    }

    void add_number(Arguments& command, const std::string& option, double& value, const std::string& help, double least,
                    double most) {
        command.add_option(option, value, help).check(number_from(least, most)).value("N");
    }

    void add_model(Arguments& command) {
        estimate::Model& model = training.model;
        add_number(command, "--params", model.params, "Parameters, such as 7e9; else those of the shape", 1, largest);
        add_number(command, "--active-params", model.active_params, "Of them, those that a token meets (default: all)",
                   1, largest);
        add_number(command, "--layers", model.layers, "Layers", 1, 1e6);
        add_number(command, "--hidden", model.hidden, "Hidden size", 1, 1e9);
        add_number(command, "--heads", model.heads, "Attention heads", 1, 1e6);
        add_number(command, "--kv-heads", model.kv_heads, "Heads of keys and values (default: as many)", 1, 1e6);
        add_number(command, "--ffn", model.ffn,
                   "Inner size of feed-forward layers, or of an expert (default: 4 x hidden)", 1, 1e9);
        command.add_flag("--gated", model.gated, "Feed-forward layers have three matrices (SwiGLU)");
        add_number(command, "--vocab", model.vocab, "Words of the vocabulary", 1, 1e9);
        command.add_flag("--tied", model.tied, "The input and the output embedding are one");
        add_number(command, "--experts", model.experts, "Experts of each layer (default 1)", 1, 1e6);
        add_number(command, "--top-k", model.top_k, "Experts that a token meets (default 1)", 1, 1e6);
    }

    void add_work(Arguments& command) {
        add_number(command, "--seq", training.batch.sequence, "Tokens of a sequence", 1, 1e9);
        add_number(command, "--batch", training.batch.sequences, "Sequences of a step, of all ranks", 1, 1e9);
        add_number(command, "--micro-batch", training.batch.micro_batch,
                   "Sequences that a rank takes at a time (default 1)", 1, 1e9);
        add_number(command, "--tokens", training.batch.tokens, "Tokens of a step, of all ranks, instead", 1, largest);
        command.add_option("--recompute", recompute, "Activations that are computed again: none, selective or full")
            .check(one_of(words_of(estimate::recompute_names)))
            .value("WHICH");
    }

    void add_layout(Arguments& command) {
        estimate::Layout& layout = training.layout;
        add_number(command, "--ranks", ranks, "Ranks (default: those of the job, or tp x pp)", 1, most_ranks);
        add_number(command, "--tp", layout.tp, "Tensor-parallel ranks (default 1)", 1, most_ranks);
        add_number(command, "--pp", layout.pp, "Pipeline stages (default 1)", 1, most_ranks);
        add_number(command, "--ep", layout.ep, "Expert-parallel ranks (default 1)", 1, most_ranks);
        command.add_option("--zero", layout.zero, "Stage of ZeRO or FSDP, 0 to 3 (default 0)")
            .check(whole_number_from(0, 3))
            .value("N");
        command.add_flag("--sequence-parallel", layout.sequence_parallel,
                         "Tensor-parallel ranks share all activations");
        command.add_option("--schedule", schedule, "Of the pipeline: gpipe, 1f1b, interleaved or zero-bubble")
            .check(one_of(words_of(estimate::schedule_names)))
            .value("WHICH");
        add_number(command, "--chunks", layout.chunks, "Model chunks of a rank, interleaved (default 1)", 1, 1e4);
    }

    void add_what_if(Arguments& command) {
        command
            .add_option("--world", worlds,
                        "Of a job: what it would take on so many ranks (default: half, 2, 4 and 8 times as many)")
            .separated_by(',')
            .repeated()
            .check(whole_number_from(std::uint64_t{2}, std::uint64_t{1} << 20))
            .value("N,...");
    }

    void add_machine(Arguments& command) {
        add_number(command, "--param-bytes", training.bytes.parameter, "Bytes of a parameter (default 2)", 0.5, 16);
        add_number(command, "--grad-bytes", training.bytes.gradient, "Bytes of its gradient (default 2)", 0.5, 16);
        add_number(command, "--optimizer-bytes", training.bytes.optimizer, "Bytes of its optimizer state (default 12)",
                   0, 64);
        command.add_option("--gpu", gpu, "Device whose peak counts, such as H100 or A100").value("NAME");
        command.add_option("--peak-flops", peak_flops, "Peak of a device, FLOP/s").check(positive_number).value("N");
        add_number(command, "--step-ms", training.machine.step_ms, "Time of a step (default: the job's)", 1e-6,
                   largest);
        add_number(command, "--link-gb-per-s", training.machine.link_gb_per_s, "Bandwidth of a rank's link", 1e-6, 1e9);
        add_number(command, "--latency-us", training.machine.latency_us, "Latency of a message (default 0)", 0, 1e9);
        add_number(command, "--backward-ms", training.machine.backward_ms,
                   "Backward of a step, to try sizes of buckets (default: the job's)", 1e-6, largest);
    }

    void add_to(Arguments& command) {
        input.add_to(command);
        command.get_option("INPUT").description(
            "A job: its figures stand beside the estimate, and its steps are replayed with other settings");
        output.limit = 0;
        output.add_to(command, "cep.estimate/1",
                      "A line for each figure, in FLOPs, bytes, milliseconds or as a share,");
        add_model(command);
        add_work(command);
        add_layout(command);
        add_machine(command);
        add_what_if(command);
        run_options.add_to(command);
        job_options.add_to(command, "Durations kept");
        command.set_examples(
            "  cep estimate --params 175e9 --tokens 2097152 --ranks 1024 --gpu A100 \\\n"
            "      --step-ms 60000\n"
            "  cep estimate --layers 32 --hidden 4096 --heads 32 --ffn 11008 --gated \\\n"
            "      --vocab 32000 --seq 4096 --batch 256 --ranks 64 --zero 3 --gpu H100 \\\n"
            "      --link-gb-per-s 50\n"
            "  cep estimate output\n"
            "  cep estimate --params 1.3e9 --world 64,512 output");
    }
};

}  // namespace

void add_estimate(CLI::App& app, Command& run) {
    add_command<EstimateCommand>(app, run, "estimate",
                                 "What a training should need, and what other settings would do to a job");
}

}  // namespace cep::cli
