// SPDX-License-Identifier: Apache-2.0
//
// The row schema of cep-jsonl(5). The library writes rows and the command reads them; this file is all they share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cep::schema {

inline constexpr int version = 1;
inline constexpr std::string_view file_prefix = "cuda_events_rank_";
inline constexpr std::string_view file_suffix = ".jsonl";
inline constexpr std::string_view default_directory_name = "cuda_event_profiler";

/// Kinds of phase. The values equal CEP_KIND_… in <cep/cep.h>; `infer` is CEP_KIND_AUTO.
enum class Kind : std::uint8_t { infer, step, compute, comm, data, memory, host, other };

inline constexpr std::array<std::string_view, 8> kind_names = {"",     "step",   "compute", "comm",
                                                               "data", "memory", "host",    "other"};

[[nodiscard]] constexpr std::string_view kind_name(Kind kind) noexcept {
    return kind_names[static_cast<std::size_t>(kind)];
}

/// The kind of that name; `Kind::other` for an unknown name.
[[nodiscard]] constexpr Kind kind_from_name(std::string_view name) noexcept {
    for (std::size_t i = 1; i < kind_names.size(); ++i)
        if (kind_names[i] == name) return static_cast<Kind>(i);
    return Kind::other;
}

/// Values of the key "type". A row without it is a span.
namespace row {
inline constexpr std::string_view run = "run";
inline constexpr std::string_view stats = "stats";
inline constexpr std::string_view counter = "counter";
inline constexpr std::string_view mark = "mark";
inline constexpr std::string_view open = "open";
}  // namespace row

/// Name of the mark that the library writes when it changes the stride. Unlike a trainer's mark, it has "from" and
/// "to".
inline constexpr std::string_view stride_mark = "cep_stride";

/// Values of the key "clock" of a span: which clock timed it.
namespace clock {
inline constexpr std::string_view gpu = "gpu";
inline constexpr std::string_view host = "host";
inline constexpr std::string_view external = "external";
}  // namespace clock

/// Causes of loss: the keys of "dropped" in a stats row. `meta` means lost metadata; all others mean a lost span.
namespace dropped {
inline constexpr std::string_view ring = "ring";
inline constexpr std::string_view slots = "slots";
inline constexpr std::string_view pool = "pool";
inline constexpr std::string_view file = "file";
inline constexpr std::string_view io = "io";
inline constexpr std::string_view meta = "meta";
}  // namespace dropped

namespace detail {

struct Phrase {
    std::string_view words;  // lower case, separated by one space
    Kind kind;
};

// The phrase with the most words decides; of equally long ones, the first in this table.
inline constexpr Phrase phrases[] = {
    {"allreduce", Kind::comm},
    {"all reduce", Kind::comm},
    {"allgather", Kind::comm},
    {"all gather", Kind::comm},
    {"all gather into tensor", Kind::comm},
    {"reducescatter", Kind::comm},
    {"reduce scatter", Kind::comm},
    {"reduce scatter tensor", Kind::comm},
    {"alltoall", Kind::comm},
    {"all to all", Kind::comm},
    {"all2all", Kind::comm},
    {"a2a", Kind::comm},
    {"broadcast", Kind::comm},
    {"bcast", Kind::comm},
    {"barrier", Kind::comm},
    {"allgatherv", Kind::comm},
    {"gather", Kind::comm},
    {"scatter", Kind::comm},
    {"send", Kind::comm},
    {"recv", Kind::comm},
    {"send recv", Kind::comm},
    {"sendrecv", Kind::comm},
    {"p2p", Kind::comm},
    {"nccl", Kind::comm},
    {"comm", Kind::comm},
    {"communication", Kind::comm},
    {"collective", Kind::comm},
    {"grad sync", Kind::comm},
    {"gradient sync", Kind::comm},
    {"sync gradients", Kind::comm},
    {"sync grads", Kind::comm},
    {"data", Kind::data},
    {"data load", Kind::data},
    {"data loading", Kind::data},
    {"dataload", Kind::data},
    {"dataloader", Kind::data},
    {"dataloading", Kind::data},
    {"load batch", Kind::data},
    {"get batch", Kind::data},
    {"next batch", Kind::data},
    {"fetch batch", Kind::data},
    {"input", Kind::data},
    {"h2d", Kind::data},
    {"htod", Kind::data},
    {"host to device", Kind::data},
    {"to device", Kind::data},
    {"preprocess", Kind::data},
    {"tokenize", Kind::data},
    {"collate", Kind::data},
    {"d2h", Kind::memory},
    {"dtoh", Kind::memory},
    {"d2d", Kind::memory},
    {"device to host", Kind::memory},
    {"device to device", Kind::memory},
    {"memcpy", Kind::memory},
    {"memset", Kind::memory},
    {"offload", Kind::memory},
    {"prefetch", Kind::memory},
    {"copy", Kind::memory},
    {"metrics", Kind::host},
    {"logging", Kind::host},
    {"log", Kind::host},
    {"checkpoint", Kind::host},
    {"save checkpoint", Kind::host},
    {"load checkpoint", Kind::host},
    {"callback", Kind::host},
    {"callbacks", Kind::host},
    {"sleep", Kind::host},
    {"gc", Kind::host},
    {"forward", Kind::compute},
    {"fwd", Kind::compute},
    {"forward backward", Kind::compute},
    {"backward", Kind::compute},
    {"bwd", Kind::compute},
    {"backprop", Kind::compute},
    {"loss", Kind::compute},
    {"optimizer", Kind::compute},
    {"optimizer step", Kind::compute},
    {"optim", Kind::compute},
    {"optim step", Kind::compute},
    {"opt step", Kind::compute},
    {"zero grad", Kind::compute},
    {"clip grad", Kind::compute},
    {"grad clip", Kind::compute},
    {"clip grad norm", Kind::compute},
    {"grad norm", Kind::compute},
    {"matmul", Kind::compute},
    {"mm", Kind::compute},
    {"gemm", Kind::compute},
    {"attention", Kind::compute},
    {"attn", Kind::compute},
    {"mlp", Kind::compute},
    {"ffn", Kind::compute},
    {"moe", Kind::compute},
    {"experts", Kind::compute},
    {"layernorm", Kind::compute},
    {"embedding", Kind::compute},
    {"embed", Kind::compute},
    {"lm head", Kind::compute},
    {"ema", Kind::compute},
    {"compute", Kind::compute},
};

// These names mean a whole step, but only as the whole name: "optimizer_step" is compute.
inline constexpr std::string_view step_names[] = {
    "step", "training step", "train step", "iteration", "iter", "training iteration", "train iteration", "global step",
};

[[nodiscard]] constexpr bool is_upper(char c) noexcept {
    return c >= 'A' && c <= 'Z';
}
[[nodiscard]] constexpr bool is_word(char c) noexcept {
    return (c >= 'a' && c <= 'z') || is_upper(c) || (c >= '0' && c <= '9');
}

inline constexpr std::size_t normalized_capacity = 512;

/// Writes " word word word " in lower case. A word ends before a character that is not alphanumeric, and between a
/// small letter and a capital (AllReduce). The spaces at both ends allow a search for whole words.
constexpr std::size_t normalize(std::string_view name, char (&out)[normalized_capacity]) noexcept {
    std::size_t size = 0;
    out[size++] = ' ';
    char previous = ' ';
    for (char c : name) {
        if (size + 3 >= normalized_capacity) break;
        if (!is_word(c)) c = ' ';
        const bool camel = is_upper(c) && previous >= 'a' && previous <= 'z';
        if ((c == ' ' || camel) && out[size - 1] != ' ') out[size++] = ' ';
        if (c != ' ') out[size++] = is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
        previous = c;
    }
    if (out[size - 1] != ' ') out[size++] = ' ';
    return size;
}

}  // namespace detail

/// Infers the kind from the words of a phase's name. It compares whole words, because "mm" is inside "comm".
[[nodiscard]] constexpr Kind infer_kind(std::string_view name) noexcept {
    char buffer[detail::normalized_capacity] = {};
    const std::string_view words(buffer, detail::normalize(name, buffer));
    if (words.size() < 3) return Kind::other;
    for (std::string_view step : detail::step_names)
        if (words.substr(1, words.size() - 2) == step) return Kind::step;
    Kind best = Kind::other;
    std::size_t best_words = 0;
    for (const detail::Phrase& phrase : detail::phrases) {
        std::size_t count = 1;
        for (char c : phrase.words) count += c == ' ';
        if (count <= best_words) continue;
        for (std::size_t at = words.find(phrase.words, 1); at != std::string_view::npos;
             at = words.find(phrase.words, at + 1)) {
            if (words[at - 1] != ' ' || words[at + phrase.words.size()] != ' ') continue;
            best = phrase.kind;
            best_words = count;
            break;
        }
    }
    return best;
}

}  // namespace cep::schema
