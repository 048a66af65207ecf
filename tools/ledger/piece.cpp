// SPDX-License-Identifier: Apache-2.0
#include "ledger/piece.hpp"

#include <algorithm>

#include "matching/operation.hpp"

namespace cep::tool {

bool has_words(std::string_view name, std::initializer_list<std::string_view> phrases) {
    char buffer[schema::detail::normalized_capacity] = {};
    const std::string_view words(buffer, schema::detail::normalize(name, buffer));
    return std::any_of(phrases.begin(), phrases.end(),
                       [words](std::string_view phrase) { return schema::detail::has_phrase(words, phrase); });
}

TimeKind named_piece_of(std::string_view name) {
    if (has_words(name, {"checkpoint", "checkpointing", "ckpt", "save"})) return TimeKind::checkpoint;
    if (has_words(name, {"eval", "evaluate", "evaluation", "validate", "validation", "test"}))
        return TimeKind::evaluation;
    if (has_words(name, {"log", "logging", "logger", "metrics", "wandb", "tensorboard", "tensor board", "mlflow"}))
        return TimeKind::logging;
    return TimeKind::other;
}

bool is_between_two(std::string_view name) {
    return operation_of_name(name) == Operation::send_recv;
}

TimeKind piece_of(std::string_view name, schema::Kind kind) {
    using schema::Kind;
    const bool is_copy = kind == Kind::data || kind == Kind::memory;
    if (is_copy && has_words(name, {"h2d", "htod", "host to device", "to device"})) return TimeKind::host_to_device;
    const TimeKind named = named_piece_of(name);
    switch (kind) {
        case Kind::compute:
            return TimeKind::compute;
        case Kind::comm:
            return TimeKind::transfer;
        case Kind::memory:
            return TimeKind::memory;
        case Kind::data:
            return TimeKind::data;
        case Kind::host:
            return named == TimeKind::other ? TimeKind::host : named;
        case Kind::step:
            return named == TimeKind::other ? TimeKind::compute : named;
        default:
            return named;
    }
}

}  // namespace cep::tool
