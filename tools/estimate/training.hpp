// SPDX-License-Identifier: Apache-2.0
//
// Training: the model, the layout and the machine that an estimate is about.
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
    double backward_ms = 0;            // of a step, for sizes of buckets; 0: not known
};

struct Training {
    Model model;
    Layout layout;
    Batch batch;
    Precision bytes;
    Machine machine;
};

/// What a job measured of that, where it is known.
struct Measured {
    std::string name;
    std::optional<double> step_ms;         // mean
    std::optional<double> flops_per_step;  // of all ranks
    std::optional<double> mfu;             // of the whole run
    std::optional<double> memory_bytes;    // the largest peak of a rank
    std::optional<double> transfer_ms;     // of a step, hidden or not
    std::optional<double> bubble;          // share of the time
};

}  // namespace cep::estimate
