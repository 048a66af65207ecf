// SPDX-License-Identifier: Apache-2.0
//
// Formulas: FLOPs, memory, communication and bubbles of a transformer, each with its source.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "estimate/training.hpp"

namespace cep::estimate {

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

struct BucketSize {
    double megabytes = 0;  // 2^20 bytes, as bucket_cap_mb
    double buckets = 0;
    double transfer_ms = 0;           // of all of them
    double exposed_ms = 0;            // beyond the end of backward
    std::optional<double> step_ms{};  // of a job whose steps were replayed with it
};

/// What is reduced in a step.
struct Gradients {
    double bytes = 0;
    double backward_ms = 0;
    std::function<double(double bytes)> transfer_ms;
};

/// Gradients become ready evenly over backward; buckets are reduced one after the other, each when it is full and the
/// one before is done.
[[nodiscard]] BucketSize try_bucket_size(const Gradients& gradients, double megabytes);
/// From 1 to 200 MiB.
[[nodiscard]] std::vector<BucketSize> try_bucket_sizes(const Gradients& gradients);

}  // namespace cep::estimate
