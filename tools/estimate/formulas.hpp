// SPDX-License-Identifier: Apache-2.0
//
// Formulas: FLOPs, memory, communication and bubbles of a transformer that is to be trained, each with its source.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cep::estimate {

enum class Recompute : std::uint8_t { none, selective, full };
inline constexpr const char* recompute_names[] = {"none", "selective", "full"};

enum class Schedule : std::uint8_t { gpipe, one_f_one_b, interleaved, zero_bubble };
inline constexpr const char* schedule_names[] = {"gpipe", "1f1b", "interleaved", "zero-bubble"};

/// A transformer. 0: not known.
struct Model {
    double params = 0;         // all of them; else those of the shape
    double active_params = 0;  // that a token meets; 0: all
    double layers = 0;
    double hidden = 0;
    double heads = 0;
    double kv_heads = 0;  // 0: as many as heads
    double ffn = 0;       // inner size of a feed-forward layer, or of one expert; 0: 4 x hidden
    bool gated = false;   // SwiGLU: three matrices instead of two
    double vocab = 0;
    bool tied = false;  // input and output embedding are one
    double experts = 1;
    double top_k = 1;  // experts that a token meets

    [[nodiscard]] bool has_shape() const { return layers > 0 && hidden > 0; }
    [[nodiscard]] bool is_known() const { return has_shape() || params > 0; }
};

struct Layout {
    double ranks = 1;
    double tp = 1;
    double pp = 1;
    double ep = 1;
    double chunks = 1;  // model chunks of a rank, of an interleaved pipeline
    int zero = 0;
    bool sequence_parallel = false;
    Schedule schedule = Schedule::one_f_one_b;

    [[nodiscard]] double dp() const { return ranks / tp / pp; }
};

/// The work of a step. 0: not known.
struct Batch {
    double sequence = 0;     // tokens
    double sequences = 0;    // in a step, of all ranks
    double micro_batch = 1;  // sequences that a rank takes at a time
    double tokens = 0;       // in a step, where sequences are not known
    Recompute recompute = Recompute::none;

    [[nodiscard]] double tokens_per_step() const { return tokens > 0 ? tokens : sequence * sequences; }
};

/// Bytes for each parameter: those of mixed precision with Adam.
struct Precision {
    double parameter = 2;
    double gradient = 2;
    double optimizer = 12;  // a copy in 32 bits, and two moments
    double activation = 2;
};

struct Machine {
    std::string device;
    std::optional<double> peak_flops;  // of one rank's device
    double step_ms = 0;                // 0: not known
    double link_gb_per_s = 0;          // of a rank, in one direction; 0: not known
    double latency_us = 0;             // of one message
};

struct Training {
    Model model;
    Layout layout;
    Batch batch;
    Precision bytes;
    Machine machine;
};

/// Parameters of the model, without biases and norms.
struct Parameters {
    double dense = 0;    // all but experts
    double experts = 0;  // of all experts; 0 for a dense model
    double active = 0;   // that take part in the matrix products of a token

    [[nodiscard]] double all() const { return dense + experts; }
};
[[nodiscard]] Parameters count_parameters(const Model& model);

/// FLOPs of a token, forward and backward.
struct Flops {
    double model = 0;     // 6 x active parameters + 12 x layers x hidden x sequence (PaLM, appendix B)
    double hardware = 0;  // with what is computed again (Korthikanti et al., 2022)
};
[[nodiscard]] Flops flops_per_token(const Training& training);

/// Micro-batches of a rank in a step; 0: not known.
[[nodiscard]] double micro_batches(const Training& training);

/// Bytes of the rank of the first stage, which has the most.
struct Memory {
    double parameters = 0;
    double gradients = 0;
    double optimizer = 0;
    double activations = 0;  // 0: not known

    [[nodiscard]] double peak() const { return parameters + gradients + optimizer + activations; }
};
/// `zero`: the stage of ZeRO (Rajbhandari et al., 2020).
[[nodiscard]] Memory memory_of_rank(const Training& training, int zero);

/// What a rank sends in a step: bytes, and messages one after the other, by ring algorithms.
struct Traffic {
    double bytes = 0;
    double messages = 0;

    /// By the latency and bandwidth of a link; 0 if it is not known.
    [[nodiscard]] double ms(const Machine& machine) const;
};
[[nodiscard]] Traffic data_parallel_traffic(const Training& training);
[[nodiscard]] Traffic tensor_parallel_traffic(const Training& training);
[[nodiscard]] Traffic pipeline_traffic(const Training& training);
[[nodiscard]] Traffic expert_traffic(const Training& training);

/// Share of a step in which a rank waits for the pipeline to fill and to drain.
[[nodiscard]] double bubble_share(const Training& training, Schedule schedule);

}  // namespace cep::estimate
