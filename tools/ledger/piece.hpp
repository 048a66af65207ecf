// SPDX-License-Identifier: Apache-2.0
//
// Pieces: what each nanosecond of a rank's time is counted as.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "schema.hpp"

namespace cep::tool {

enum class TimeKind : std::uint8_t {
    // Inside of iterations, in the order in which they hide each other:
    compute,
    transfer,
    waiting,
    bubble,
    memory,
    host_to_device,
    data,
    host,
    checkpoint,
    evaluation,
    logging,
    other,
    host_late,
    uncovered,
    // Outside of them:
    startup,
    between,
    restart,
    redone,
    unrecorded,
};
[[nodiscard]] constexpr bool is_communication(TimeKind piece) {
    return piece == TimeKind::transfer || piece == TimeKind::waiting || piece == TimeKind::bubble;
}
inline constexpr std::size_t piece_count = static_cast<std::size_t>(TimeKind::unrecorded) + 1;

struct PieceFacts {
    std::string_view key;
    std::string_view meaning;
};
inline constexpr std::array<PieceFacts, piece_count> piece_facts = {{
    {"compute", "compute"},
    {"transfer", "transfer, not hidden"},
    {"waiting", "waiting for other ranks"},
    {"bubble", "pipeline bubble"},
    {"memory", "copies"},
    {"host_to_device", "copies to the device"},
    {"data", "loading data"},
    {"host", "host phases"},
    {"checkpoint", "checkpoints"},
    {"evaluation", "evaluation"},
    {"logging", "metrics and logging"},
    {"other", "other phases"},
    {"host_late", "device idle, host late"},
    {"uncovered", "in no phase"},
    {"startup", "start-up"},
    {"between", "between iterations"},
    {"restart", "between attempts"},
    {"redone", "steps done again"},
    {"unrecorded", "in unrecorded steps only"},
}};
[[nodiscard]] constexpr const PieceFacts& facts_of(TimeKind piece) {
    return piece_facts[static_cast<std::size_t>(piece)];
}

/// Nanoseconds, or their sums, by piece.
struct PieceTimes {
    std::array<std::int64_t, piece_count> ns{};

    [[nodiscard]] std::int64_t& operator[](TimeKind piece) { return ns[static_cast<std::size_t>(piece)]; }
    [[nodiscard]] std::int64_t operator[](TimeKind piece) const { return ns[static_cast<std::size_t>(piece)]; }
    void add(const PieceTimes& other) {
        for (std::size_t i = 0; i < ns.size(); ++i) ns[i] += other.ns[i];
    }
    [[nodiscard]] std::int64_t sum_ns() const {
        std::int64_t sum = 0;
        for (const std::int64_t one : ns) sum += one;
        return sum;
    }
};

/// The words of a name, in small letters.
class NameWords {
  public:
    explicit NameWords(std::string_view name) : size_(schema::detail::normalize(name, buffer_)) {}
    /// Whether the phrase, in small letters, is in the name, as whole words.
    [[nodiscard]] bool has(std::string_view phrase) const {
        return schema::detail::has_phrase({buffer_, size_}, phrase);
    }
    [[nodiscard]] bool has_any(std::initializer_list<std::string_view> phrases) const {
        return std::any_of(phrases.begin(), phrases.end(), [this](std::string_view phrase) { return has(phrase); });
    }

  private:
    char buffer_[schema::detail::normalized_capacity];
    std::size_t size_;
};

/// What a phase is counted as where nothing hides it. Of communication, transfer; what is waiting is told by the other
/// ranks, and is a bubble where `is_between_two()`.
[[nodiscard]] TimeKind piece_of(std::string_view name, schema::Kind kind);
/// Whether the name is one of communication between two ranks: a send or a receive.
[[nodiscard]] bool is_between_two(std::string_view name);
/// Checkpoint or evaluation, where a name says so; else `other`. Of phases of kinds that say nothing more, and of
/// marks.
[[nodiscard]] TimeKind named_piece_of(std::string_view name);

}  // namespace cep::tool
