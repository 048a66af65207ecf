// SPDX-License-Identifier: Apache-2.0
#include "ledger/piece.hpp"

#include "matching/operation.hpp"

namespace cep::tool {

TimeKind named_piece_of(std::string_view name) {
    const NameWords words(name);
    if (words.has_any({"checkpoint", "checkpointing", "ckpt", "save"})) return TimeKind::checkpoint;
    if (words.has_any({"eval", "evaluate", "evaluation", "validate", "validation", "test"}))
        return TimeKind::evaluation;
    if (words.has_any({"log", "logging", "logger", "metrics", "wandb", "tensorboard", "tensor board", "mlflow"}))
        return TimeKind::logging;
    return TimeKind::other;
}

bool is_between_two(std::string_view name) {
    return operation_of_name(name) == Operation::send_recv;
}

TimeKind piece_of(std::string_view name, schema::Kind kind) {
    using schema::Kind;
    const bool is_copy = kind == Kind::data || kind == Kind::memory;
    if (is_copy && NameWords(name).has_any({"h2d", "htod", "host to device", "to device"}))
        return TimeKind::host_to_device;
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
