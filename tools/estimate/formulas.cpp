// SPDX-License-Identifier: Apache-2.0
#include "estimate/formulas.hpp"

#include <algorithm>

namespace cep::estimate {
namespace {

// Parameters of one layer.
double attention_parameters(const Model& model) {
    const double share_of_kv = model.heads > 0 && model.kv_heads > 0 ? model.kv_heads / model.heads : 1;
    return model.hidden * model.hidden * (2 + 2 * share_of_kv);
}

double feed_forward_parameters(const Model& model) {
    const double inner = model.ffn > 0 ? model.ffn : 4 * model.hidden;
    return (model.gated ? 3 : 2) * model.hidden * inner;
}

double router_parameters(const Model& model) {
    return model.experts > 1 ? model.hidden * model.experts : 0;
}

/// Attention scores and their product with the values, forward: 2 FLOPs each for a multiply and an add.
double attention_score_flops(const Training& training) {
    return 4 * training.model.layers * training.model.hidden * training.batch.sequence;
}

double share_over(double members, bool is_shared) {
    return is_shared ? 1 / members : 1;
}

/// What a ring sends of the bytes that it reduces and hands round, of n ranks.
double one_way(double n) {
    return n > 1 ? (n - 1) / n : 0;
}

/// Activations of a micro-batch between two layers.
double boundary_bytes(const Training& training) {
    return training.batch.micro_batch * training.batch.sequence * training.model.hidden * training.bytes.activation;
}

double parameters_of_rank(const Training& training) {
    const Parameters parameters = count_parameters(training.model);
    const Layout& layout = training.layout;
    return (parameters.dense + parameters.experts / layout.ep) / layout.tp / layout.pp;
}

/// Bytes of one layer's activations of one micro-batch: equations 1, 2 and 4 of Korthikanti et al.; "selective" keeps
/// no attention scores, as flash attention does.
double layer_activation_bytes(const Training& training) {
    const Model& model = training.model;
    if (!model.has_shape()) return 0;
    const double tp = training.layout.tp;
    const double tokens_by_hidden = training.batch.micro_batch * training.batch.sequence * model.hidden;
    const bool is_split = training.layout.sequence_parallel;
    if (training.batch.recompute == Recompute::full) return 2 * tokens_by_hidden * share_over(tp, is_split);
    const double everywhere = 10 * share_over(tp, is_split);
    const double scores =
        training.batch.recompute == Recompute::none ? 5 * model.heads * training.batch.sequence / model.hidden : 0;
    return tokens_by_hidden * (everywhere + (24 + scores) / tp) * training.bytes.activation / 2;
}

/// Micro-batches whose activations the first stage holds, in layers of its own.
double held_micro_batches(const Training& training) {
    const Layout& layout = training.layout;
    const double all = std::max(1.0, micro_batches(training));
    if (layout.schedule == Schedule::gpipe) return all;
    const double held = std::min(all, layout.pp);
    if (layout.schedule != Schedule::interleaved) return held;
    return held * (1 + (layout.pp - 1) / (layout.pp * layout.chunks));
}

}  // namespace

Parameters count_parameters(const Model& model) {
    if (model.params > 0) return {model.params, 0, model.active_params > 0 ? model.active_params : model.params};
    const double output = model.vocab * model.hidden;
    const double attention = attention_parameters(model) + router_parameters(model);
    const double feed_forward = feed_forward_parameters(model);
    const bool has_experts = model.experts > 1;
    const double everywhere = model.layers * attention + (model.tied ? 1 : 2) * output;
    return {everywhere + (has_experts ? 0 : model.layers * feed_forward),
            has_experts ? model.layers * feed_forward * model.experts : 0,
            model.layers * (attention + feed_forward * (has_experts ? model.top_k : 1)) + output};
}

Flops flops_per_token(const Training& training) {
    const double parameters = count_parameters(training.model).active;
    const double scores = attention_score_flops(training);
    Flops flops{6 * parameters + 3 * scores, 0};
    flops.hardware = flops.model;
    if (training.batch.recompute == Recompute::full) flops.hardware += 2 * parameters + scores;
    if (training.batch.recompute == Recompute::selective) flops.hardware += scores;
    return flops;
}

double micro_batches(const Training& training) {
    return training.batch.sequences / training.layout.dp() / training.batch.micro_batch;
}

Memory memory_of_rank(const Training& training, int zero) {
    const Layout& layout = training.layout;
    const double parameters = parameters_of_rank(training);
    const double layers = training.model.layers / layout.pp;
    return {parameters * training.bytes.parameter * share_over(layout.dp(), zero >= 3),
            parameters * training.bytes.gradient * share_over(layout.dp(), zero >= 2),
            parameters * training.bytes.optimizer * share_over(layout.dp(), zero >= 1),
            layer_activation_bytes(training) * layers * held_micro_batches(training)};
}

double Traffic::ms(const Machine& machine) const {
    if (machine.link_gb_per_s <= 0) return 0;
    return messages * machine.latency_us * 1e-3 + bytes / machine.link_gb_per_s * 1e-6;
}

// An all-reduce is a reduce-scatter and an all-gather. ZeRO 3 gathers parameters once more, for backward.
Traffic data_parallel_traffic(const Training& training) {
    const double n = training.layout.dp();
    if (n <= 1) return {};
    const double parameters = parameters_of_rank(training);
    const double gradients = parameters * training.bytes.gradient;
    const double weights = parameters * training.bytes.parameter;
    const int zero = training.layout.zero;
    const double sent = zero == 0 ? 2 * gradients : gradients + (zero == 3 ? 2 : 1) * weights;
    return {sent * one_way(n), (zero == 3 ? 3 : 2) * (n - 1)};
}

// Two all-reduces forward and two backward a layer; the two of forward again where all is computed again.
Traffic tensor_parallel_traffic(const Training& training) {
    const double n = training.layout.tp;
    if (n <= 1) return {};
    const double calls = (training.batch.recompute == Recompute::full ? 6 : 4) * training.model.layers /
                         training.layout.pp * micro_batches(training);
    return {calls * 2 * one_way(n) * boundary_bytes(training), calls * 2 * (n - 1)};
}

// A stage in the middle sends activations to the next one, gradients to the one before, for each chunk.
Traffic pipeline_traffic(const Training& training) {
    if (training.layout.pp <= 1) return {};
    const double calls = 2 * micro_batches(training) * training.layout.chunks;
    return {calls * boundary_bytes(training), calls};
}

// Tokens to their experts and back, forward and backward.
Traffic expert_traffic(const Training& training) {
    const double n = training.layout.ep;
    if (n <= 1 || training.model.experts <= 1) return {};
    const double calls = 4 * training.model.layers / training.layout.pp * micro_batches(training);
    return {calls * one_way(n) * training.model.top_k * boundary_bytes(training), calls * (n - 1)};
}

// Narayanan et al. (2021) for the first three; Qi et al. (2024), ZB-H1, with equal times of forward, backward of
// activations and backward of weights: a third of the bubble stays.
double bubble_share(const Training& training, Schedule schedule) {
    const double idle = (training.layout.pp - 1) / (schedule == Schedule::zero_bubble ? 3 : 1);
    const double work = micro_batches(training) * (schedule == Schedule::interleaved ? training.layout.chunks : 1);
    return idle > 0 ? idle / (work + idle) : 0;
}

}  // namespace cep::estimate
