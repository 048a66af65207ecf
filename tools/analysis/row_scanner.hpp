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

#include "kind_cache.hpp"
#include "row.hpp"

namespace cep::analysis {

/// Scans rows. Rows of a job look alike, so a scanner learns the text between values (`,"step":`) and which text
/// follows which, and then compares instead of parsing. One scanner a thread.
class RowScanner {
  public:
    /// Reads the row that begins at `at`, up to and with its last brace, and returns the byte behind it. Returns
    /// nullptr where RowParser must look. A NUL must end the bytes, and RowParser::padding_bytes must be readable
    /// behind it.
    const char* scan(const char* at, Row& row);

  private:
    enum class Key : std::uint8_t {
        other,
        type,
        name,
        step,
        rank,
        start_ns,
        duration_ms,
        elapsed_ms,
        lag_ms,
        seq,
        depth,
        stream,
        bytes,
        group,
        coll,
        kind,
        clock,
        value,
    };
    using Keys = std::uint32_t;  // a set of them

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

    /// The end of a row, from the lead of "kind" to the last brace. All rows of a phase may have the same: then it is
    /// compared and not read.
    struct Tail {
        static constexpr std::size_t max_bytes = 128;

        std::array<char, max_bytes> text{};
        std::size_t size = 0;  // 0: none learnt
        Keys keys = 0;
        schema::Kind kind = schema::Kind::other;
        Clock clock = Clock::none;
        std::optional<std::int64_t> seq;
        std::optional<std::int64_t> depth;
        std::optional<std::int64_t> stream;
    };
    static constexpr std::size_t max_tails = 64;  // a phase has one place, and the last one there stays
    static_assert(Tail::max_bytes + 64 <= RowParser::padding_bytes);

    /// What is behind the name of a row, up to the value behind its step and rank. Rows of a step have all the same.
    struct Middle {
        static constexpr std::size_t max_bytes = 96;

        std::array<char, max_bytes> text{};
        std::size_t size = 0;   // 0: none learnt
        std::uint8_t lead = 0;  // the last one in it
        std::int64_t step = 0;
        std::int64_t rank = 0;
    };
    static_assert(Middle::max_bytes + 64 <= RowParser::padding_bytes);

    static constexpr Keys bit(Key key) { return Keys{1} << static_cast<unsigned>(key); }
    static Key key_of(std::string_view name);
    static bool matches(const Lead& lead, const char* at);

    const char* pass_lead(const char* at, bool first, std::uint8_t& lead);
    const char* parse_lead(const char* at, bool first, std::uint8_t& lead);
    std::uint8_t learn(std::string_view text, Key key, std::uint8_t previous);
    const char* read_value(Key key, const char* at, Row& row);
    const char* read_type(const char* at, Row& row, Keys& known);
    bool complete(Row& row, Keys seen);
    static bool read_tail(const Tail& tail, const char* at, Row& row, Keys& seen);
    const char* pass_middle(const char* at, Row& row, Keys& seen, std::uint8_t& lead) const;
    void learn_middle(std::string_view text, const Row& row, std::uint8_t lead);
    void learn_tail(Tail& tail, std::string_view text, const Row& row, Keys keys) const;

    std::array<Lead, max_leads> leads_;  // the first stands for the begin of a row, the second for any not learnt
    std::size_t lead_count_ = 2;
    std::array<Tail, max_tails> tails_;
    Middle middle_;
    KindCache kinds_;
    std::string_view kind_name_;
};

}  // namespace cep::analysis
