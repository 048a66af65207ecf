// SPDX-License-Identifier: Apache-2.0
//
// What the trainer's threads hand to the resolver.
#pragma once

#include <cstdint>
#include <string_view>

#include "device.hpp"
#include "name_table.hpp"
#include "schema.hpp"

struct cep_profiler;

/// A region is a name with a kind, and the count of its spans in the current step.
struct cep_region : cep::Name {
    cep_region(std::string_view name, cep::schema::Kind region_kind, cep_profiler* owner)
        : Name(name), kind(region_kind), profiler(owner) {}

    const cep::schema::Kind kind;
    cep_profiler* const profiler;
    /// (step epoch << 32) | spans begun in that epoch; see next_seq().
    std::atomic<std::uint64_t> seq{0};

    /// The number of this span within the step; `epoch` grows with every cep_step().
    [[nodiscard]] std::uint32_t next_seq(std::uint32_t epoch) noexcept {
        std::uint64_t now = seq.load(std::memory_order_relaxed);
        for (;;) {
            const bool same = static_cast<std::uint32_t>(now >> 32) == epoch;
            const std::uint64_t count = same ? now & 0xFFFFFFFF : 0;
            const std::uint64_t counted = (static_cast<std::uint64_t>(epoch) << 32) | ((count + 1) & 0xFFFFFFFF);
            if (seq.compare_exchange_weak(now, counted, std::memory_order_relaxed))
                return static_cast<std::uint32_t>(count);
        }
    }
};

namespace cep {

/// What is known about a span beyond its times. Zero or null: not given; coll −1: not given.
struct Attributes {
    std::int64_t bytes = 0;
    double flops = 0;
    std::int64_t coll = -1;
    const Name* group = nullptr;
    const Name* error = nullptr;

    void override_with(const Attributes& later) noexcept {
        if (later.bytes != 0) bytes = later.bytes;
        if (later.flops != 0) flops = later.flops;
        if (later.group != nullptr) {
            group = later.group;
            coll = later.coll;
        }
        if (later.error != nullptr) error = later.error;
    }
};

enum class RecordType : std::uint8_t { span, external, counter, mark };

/// One finished measurement. Its metadata text, if any, follows in the thread's byte ring.
struct Record {
    RecordType type = RecordType::span;
    std::uint16_t depth = 0;
    std::uint32_t seq = 0;
    std::uint32_t meta_bytes = 0;
    union {
        cep_region* region = nullptr;  ///< of a span
        const Name* name;              ///< of a counter or mark
    };
    std::int64_t step = 0;
    Stamp begin;  ///< of an external span: host_ns is its UNIX start
    Stamp end;    ///< of an external span: host_ns is its duration
    Attributes attributes;
    double value = 0;  ///< of a counter
};
static_assert(sizeof(Record) == 128);  // two cache lines

}  // namespace cep
