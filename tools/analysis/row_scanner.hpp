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

    /// The end of a row, from the lead of "kind" to the last brace or to the value of "coll", which counts up. Rows of
    /// a phase may have the same: then it is compared and not read.
    struct Tail {
        static constexpr std::size_t max_bytes = 128;

        std::array<char, max_bytes> text{};
        std::size_t size = 0;   // 0: none learnt
        std::uint8_t lead = 0;  // of "coll"; 0: it ends with the row
        Keys keys = 0;
        schema::Kind kind = schema::Kind::other;
        Clock clock = Clock::none;
        std::optional<std::int64_t> seq;
        std::optional<std::int64_t> depth;
        std::optional<std::int64_t> stream;
        std::optional<std::int64_t> bytes;
        std::size_t group_begin = 0;
        std::size_t group_size = 0;
    };
    /// What a tail has is in no other place of its row.
    static constexpr Keys tail_keys() {
        return bit(Key::kind) | bit(Key::clock) | bit(Key::seq) | bit(Key::depth) | bit(Key::stream) | bit(Key::bytes) |
               bit(Key::group);
    }
    static constexpr std::size_t max_tails = 64;
    static_assert(Tail::max_bytes + 64 <= RowParser::padding_bytes);
    static constexpr unsigned next_tail_bits = 10;

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

    static Key key_of(std::string_view name);
    static bool matches(const Lead& lead, const char* at);

    const char* pass_lead(const char* at, bool first, std::uint8_t& lead);
    const char* parse_lead(const char* at, bool first, std::uint8_t& lead);
    std::uint8_t learn(std::string_view text, Key key, std::uint8_t previous);
    const char* read_value(Key key, const char* at, Row& row);
    const char* read_type(const char* at, Row& row, Keys& known);
    bool complete(Row& row, Keys seen);
    [[nodiscard]] std::uint8_t& next_tail(std::string_view name);
    const Tail* pass_tail(const char* at, Row& row, Keys& seen);
    const char* pass_middle(const char* at, Row& row, Keys& seen, std::uint8_t& lead) const;
    void learn_middle(std::string_view text, const Row& row, std::uint8_t lead);
    [[nodiscard]] std::uint8_t place_of_tail(std::string_view text) const;
    void learn_tail(std::string_view text, const Row& row, Keys seen, Keys seen_before, std::uint8_t lead);

    std::array<Lead, max_leads> leads_;  // the first stands for the begin of a row, the second for any not learnt
    std::size_t lead_count_ = 2;
    std::array<Tail, max_tails>
        tails_;  // a text has few places, and the last one there stays; the first stands for none
    std::array<std::uint8_t, std::size_t{1} << next_tail_bits>
        next_tails_{};  // by the name of a row and the tail of the one before
    std::uint8_t last_tail_ = 0;
    Middle middle_;
    KindCache kinds_;
    std::string_view kind_name_;
};

}  // namespace cep::analysis
