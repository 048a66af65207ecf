// SPDX-License-Identifier: Apache-2.0
//
// The records that the trainer's threads hand to the writer.
#pragma once

#include <cstdint>
#include <string_view>

#include "attributes.hpp"
#include "device.hpp"
#include "name_table.hpp"
#include "schema.hpp"

struct cep_profiler;

/// A region: a name, a kind, and the count of its spans in the current step.
struct cep_region : cep::Name {
    cep_region(std::string_view name, cep::schema::Kind region_kind, cep_profiler* owner)
        : Name(name), kind(region_kind), profiler(owner) {}

    const cep::schema::Kind kind;
    // What each span needs, in one cache line of its own.
    alignas(64) cep_profiler* const profiler;
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

enum class RecordType : std::uint8_t {
    span,
    external,             ///< timed elsewhere; the caller gave its start as UNIX time
    external_ending_now,  ///< timed elsewhere; it ended when the caller added it
    counter,
    mark,
};

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
    Stamp begin;  ///< for `external`, host_ns is the start as UNIX time
    Stamp end;    ///< for `external` and `external_ending_now`, host_ns is the duration
    Attributes attributes;
    double value = 0;  ///< of a counter
};
static_assert(sizeof(Record) == 128);  // two cache lines

}  // namespace cep
