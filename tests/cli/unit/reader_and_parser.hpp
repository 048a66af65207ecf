// SPDX-License-Identifier: Apache-2.0
//
// A row reader beside a row parser: they must agree on every row that the reader reads by a template.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "read/row.hpp"
#include "read/row_reader.hpp"

namespace cep::tool {

inline bool same_bits(double a, double b) {
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

inline bool same_bits(const std::optional<double>& a, const std::optional<double>& b) {
    return a.has_value() == b.has_value() && (!a || same_bits(*a, *b));
}

/// Whether two rows are the same to the last bit.
inline bool same_row(const Row& a, const Row& b) {
    return a.type == b.type && a.text == b.text && a.name == b.name && a.step == b.step && a.rank == b.rank &&
           same_bits(a.duration_ms, b.duration_ms) && same_bits(a.elapsed_ms, b.elapsed_ms) &&
           same_bits(a.value, b.value) && a.start_ns == b.start_ns && same_bits(a.lag_ms, b.lag_ms) &&
           same_bits(a.host_ms, b.host_ms) && a.is_unfinished == b.is_unfinished && a.seq == b.seq &&
           a.depth == b.depth && a.stream == b.stream && a.bytes == b.bytes && a.group == b.group && a.coll == b.coll &&
           a.kind == b.kind && a.clock == b.clock && a.odd_key == b.odd_key && a.run == b.run && a.stats == b.stats;
}

class ReaderAndParser {
  public:
    enum class Outcome : std::uint8_t { left_to_parser, same, differs };

    /// Learns the line where it is new. A line has no newline in it.
    Outcome read(std::string_view line) {
        const std::vector<char> text = padded(line);
        const Outcome outcome = compare(text, line.size());
        if (outcome != Outcome::left_to_parser || reader_.parse({text.data(), line.size()}) == nullptr) return outcome;
        // A row's own template comes behind the one before.
        return compare(text, line.size());
    }

    /// Learns nothing.
    Outcome scan(std::string_view line) { return compare(padded(line), line.size()); }

  private:
    // Memory of its own, so that a look beyond its end is seen.
    static std::vector<char> padded(std::string_view line) {
        std::vector<char> text(line.begin(), line.end());
        text.push_back('\n');
        text.resize(text.size() + RowParser::padding_bytes);
        return text;
    }
    Outcome compare(const std::vector<char>& text, std::size_t size) {
        const Row* const scanned = reader_.scan(text.data());
        if (scanned == nullptr || scanned->text.size() != size) return Outcome::left_to_parser;
        const Row* const parsed = parser_.parse({text.data(), size});
        return parsed != nullptr && same_row(*parsed, *scanned) ? Outcome::same : Outcome::differs;
    }

    RowReader reader_;
    RowParser parser_;
};

}  // namespace cep::tool
