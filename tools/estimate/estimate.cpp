// SPDX-License-Identifier: Apache-2.0
#include "estimate/estimate.hpp"

#include <fmt/core.h>

#include <cmath>
#include <utility>

#include "base/failure.hpp"
#include "estimate/formulas.hpp"

namespace cep::estimate {
namespace {

using tool::UsageError;

void check(const Training& training) {
    const Layout& layout = training.layout;
    const auto is_whole = [](double number) { return number >= 1 && number == std::floor(number); };
    if (!training.model.is_known()) throw UsageError("no model: name --params, or --layers and --hidden");
    if (!is_whole(layout.dp()))
        throw UsageError(
            fmt::format("--ranks: {} ranks are no multiple of tp {} times pp {}", layout.ranks, layout.tp, layout.pp));
    if (!is_whole(layout.dp() * layout.tp / layout.ep))
        throw UsageError(
            fmt::format("--ep: {} does not divide the ranks of a stage, {}", layout.ep, layout.dp() * layout.tp));
    if (training.model.top_k > training.model.experts)
        throw UsageError(fmt::format("--top-k: {} of {} experts", training.model.top_k, training.model.experts));
    if (training.batch.sequences > 0 && !is_whole(micro_batches(training)))
        throw UsageError(fmt::format("--batch: {} sequences are no multiple of dp {} times --micro-batch {}",
                                     training.batch.sequences, layout.dp(), training.batch.micro_batch));
}

Section model_section(const Training& training) {
    const Parameters parameters = count_parameters(training.model);
    const Flops flops = flops_per_token(training);
    const double tokens = training.batch.tokens_per_step();
    Section section{"flops",
                    "FLOPs",
                    {{"parameters", "parameters", parameters.all(), Unit::number,
                      training.model.params > 0 ? "as given" : "of the shape, without biases and norms"},
                     {"active_parameters", "active for a token", parameters.active, Unit::number,
                      "in matrix products: no input embedding, top-k experts"},
                     {"flops_per_token", "FLOPs a token", flops.model, Unit::flops,
                      training.model.has_shape() && training.batch.sequence > 0
                          ? "6 × active parameters + 12 × layers × hidden × sequence"
                          : "6 × active parameters"}}};
    if (flops.hardware > flops.model)
        section.figures.push_back(
            {"hardware_flops_per_token", "with recomputation", flops.hardware, Unit::flops,
             training.batch.recompute == Recompute::full ? "forward once more" : "attention scores once more"});
    if (tokens > 0) {
        section.figures.push_back({"tokens_per_step", "tokens a step", tokens, Unit::number, "of all ranks"});
        section.figures.push_back(
            {"flops_per_step", "FLOPs a step", flops.model * tokens, Unit::flops, "FLOPs a token × tokens"});
    }
    return section;
}

Section speed_section(const Training& training) {
    Section section{"speed", "Speed", {}};
    const double tokens = training.batch.tokens_per_step();
    if (tokens <= 0 || !training.machine.peak_flops) return section;
    const Flops flops = flops_per_token(training);
    const double peak = *training.machine.peak_flops * training.layout.ranks;
    const double step_ms = training.machine.step_ms;
    const auto seconds_at = [&](double mfu) { return flops.model * tokens / peak / mfu; };
    if (step_ms > 0) {
        const double mfu = seconds_at(1) / (step_ms * 1e-3);
        section.figures = {
            {"mfu", "MFU", mfu, Unit::share, "FLOPs a step / time / (ranks × peak)"},
            {"hfu", "HFU", mfu * flops.hardware / flops.model, Unit::share, "the same with recomputation"},
            {"tokens_per_s", "tokens a second", tokens / step_ms * 1e3, Unit::number, "of all ranks"}};
        return section;
    }
    for (const int percent : {30, 40, 50})
        section.figures.push_back({fmt::format("step_ms_at_{}_percent", percent),
                                   fmt::format("a step at {} % MFU", percent), seconds_at(percent / 100.0) * 1e3,
                                   Unit::ms, "FLOPs a step / (ranks × peak × MFU)"});
    return section;
}

Section memory_section(const Training& training) {
    const Memory memory = memory_of_rank(training, training.layout.zero);
    const Precision& bytes = training.bytes;
    Section section{
        "memory",
        "Memory of a rank of the first stage",
        {{"parameters", "parameters", memory.parameters, Unit::bytes,
          fmt::format("{} bytes for each, over tp, pp{}", bytes.parameter, training.layout.zero >= 3 ? ", dp" : "")},
         {"gradients", "gradients", memory.gradients, Unit::bytes,
          fmt::format("{} bytes for each{}", bytes.gradient, training.layout.zero >= 2 ? ", over dp" : "")},
         {"optimizer", "optimizer", memory.optimizer, Unit::bytes,
          fmt::format("{} bytes for each{}", bytes.optimizer, training.layout.zero >= 1 ? ", over dp" : "")}}};
    if (memory.activations > 0)
        section.figures.push_back({"activations", "activations", memory.activations, Unit::bytes,
                                   training.batch.recompute == Recompute::full ? "the inputs of layers: 2 × s × b × h"
                                   : training.batch.recompute == Recompute::selective
                                       ? "without attention scores: s × b × h × 34"
                                       : "s × b × h × (34 + 5 × heads × s / h) a layer and micro-batch"});
    section.figures.push_back({"peak", memory.activations > 0 ? "peak, early in backward" : "without activations",
                               memory.peak(), Unit::bytes, "the sum"});
    return section;
}

Section zero_section(const Training& training) {
    Section section{"zero", "The same with ZeRO", {}};
    if (training.layout.dp() <= 1) return section;
    const Memory plain = memory_of_rank(training, 0);
    for (int zero = 0; zero <= 3; ++zero) {
        const Memory memory = memory_of_rank(training, zero);
        const double less = (plain.peak() - plain.activations) / (memory.peak() - memory.activations);
        section.figures.push_back({fmt::format("zero_{}", zero), fmt::format("ZeRO {}", zero), memory.peak(),
                                   Unit::bytes,
                                   fmt::format("{:.1f} times less for parameters, gradients and optimizer", less)});
    }
    return section;
}

Section communication_section(const Training& training) {
    Section section{"communication", "What a rank sends in a step", {}};
    double all_ms = 0;
    const auto add = [&](const char* key, const char* name, const Traffic& traffic, const std::string& how) {
        if (traffic.bytes <= 0) return;
        section.figures.push_back({std::string(key) + "_bytes", name, traffic.bytes, Unit::bytes, how});
        const double ms = traffic.ms(training.machine);
        all_ms += ms;
        if (ms > 0)
            section.figures.push_back({std::string(key) + "_ms", std::string(name) + ", time", ms, Unit::ms,
                                       fmt::format("{:.0f} messages × latency + bytes / bandwidth", traffic.messages)});
    };
    constexpr const char* of_zero[] = {"all-reduce of gradients: 2 (n-1)/n of them",
                                       "reduce-scatter of gradients, all-gather of parameters",
                                       "reduce-scatter of gradients, all-gather of parameters",
                                       "reduce-scatter of gradients, two all-gathers of parameters"};
    add("data_parallel", "data parallel", data_parallel_traffic(training), of_zero[training.layout.zero]);
    add("tensor_parallel", "tensor parallel", tensor_parallel_traffic(training),
        "all-reduces of s × b × h, two forward and two backward a layer");
    add("pipeline", "pipeline", pipeline_traffic(training), "s × b × h forward and backward for each micro-batch");
    add("expert_parallel", "expert parallel", expert_traffic(training),
        "four all-to-alls of top-k × s × b × h a layer");
    if (all_ms > 0) section.figures.push_back({"all_ms", "all, one after the other", all_ms, Unit::ms, ""});
    return section;
}

Section bubble_section(const Training& training) {
    Section section{"bubble", "Pipeline bubble, share of a step", {}};
    if (training.layout.pp <= 1 || training.batch.sequences <= 0) return section;
    const double p = training.layout.pp;
    const std::string sizes = fmt::format("p = {}, m = {}", p, micro_batches(training));
    const auto add = [&](Schedule schedule, const std::string& name, const std::string& how) {
        section.figures.push_back({schedule_names[static_cast<std::size_t>(schedule)], name,
                                   bubble_share(training, schedule), Unit::share, how});
    };
    add(Schedule::gpipe, "GPipe", "(p-1) / (m+p-1), " + sizes);
    add(Schedule::one_f_one_b, "1F1B", "the same, with fewer activations kept");
    if (training.layout.chunks > 1)
        add(Schedule::interleaved, "interleaved", fmt::format("(p-1) / (v m+p-1), v = {}", training.layout.chunks));
    add(Schedule::zero_bubble, "zero bubble (ZB-H1)", "a third of 1F1B's idle time");
    return section;
}

}  // namespace

Estimate make_estimate(Training training) {
    check(training);
    Estimate estimate{std::move(training), {}};
    const Training& known = estimate.training;
    for (Section& section : std::vector{model_section(known), speed_section(known), memory_section(known),
                                        zero_section(known), communication_section(known), bubble_section(known)})
        if (!section.figures.empty()) estimate.sections.push_back(std::move(section));
    return estimate;
}

}  // namespace cep::estimate
