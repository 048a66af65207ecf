// SPDX-License-Identifier: Apache-2.0
//
// The records that the trainer's threads hand to the writer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cuda/device.hpp"
#include "record/attributes.hpp"
#include "record/name_table.hpp"
#include "record/step_board.hpp"
#include "record/step_counter.hpp"
#include "schema.hpp"

struct cep_profiler;

/// A region: a name, a kind, and the number of its spans in the current step.
struct cep_region : cep::Name {
    cep_region(std::string_view name, cep::schema::Kind region_kind, cep_profiler* owner, const cep::StepBoard* owners)
        : Name(name), kind(region_kind), profiler(owner), board(owners) {}

    const cep::schema::Kind kind;
    // What each span needs, in one cache line of its own.
    alignas(64) cep_profiler* const profiler;
    const cep::StepBoard* const board;  ///< the profiler's
    cep::StepCounter spans;             ///< of the current step
};

namespace cep {

enum class RecordType : std::uint8_t {
    span,
    external,             ///< timed elsewhere; the caller gave its start as UNIX time
    external_ending_now,  ///< timed elsewhere; it ended when the caller added it
    counter,
    mark,
};

/// What a thread hands over of a finished measurement, in one cache line. Attributes and metadata, which few have,
/// follow in rings of their own.
struct alignas(64) Record {
    RecordType type = RecordType::span;
    bool has_attributes = false;
    std::uint16_t depth = 0;
    std::uint32_t seq = 0;
    union {
        cep_region* region = nullptr;  ///< of a span
        const Name* name;              ///< of a counter or mark
    };
    std::int64_t step = 0;
    std::int64_t begin_ns = 0;  ///< monotonic clock; for `external`, the start as UNIX time
    union {
        std::int64_t end_ns = 0;   ///< monotonic clock
        std::int64_t duration_ns;  ///< of `external` and `external_ending_now`
        double value;              ///< of a counter
    };
    Event* begin_event = nullptr;
    Event* end_event = nullptr;
    std::uint16_t begin_stream = 0;
    std::uint16_t end_stream = 0;
    std::uint8_t begin_references = 0;
    std::uint8_t end_references = 0;
    std::uint16_t meta_bytes = 0;

    [[nodiscard]] Stamp begin() const noexcept { return {begin_ns, begin_event, begin_stream, begin_references}; }
    [[nodiscard]] Stamp end() const noexcept { return {end_ns, end_event, end_stream, end_references}; }
};
static_assert(sizeof(Record) == 64);

/// A finished measurement with all that belongs to it.
struct Measurement {
    Record record;
    Attributes attributes;
    std::string meta;
};

}  // namespace cep
