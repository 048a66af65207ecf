// SPDX-License-Identifier: Apache-2.0
#include "read/row_scanner.hpp"

#include <algorithm>
#include <cstring>

#include "read/json_scan.hpp"

namespace cep::tool {
namespace {

constexpr std::uint8_t begin_of_row = 0;
constexpr std::uint8_t not_learnt = 1;

/// Passes a null; else nullptr.
const char* pass_null(const char* at) {
    return json::is_null(at) ? at + 4 : nullptr;
}

CEP_INLINE const char* read_needed_integer(const char* at, std::optional<std::int64_t>& out) {
    std::int64_t value = 0;
    at = json::read_integer(at, value);
    out = value;
    return at;
}

CEP_INLINE const char* read_optional_integer(const char* at, std::optional<std::int64_t>& out) {
    return *at == 'n' ? pass_null(at) : read_needed_integer(at, out);
}

CEP_INLINE const char* read_optional_double(const char* at, std::optional<double>& out) {
    if (*at == 'n') return pass_null(at);
    double value = 0;
    at = json::read_double(at, value);
    out = value;
    return at;
}

CEP_INLINE const char* read_optional_text(const char* at, std::string_view& out) {
    return *at == 'n' ? pass_null(at) : json::read_string(at, out);
}

// Field by field: gcc clears a whole object of this size by an instruction that takes longer than all of the above.
CEP_INLINE void clear(Row& row) {
    row.type = RowType::span;
    row.name = {};
    row.step.reset();
    row.rank.reset();
    row.duration_ms = row.elapsed_ms = row.value = 0;
    row.start_ns.reset();
    row.lag_ms.reset();
    row.seq.reset();
    row.depth.reset();
    row.stream.reset();
    row.bytes.reset();
    row.group = {};
    row.coll.reset();
    row.kind = schema::Kind::other;
    row.clock = Clock::none;
    row.odd_key = {};
    row.run = nullptr;
    row.stats = nullptr;
}

}  // namespace

RowScanner::Key RowScanner::key_of(std::string_view name) {
    constexpr std::array<std::string_view, 18> names = {
        "",    "type",  "name",   "step",  "rank",  "start_ns", "duration_ms", "elapsed_ms", "lag_ms",
        "seq", "depth", "stream", "bytes", "group", "coll",     "kind",        "clock",      "value"};
    static_assert(names.size() == static_cast<std::size_t>(Key::value) + 1);
    for (std::size_t i = 1; i < names.size(); ++i)
        if (names[i] == name) return static_cast<Key>(i);
    return Key::other;
}

CEP_INLINE bool RowScanner::matches(const Lead& lead, const char* at) {
    return (((json::load(at) ^ lead.text[0]) & lead.mask[0]) | ((json::load(at + 8) ^ lead.text[1]) & lead.mask[1]) |
            ((json::load(at + 16) ^ lead.text[2]) & lead.mask[2])) == 0;
}

// Passes what is in front of a value, and sets `lead` from the lead before to the one passed.
CEP_INLINE const char* RowScanner::pass_lead(const char* at, bool first, std::uint8_t& lead) {
    for (const std::uint8_t next : leads_[lead].next) {
        if (next == 0 || !matches(leads_[next], at)) continue;
        const char* const value = at + leads_[next].size;
        if (json::is_blank(*value)) continue;  // the same with more blanks
        lead = next;
        return value;
    }
    return parse_lead(at, first, lead);
}

const char* RowScanner::parse_lead(const char* at, bool first, std::uint8_t& lead) {
    const char* const begin = at;
    at = json::skip_blanks(at);
    if (*at != (first ? '{' : ',')) return nullptr;
    std::string_view name;
    at = json::read_string(json::skip_blanks(at + 1), name);
    if (at == nullptr) return nullptr;
    at = json::skip_blanks(at);
    if (*at != ':') return nullptr;
    at = json::skip_blanks(at + 1);
    lead = learn({begin, static_cast<std::size_t>(at - begin)}, key_of(name), lead);
    return at;
}

std::uint8_t RowScanner::learn(std::string_view text, Key key, std::uint8_t previous) {
    if (text.size() > Lead::max_bytes || lead_count_ == max_leads) {
        leads_[not_learnt].key = key;
        return not_learnt;
    }
    Lead lead;
    lead.size = static_cast<std::uint8_t>(text.size());
    lead.key = key;
    std::memcpy(lead.text.data(), text.data(), text.size());
    std::memset(lead.mask.data(), 0xff, text.size());
    std::size_t place = 2;
    while (place < lead_count_ && (leads_[place].size != lead.size || leads_[place].text != lead.text)) ++place;
    if (place == lead_count_) leads_[lead_count_++] = lead;
    auto& next = leads_[previous].next;
    next[next[0] != 0] = static_cast<std::uint8_t>(place);
    return static_cast<std::uint8_t>(place);
}

// Of rows with a type those are read that are many. They have it in front, as the library writes it.
const char* RowScanner::read_type(const char* at, Row& row, Keys& known) {
    std::string_view type;
    at = json::read_string(at, type);
    constexpr Keys common = bit(Key::type) | bit(Key::name) | bit(Key::step) | bit(Key::rank) | bit(Key::start_ns);
    if (type == schema::row::counter) {
        row.type = RowType::counter;
        known = common | bit(Key::value);
    } else if (type == schema::row::mark) {
        row.type = RowType::mark;
        known = common;
    } else {
        return nullptr;
    }
    return at;
}

CEP_INLINE const char* RowScanner::read_value(Key key, const char* at, Row& row) {
    switch (key) {
        case Key::name:
            return json::read_string(at, row.name);
        case Key::step:
            return read_needed_integer(at, row.step);
        case Key::rank:
            return read_needed_integer(at, row.rank);
        case Key::start_ns:
            return read_optional_integer(at, row.start_ns);
        case Key::duration_ms:
            return json::read_double(at, row.duration_ms);
        case Key::elapsed_ms:
            return json::read_double(at, row.elapsed_ms);
        case Key::lag_ms:
            return read_optional_double(at, row.lag_ms);
        case Key::seq:
            return read_optional_integer(at, row.seq);
        case Key::depth:
            return read_optional_integer(at, row.depth);
        case Key::stream:
            return read_optional_integer(at, row.stream);
        case Key::bytes:
            return read_optional_integer(at, row.bytes);
        case Key::group:
            return read_optional_text(at, row.group);
        case Key::coll:
            return read_optional_integer(at, row.coll);
        case Key::kind:
            return read_optional_text(at, kind_name_);
        case Key::clock: {
            std::string_view name;
            at = read_optional_text(at, name);
            row.clock = clock_from_name(name);
            return at;
        }
        case Key::value:
            return json::read_double(at, row.value);
        default:
            return json::skip_value(at);
    }
}

void RowScanner::Numbers::add(Key key, std::size_t begin, std::size_t end) {
    too_many |= count == all.size();
    if (!too_many) all[count++] = {key, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
}

CEP_INLINE bool RowScanner::complete(Row& row, Keys seen) {
    Keys needed = bit(Key::name) | bit(Key::step) | bit(Key::rank);
    if (row.type == RowType::counter) needed |= bit(Key::value);
    if (row.type == RowType::span) {
        needed |= bit(Key::duration_ms);
        if (row.duration_ms < 0) return false;
    }
    return (seen & needed) == needed;
}

const Row* RowScanner::scan_and_learn(const char* at) {
    constexpr Keys span_keys = ~(bit(Key::value) | bit(Key::other));
    const char* const begin = at;
    Row& row = row_;
    clear(row);
    kind_name_ = {};
    if (*at != '{') return nullptr;
    Keys seen = 0;
    Keys known = span_keys;
    Numbers numbers;
    std::uint8_t lead = begin_of_row;
    do {
        at = pass_lead(at, at == begin, lead);
        if (at == nullptr) return nullptr;
        const char* const value = at;
        Key key = leads_[lead].key;
        if ((bit(key) & known) == 0) key = Key::other;
        if (key == Key::type) {
            at = seen == 0 ? read_type(at, row, known) : nullptr;
        } else {
            at = read_value(key, at, row);
        }
        const Keys key_bit = bit(key) & ~bit(Key::other);
        if (at == nullptr || (seen & key_bit) != 0) return nullptr;
        seen |= key_bit;
        if (*value == '-' || json::leading_digits(json::load(value)) > 0)
            numbers.add(key, static_cast<std::size_t>(value - begin), static_cast<std::size_t>(at - begin));
    } while (*at != '}');
    row.text = {begin, static_cast<std::size_t>(at + 1 - begin)};
    if (!complete(row, seen)) return nullptr;
    if (row.type == RowType::span)
        row.kind = kind_name_.empty() ? kinds_.of(row.name) : schema::kind_from_name(kind_name_);
    if (!numbers.too_many) shapes_.learn(row, {numbers.all.data(), numbers.count});
    return &row;
}

}  // namespace cep::tool
