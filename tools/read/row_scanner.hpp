// SPDX-License-Identifier: Apache-2.0
//
// Row scanner: a quick reader for the rows that jobs really write. It is not a judge of what is valid: where a line is
// anything but a plain good row, it says so, and RowParser decides. On every row that it does read, both agree to
// the last bit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "read/json_scan.hpp"
#include "read/kind_cache.hpp"
#include "read/row.hpp"
#include "read/row_shape.hpp"
#include "read/row_shapes.hpp"

namespace cep::tool {

/// Scans rows. Rows of a job look alike, so a scanner learns their shapes, and for other rows the text between values
/// (`,"step":`) and which text follows which, and then compares instead of parsing. One scanner a thread.
class RowScanner {
  public:
    /// Reads the row that begins at `at`, up to and with its last brace. Returns nullptr where RowParser must look. The
    /// row is valid until the next call. A NUL must end the bytes, and RowParser::padding_bytes must be readable behind
    /// it.
    const Row* scan(const char* at) {
        if constexpr (!json::scannable) return nullptr;
        const Row* const row = shapes_.read(at);
        return row != nullptr ? row : scan_and_learn(at);
    }

  private:
    using Key = RowKey;
    using Keys = std::uint32_t;  // a set of them
    static constexpr Keys bit(Key key) { return Keys{1} << static_cast<unsigned>(key); }

    /// The text in front of a value, from the separator to the last blank behind the colon.
    struct alignas(64) Lead {
        static constexpr std::size_t max_bytes = 24;

        std::array<std::uint64_t, 3> text{};
        std::array<std::uint64_t, 3> mask{};
        std::uint8_t size = 0;
        Key key = Key::other;
        std::array<std::uint8_t, 2> next{};  // leads that came behind this one; 0: none
    };
    static constexpr std::size_t max_leads = 128;

    /// The numbers of the row being read, as far as there is room for them.
    struct Numbers {
        std::array<RowNumber, RowShape::max_numbers> all;
        std::size_t count = 0;
        bool too_many = false;

        void add(Key key, std::size_t begin, std::size_t end);
    };

    static Key key_of(std::string_view name);
    static bool matches(const Lead& lead, const char* at);

    const Row* scan_and_learn(const char* at);
    const char* pass_lead(const char* at, bool first, std::uint8_t& lead);
    const char* parse_lead(const char* at, bool first, std::uint8_t& lead);
    std::uint8_t learn(std::string_view text, Key key, std::uint8_t previous);
    const char* read_value(Key key, const char* at, Row& row);
    const char* read_type(const char* at, Row& row, Keys& known);
    bool complete(Row& row, Keys seen);
    std::array<Lead, max_leads> leads_;  // the first stands for the begin of a row, the second for any not learnt
    std::size_t lead_count_ = 2;
    Row row_;  // that has no known shape
    RowShapes shapes_;
    KindCache kinds_;
    std::string_view kind_name_;
};

}  // namespace cep::tool
