// SPDX-License-Identifier: Apache-2.0
//
// The row schema of cep-jsonl(5). The library writes rows and the command reads them; this and row_writer.hpp, with
// which simulated jobs are written, are all they share.
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

/// The most FLOPs or tokens of a step, or FLOP/s, that a run row may say: sums over steps and ranks stay finite.
inline constexpr double max_figure = 1e30;

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

struct Phrases {
    Kind kind;
    std::string_view list;  // in lower case, separated by commas; the words of a phrase by one space
};

// The phrase with the most words decides; of equally long ones, the first in this table.
inline constexpr Phrases phrases_by_kind[] = {
    {Kind::comm,
     "allreduce,all reduce,allgather,all gather,all gather into tensor,reducescatter,reduce scatter,"
     "reduce scatter tensor,alltoall,all to all,all2all,a2a,broadcast,bcast,barrier,allgatherv,gather,scatter,"
     "send,recv,send recv,sendrecv,p2p,nccl,comm,communication,collective,grad sync,gradient sync,"
     "sync gradients,sync grads"},
    {Kind::data,
     "data,data load,data loading,dataload,dataloader,dataloading,load batch,get batch,next batch,fetch batch,"
     "input,h2d,htod,host to device,to device,preprocess,tokenize,collate"},
    {Kind::memory, "d2h,dtoh,d2d,device to host,device to device,memcpy,memset,offload,prefetch,copy"},
    {Kind::host,
     "metrics,logging,log,checkpoint,save checkpoint,load checkpoint,callback,callbacks,sleep,gc,send metrics,wandb,"
     "tensorboard,mlflow"},
    {Kind::compute,
     "forward,fwd,forward backward,backward,bwd,backprop,loss,optimizer,optimizer step,optim,optim step,"
     "opt step,zero grad,clip grad,grad clip,clip grad norm,grad norm,matmul,mm,gemm,attention,attn,mlp,ffn,"
     "moe,experts,layernorm,layer norm,batch norm,rms norm,group norm,embedding,embed,embedding gather,lm head,ema,"
     "compute,parallel forward,parallel backward,recompute,activation checkpoint,gradient checkpoint,"
     "activation checkpointing,gradient checkpointing,update weights,weight update,update parameters,parameter update"},
};

/// Takes the first phrase off a list.
[[nodiscard]] constexpr std::string_view take_phrase(std::string_view& list) noexcept {
    const std::string_view phrase = list.substr(0, list.find(','));
    list.remove_prefix(phrase.size() == list.size() ? phrase.size() : phrase.size() + 1);
    return phrase;
}

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

/// Whether these words, with spaces around each, have the phrase as whole words.
[[nodiscard]] constexpr bool has_phrase(std::string_view words, std::string_view phrase) noexcept {
    for (std::size_t at = words.find(phrase, 1); at != std::string_view::npos; at = words.find(phrase, at + 1))
        if (words[at - 1] == ' ' && words[at + phrase.size()] == ' ') return true;
    return false;
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
    for (auto [kind, list] : detail::phrases_by_kind)
        while (!list.empty()) {
            const std::string_view phrase = detail::take_phrase(list);
            if (!detail::has_phrase(words, phrase)) continue;
            std::size_t count = 1;
            for (char c : phrase) count += c == ' ';
            if (count <= best_words) continue;
            best = kind;
            best_words = count;
        }
    return best;
}

}  // namespace cep::schema
