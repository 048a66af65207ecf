// SPDX-License-Identifier: Apache-2.0
//
// cep estimate
#include <fmt/core.h>

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
    std::optional<Arguments> arguments;
    std::vector<std::string> planned_options;  // those that a job has no use for

    [[nodiscard]] std::optional<double> peak() const {
        if (peak_flops || gpu.empty()) return peak_flops;
        const std::optional<double> known = known_peak_flops(gpu);
        if (!known) throw UsageError("--gpu: no peak is known for '" + gpu + "'; name it with --peak-flops");
        return known;
    }

    [[nodiscard]] Training planned_training() const {
        Training planned = training;
        planned.batch.recompute = named<estimate::Recompute>(recompute, estimate::recompute_names);
        planned.layout.schedule = named<estimate::Schedule>(schedule, estimate::schedule_names);
        planned.layout.ranks = ranks > 0 ? ranks : planned.layout.tp * planned.layout.pp;
        planned.machine.device = gpu;
        planned.machine.peak_flops = peak();
        return planned;
    }

    Status run_job() const {
        for (const std::string& name : planned_options)
            if (arguments->is_given(name))
                throw UsageError(name + ": of a training that is planned; leave out the job, or this option");
        const InputSet set = input.find(output.path);
        LoadOptions options = job_options.load_options({}, input, run_options);
        options.keeps_messages = true;
        const Job job = load(set, options);
        const Status status = report_status("estimate", job.inputs, job.coverage, input.strict);
        if (status == Status::nothing_readable) return status;
        const std::size_t threads = input.reading().thread_count();
        const JobTime time = find_job_time(job, {.peak_flops = {}, .threads = threads});
        estimate::WhatIf what_if =
            estimate::find_what_if(job, worlds, threads, steps_without_training(job, time.table, time.ledger));
        const std::string& name = input.inputs.empty() ? input.files_from : input.inputs.front();
        output.write(estimate::make_document(std::move(what_if), name), input);
        return status;
    }

    Status run() const {
        output.check();
        if (!input.inputs.empty() || !input.files_from.empty()) return run_job();
        if (!worlds.empty()) throw UsageError("--world: of a job, and no input is named");
        output.write(estimate::make_document(estimate::make_estimate(planned_training())), input);
        return Status::done;
    }

    void plan(const Target& target, const Option& option) {
        planned_options.push_back(option.names);
        arguments->add(target, option);
    }
    void plan_number(const std::string& name, double& value, const std::string& help, double least, double most) {
        plan(&value, {name, help, "N", number_from(least, most)});
    }

    void plan_model() {
        estimate::Model& model = training.model;
        plan_number("--params", model.params, "Parameters, such as 7e9; else those of the shape", 1, largest);
        plan_number("--active-params", model.active_params, "Of them, those that a token meets (default: all)", 1,
                    largest);
        plan_number("--layers", model.layers, "Layers", 1, 1e6);
        plan_number("--hidden", model.hidden, "Hidden size", 1, 1e9);
        plan_number("--heads", model.heads, "Attention heads", 1, 1e6);
        plan_number("--kv-heads", model.kv_heads, "Heads of keys and values (default: as many)", 1, 1e6);
        plan_number("--ffn", model.ffn, "Inner size of feed-forward layers, or of an expert (default: 4 x hidden)", 1,
                    1e9);
        plan(&model.gated, {"--gated", "Feed-forward layers have three matrices (SwiGLU)"});
        plan_number("--vocab", model.vocab, "Words of the vocabulary", 1, 1e9);
        plan(&model.tied, {"--tied", "The input and the output embedding are one"});
        plan_number("--experts", model.experts, "Experts of each layer (default 1)", 1, 1e6);
        plan_number("--top-k", model.top_k, "Experts that a token meets (default 1)", 1, 1e6);
    }

    void plan_work() {
        plan_number("--seq", training.batch.sequence, "Tokens of a sequence", 1, 1e9);
        plan_number("--batch", training.batch.sequences, "Sequences of a step, of all ranks", 1, 1e9);
        plan_number("--micro-batch", training.batch.micro_batch, "Sequences that a rank takes at a time (default 1)", 1,
                    1e9);
        plan_number("--tokens", training.batch.tokens, "Tokens of a step, of all ranks, instead", 1, largest);
        plan(&recompute, {"--recompute", "Activations that are computed again: none, selective or full", "WHICH",
                          one_of(words_of(estimate::recompute_names))});
    }

    void plan_layout() {
        estimate::Layout& layout = training.layout;
        plan_number("--ranks", ranks, "Ranks (default: tp x pp)", 1, most_ranks);
        plan_number("--tp", layout.tp, "Tensor-parallel ranks (default 1)", 1, most_ranks);
        plan_number("--pp", layout.pp, "Pipeline stages (default 1)", 1, most_ranks);
        plan_number("--ep", layout.ep, "Expert-parallel ranks (default 1)", 1, most_ranks);
        plan(&layout.zero, {"--zero", "Stage of ZeRO or FSDP, 0 to 3 (default 0)", "N", whole_number_from(0, 3)});
        plan(&layout.sequence_parallel, {"--sequence-parallel", "Tensor-parallel ranks share all activations"});
        plan(&schedule, {"--schedule", "Of the pipeline: gpipe, 1f1b, interleaved or zero-bubble", "WHICH",
                         one_of(words_of(estimate::schedule_names))});
        plan_number("--chunks", layout.chunks, "Model chunks of a rank, interleaved (default 1)", 1, 1e4);
    }

    void add_what_if(Arguments& command) {
        command.add(&worlds,
                    {.names = "--world",
                     .help = "Of a job: what it would take on so many ranks (default: half, 2, 4 and 8 times as many)",
                     .value = "N,...",
                     .check = whole_number_from(std::uint64_t{2}, std::uint64_t{1} << 20),
                     .delimiter = ',',
                     .is_repeated = true});
    }

    void plan_machine() {
        plan_number("--param-bytes", training.bytes.parameter, "Bytes of a parameter (default 2)", 0.5, 16);
        plan_number("--grad-bytes", training.bytes.gradient, "Bytes of its gradient (default 2)", 0.5, 16);
        plan_number("--optimizer-bytes", training.bytes.optimizer, "Bytes of its optimizer state (default 12)", 0, 64);
        plan(&gpu, {"--gpu", "Device whose peak counts, such as H100 or A100", "NAME"});
        plan(&peak_flops, {"--peak-flops", "Peak of a device, FLOP/s", "N", positive_number});
        plan_number("--step-ms", training.machine.step_ms, "Time of a step", 1e-6, largest);
        plan_number("--link-gb-per-s", training.machine.link_gb_per_s, "Bandwidth of a rank's link", 1e-6, 1e9);
        plan_number("--latency-us", training.machine.latency_us, "Latency of a message (default 0)", 0, 1e9);
    }

    void add_to(Arguments& command) {
        arguments.emplace(command);
        input.add_to(command);
        command.set_help("INPUT",
                         "A job, whose steps are replayed with other settings; else the options plan a training");
        output.limit = 0;
        output.add_to(command, "cep.estimate/2",
                      "A line for each figure, in FLOPs, bytes, milliseconds or as a share,");
        plan_model();
        plan_work();
        plan_layout();
        plan_machine();
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
            "  cep estimate --world 64,512 output");
    }
};

}  // namespace

const CommandFacts estimate_command{"What a training should need, and what other settings would do to a job",
                                    add_options<EstimateCommand>};

}  // namespace cep::cli
