// SPDX-License-Identifier: Apache-2.0
#include "row_scanner.hpp"

#include <algorithm>
#include <cstring>

#include "json_scan.hpp"

namespace cep::analysis {
namespace {

constexpr std::uint8_t begin_of_row = 0;
constexpr std::uint8_t not_learnt = 1;
constexpr std::uint8_t ends_with_row = 0;

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

constexpr std::uint64_t odd = 0x9e3779b97f4a7c15U;

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

// Where the middle is the one learnt, passes it; else returns `at`.
CEP_INLINE const char* RowScanner::pass_middle(const char* at, Row& row, Keys& seen, std::uint8_t& lead) const {
    if (middle_.size == 0 || std::memcmp(middle_.text.data(), at, middle_.size) != 0) return at;
    if (json::is_blank(at[middle_.size])) return at;  // the same with more blanks
    row.step = middle_.step;
    row.rank = middle_.rank;
    seen |= bit(Key::step) | bit(Key::rank);
    lead = middle_.lead;
    return at + middle_.size;
}

void RowScanner::learn_middle(std::string_view text, const Row& row, std::uint8_t lead) {
    // The text of "kind" belongs to a tail.
    if (text.size() > Middle::max_bytes || lead == not_learnt || leads_[lead].key == Key::kind) return;
    std::memcpy(middle_.text.data(), text.data(), text.size());
    middle_.size = text.size();
    middle_.lead = lead;
    middle_.step = *row.step;
    middle_.rank = *row.rank;
}

// Rows come in the same order in every step: behind a row of this name that followed that tail there came this one.
CEP_INLINE std::uint8_t& RowScanner::next_tail(std::string_view name) {
    std::uint64_t begin = 0;
    if (!name.empty()) std::memcpy(&begin, name.data(), std::min(name.size(), sizeof begin));
    return next_tails_[((begin ^ name.size() ^ std::uint64_t{last_tail_} << 32) * odd) >> (64 - next_tail_bits)];
}

// Where the tail is the one expected, takes it; else returns nullptr.
CEP_INLINE const RowScanner::Tail* RowScanner::pass_tail(const char* at, Row& row, Keys& seen) {
    const std::uint8_t expected = next_tail(row.name);
    const Tail& tail = tails_[expected];
    if (tail.size == 0 || (seen & tail_keys()) != 0 || std::memcmp(tail.text.data(), at, tail.size) != 0)
        return nullptr;
    if (json::is_blank(at[tail.size])) return nullptr;  // the same with more blanks
    last_tail_ = expected;
    row.kind = tail.kind;
    row.clock = tail.clock;
    row.seq = tail.seq;
    row.depth = tail.depth;
    row.stream = tail.stream;
    row.bytes = tail.bytes;
    row.group = {at + tail.group_begin, tail.group_size};
    seen |= tail.keys;
    return &tail;
}

// The one of four places that has the text, else the first that is free, else the first.
std::uint8_t RowScanner::place_of_tail(std::string_view text) const {
    std::uint64_t hash = text.size();
    for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * odd;
    const auto place_at = [&](std::size_t i) {
        return static_cast<std::uint8_t>(1 + ((hash >> 32) + i) % (max_tails - 1));
    };
    for (std::size_t i = 0; i < 4; ++i) {
        const Tail& tail = tails_[place_at(i)];
        if (tail.size == 0 || std::string_view(tail.text.data(), tail.size) == text) return place_at(i);
    }
    return place_at(0);
}

void RowScanner::learn_tail(std::string_view text, const Row& row, Keys seen, Keys seen_before, std::uint8_t lead) {
    const Keys keys = seen & ~seen_before;
    if (text.size() > Tail::max_bytes || (keys & ~tail_keys()) != 0 || (seen_before & tail_keys()) != 0 ||
        kind_name_.empty() || lead == not_learnt)
        return;
    const std::uint8_t place = place_of_tail(text);
    next_tail(row.name) = place;
    last_tail_ = place;
    Tail& tail = tails_[place];
    std::memcpy(tail.text.data(), text.data(), text.size());
    tail.size = text.size();
    tail.lead = lead;
    tail.keys = keys;
    tail.kind = schema::kind_from_name(kind_name_);
    tail.clock = row.clock;
    tail.seq = row.seq;
    tail.depth = row.depth;
    tail.stream = row.stream;
    tail.bytes = row.bytes;
    tail.group_begin = row.group.empty() ? 0 : static_cast<std::size_t>(row.group.data() - text.data());
    tail.group_size = row.group.size();
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

const char* RowScanner::scan(const char* at, Row& row) {
    if constexpr (!json::scannable) return nullptr;
    constexpr Keys middle_keys = bit(Key::step) | bit(Key::rank);
    constexpr Keys span_keys = ~(bit(Key::value) | bit(Key::other));
    const char* const begin = at;
    clear(row);
    kind_name_ = {};
    if (*at != '{') return nullptr;
    Keys seen = 0;
    Keys known = span_keys;
    const char* middle_begin = nullptr;  // where one may be learnt
    int middle_leads = 0;
    const char* tail_begin = nullptr;  // the same
    Keys seen_before_tail = 0;
    bool has_tail = false;
    std::uint8_t lead = begin_of_row;
    do {
        const char* const lead_begin = at;
        if (at == middle_begin) at = pass_middle(at, row, seen, lead);
        if (at == lead_begin) {
            at = pass_lead(at, at == begin, lead);
            if (at == nullptr) return nullptr;
            if (middle_begin != nullptr && ++middle_leads == 3) {
                if ((seen & middle_keys) == middle_keys)
                    learn_middle({middle_begin, static_cast<std::size_t>(at - middle_begin)}, row, lead);
                middle_begin = nullptr;
            }
        } else {
            middle_begin = nullptr;
        }
        Key key = leads_[lead].key;
        if ((bit(key) & known) == 0) key = Key::other;
        if (key == Key::type) {
            at = seen == 0 ? read_type(at, row, known) : nullptr;
        } else {
            if (key == Key::kind) {
                if (const Tail* tail = pass_tail(lead_begin, row, seen)) {
                    has_tail = true;
                    at = lead_begin + tail->size;
                    if (tail->lead == ends_with_row) {
                        --at;
                        break;
                    }
                    lead = tail->lead;
                    key = Key::coll;
                } else {
                    tail_begin = lead_begin;
                    seen_before_tail = seen;
                }
            } else if (key == Key::coll && tail_begin != nullptr) {
                learn_tail({tail_begin, static_cast<std::size_t>(at - tail_begin)}, row, seen, seen_before_tail, lead);
                tail_begin = nullptr;
            }
            at = read_value(key, at, row);
        }
        const Keys key_bit = bit(key) & ~bit(Key::other);
        if (at == nullptr || (seen & key_bit) != 0) return nullptr;
        if (key == Key::name && (seen & middle_keys) == 0) middle_begin = at;
        seen |= key_bit;
    } while (*at != '}');
    row.text = {begin, static_cast<std::size_t>(at + 1 - begin)};
    if (!complete(row, seen)) return nullptr;
    if (row.type != RowType::span || has_tail) return at + 1;
    row.kind = kind_name_.empty() ? kinds_.of(row.name) : schema::kind_from_name(kind_name_);
    if (tail_begin != nullptr)
        learn_tail({tail_begin, static_cast<std::size_t>(at + 1 - tail_begin)}, row, seen, seen_before_tail,
                   ends_with_row);
    return at + 1;
}

}  // namespace cep::analysis
