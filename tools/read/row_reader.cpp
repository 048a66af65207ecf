// SPDX-License-Identifier: Apache-2.0
#include "read/row_reader.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>

#include "read/row_keys.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t word_bytes = sizeof(std::uint64_t);
constexpr std::size_t max_digits = 19;  // as many fit into 64 bits
constexpr std::uint64_t max_exact = std::uint64_t{1} << 53;
constexpr std::array<double, max_digits> powers_of_ten = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8, 1e9,
                                                          1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18};

std::uint64_t load(const char* at) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    return word;
}

bool are_digits(std::uint64_t word) {
    const std::uint64_t values = word ^ 0x3030303030303030U;
    return (((values + 0x7676767676767676U) | values) & 0x8080808080808080U) == 0;
}

// Combines digits to pairs, pairs to fours, fours to eight.
std::uint64_t eight_digits(std::uint64_t word) {
    constexpr std::uint64_t pairs = 0x000000ff000000ffU;
    constexpr std::uint64_t first = 100 + (std::uint64_t{1'000'000} << 32);
    constexpr std::uint64_t second = 1 + (std::uint64_t{10'000} << 32);
    word -= 0x3030303030303030U;
    word = word * 10 + (word >> 8);
    return ((word & pairs) * first + ((word >> 16) & pairs) * second) >> 32;
}

// Appends the digits at `at` to the number; returns where they end. The number is right for up to max_digits.
[[gnu::always_inline]] inline const char* read_digits(const char* at, bool are_many, std::uint64_t& number) {
    // A branch for each digit that is left: it is predicted, so that what follows need not wait for the number's end.
    if constexpr (std::endian::native == std::endian::little)
        for (; are_many && are_digits(load(at)); at += word_bytes)
            number = number * 100'000'000 + eight_digits(load(at));
    for (; *at >= '0' && *at <= '9'; ++at) number = number * 10 + static_cast<std::uint64_t>(*at - '0');
    return at;
}

// The same for the six digits of a microsecond's fraction, if there are as many.
[[gnu::always_inline]] inline const char* read_six_digits(const char* at, std::uint64_t& number) {
    if constexpr (std::endian::native != std::endian::little) return at;
    const std::uint64_t word = load(at) << 16 | 0x3030U;
    if (!are_digits(word)) return at;
    number = number * 1'000'000 + eight_digits(word);
    return at + 6;
}

// A number that the parser would read as a decimal, and where it ends: where the literal text goes on. nullptr if it is
// none that a double holds. A longer one than the padding is none.
[[gnu::noinline]] std::pair<const char*, double> read_large(const char* begin) {
    double number = 0;
    const auto [end, error] = std::from_chars(begin, begin + RowParser::padding_bytes, number);
    return {error == std::errc() ? end : nullptr, number};
}

constexpr const char* number_characters = "0123456789+-.eE";

bool begins_number(char c) {
    return c == '-' || (c >= '0' && c <= '9');
}

double* number_of(double& value) {
    return &value;
}

template <typename Number>
Number* number_of(std::optional<Number>& value) {
    return value ? &*value : nullptr;
}

bool may_have_template(const Row& row) {
    if (row.text.size() > RowTemplate::max_bytes) return false;
    if (row.type == RowType::run || row.type == RowType::stats || row.type == RowType::unknown) return false;
    if (row.type == RowType::mark && row.name == schema::stride_mark) return false;  // its strides have no member
    return row.odd_key.empty() && row.text.starts_with('{') && row.text.ends_with('}') &&
           row.text.find('\\') == std::string_view::npos;
}

}  // namespace

RowTemplate::RowTemplate(const Row& row) : row_(row) {
    all_.set_text(row.text);
    folded_.set_text(row.text);
    row_.text = {all_.text.data(), row.text.size()};
}

void RowTemplate::Pattern::set_text(std::string_view row) {
    text = row;
    text.append(word_bytes, '\0');
    pieces.clear();
}

void RowTemplate::Pattern::add(Piece piece, std::size_t begin, std::size_t end) {
    piece.begin = static_cast<std::uint32_t>(begin);
    piece.size = static_cast<std::uint32_t>(end - begin);
    piece.last_mask = 0;
    std::memset(&piece.last_mask, UINT8_MAX, piece.size % word_bytes);
    pieces.push_back(piece);
}

std::unique_ptr<RowTemplate> RowTemplate::of(const Row& row) {
    if (!may_have_template(row)) return nullptr;
    std::unique_ptr<RowTemplate> made(new RowTemplate(row));
    return made->find_pieces() ? std::move(made) : nullptr;
}

std::uint64_t RowTemplate::shape_of(const char* at) {
    constexpr std::uint64_t factor = 0x9e3779b97f4a7c15U;  // 2^64 over the golden ratio (Knuth, TAOCP 3, 6.4)
    const char* const end = at + strnlen(at, max_bytes);
    std::uint64_t hash = 0;
    int depth = 0;
    bool is_string = false;
    for (; at < end; ++at) {
        const char c = *at;
        if (c == '"') is_string = !is_string;
        if (!is_string) {
            if (c == '{' || c == '[') ++depth;
            if (c == '}' || c == ']') --depth;
            if (depth == 0) break;
            if (depth == 1 && begins_number(c)) {
                at += std::strspn(at, number_characters) - 1;
                continue;
            }
        }
        hash = (std::rotl(hash, 5) ^ static_cast<unsigned char>(c)) * factor;
    }
    return hash;
}

// The text is JSON without escapes: a quote begins a string or ends it.
bool RowTemplate::find_pieces() {
    const std::string_view text = row_.text;
    std::vector<std::string_view> keys;
    std::string_view key;
    int depth = 0;
    bool is_value = false;
    std::size_t literal = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const char c = text[at];
        if (c == '{' || c == '[') ++depth;
        if (c == '}' || c == ']') --depth;
        if (depth == 1 && (c == ':' || c == ',')) is_value = c == ':';
        if (c == '"') {
            const std::size_t end = text.find('"', at + 1);
            const std::string_view string = text.substr(at + 1, end - at - 1);
            if (depth == 1 && !is_value) {
                key = string;
                if (std::find(keys.begin(), keys.end(), key) != keys.end()) return false;
                keys.push_back(key);
            } else if (depth == 1 && key == "name") {
                row_.name = string;
            } else if (depth == 1 && key == "group" && !row_.group.empty()) {
                row_.group = string;
            }
            at = end;
        } else if (depth == 1 && is_value && begins_number(c)) {
            add_piece(literal, at, key);
            literal = std::min(text.find_first_not_of(number_characters, at), text.size());
            all_.pieces.back().has_many_digits = literal - at > 2 * word_bytes;
            at = literal - 1;
        }
    }
    add_piece(literal, text.size(), "");
    return true;
}

void RowTemplate::add_piece(std::size_t begin, std::size_t end, std::string_view key) {
    Piece piece;
    for_each_member(row_keys, [&](const auto& known) {
        if (known.key != key || !known.is_in(row_.type)) return;
        if constexpr (std::is_same_v<decltype(known.least), std::int64_t>)
            piece.integer = {number_of(row_.*known.member), known.least, known.most};
        else
            piece.decimal = {number_of(row_.*known.member), known.least, known.most};
    });
    all_.add(piece, begin, end);
}

// Inlined as read_number() is: calls for the ten to twelve numbers of a row take an eighth of the time of reading.
[[gnu::always_inline]] inline bool RowTemplate::is_literal(const Piece& piece, const char* text, const char* at) {
    const char* literal = text + piece.begin;
    const char* const last = literal + piece.size / word_bytes * word_bytes;
    for (; literal != last; literal += word_bytes, at += word_bytes)
        if (load(literal) != load(at)) return false;
    return ((load(literal) ^ load(at)) & piece.last_mask) == 0;
}

// Where it ends; nullptr if there is no number that the parser would take and store alike.
[[gnu::always_inline]] inline const char* RowTemplate::read_number(const Piece& piece, const char* const begin) {
    std::uint64_t digits = 0;
    const bool negative = *begin == '-';
    const char* const whole = begin + negative;
    const char* at = read_digits(whole, piece.has_many_digits, digits);
    const auto whole_digits = static_cast<std::size_t>(at - whole);
    if (whole_digits == 0 || (whole_digits > 1 && *whole == '0')) return nullptr;
    if (*at != '.' && *at != 'e' && *at != 'E') {
        if (whole_digits > max_digits || digits > INT64_MAX) return nullptr;
        const auto integer = negative ? -static_cast<std::int64_t>(digits) : static_cast<std::int64_t>(digits);
        const bool fits = piece.decimal.number == nullptr ? piece.integer.take(integer)
                                                          : piece.decimal.take(static_cast<double>(integer));
        return fits ? at : nullptr;
    }
    const char* const point = at;
    if (*at == '.') at = read_digits(read_six_digits(at + 1, digits), piece.has_many_digits, digits);
    const auto decimals = static_cast<std::size_t>(at - point) - (at > point);
    if (*point == '.' && decimals == 0) return nullptr;
    double decimal = 0;
    if (*at == 'e' || *at == 'E' || whole_digits + decimals > max_digits || digits > max_exact) {
        std::tie(at, decimal) = read_large(begin);
    } else {
        // Dividend and divisor are exact, so the quotient is rounded once, correctly (Clinger, PLDI 1990).
        decimal = static_cast<double>(static_cast<std::int64_t>(digits)) / powers_of_ten[decimals];
        if (negative) decimal = -decimal;
    }
    return piece.integer.number == nullptr && piece.decimal.take(decimal) ? at : nullptr;
}

const Row* RowTemplate::read(const Pattern& pattern, const char* at) {
    const char* const begin = at;
    const char* const text = pattern.text.data();
    const Piece* const last = &pattern.pieces.back();
    for (const Piece* piece = pattern.pieces.data(); piece != last; ++piece) {
        if (!is_literal(*piece, text, at)) return nullptr;
        at = read_number(*piece, at + piece->size);
        if (at == nullptr) return nullptr;
    }
    if (!is_literal(*last, text, at)) return nullptr;
    row_.text = {begin, static_cast<std::size_t>(at + last->size - begin)};
    return &row_;
}

const Row* RowTemplate::read(const char* at) {
    const bool is_folded = !folded_.pieces.empty();
    const Row* row = is_folded ? read(folded_, at) : nullptr;
    if (row == nullptr) {
        if (is_folded && !is_literal(all_.pieces.front(), all_.text.data(), at)) return nullptr;
        row = read(all_, at);
        if (is_folded && row == nullptr) read(all_, folded_.text.data());  // the numbers that folded_ does not read
        if (row == nullptr) return nullptr;
        if (is_folded) unfold();
    }
    if (++rows_ == rows_to_fold_) fold();
    return row;
}

// The rows that are compared are one less than a power of two apart: numbers that come in turn, as those of
// micro-batches, are rarely the same then.
void RowTemplate::unfold() {
    rows_to_fold_ = rows_ < 4 * rows_to_fold_ ? std::min(2 * rows_to_fold_, most_rows_to_fold) : least_rows_to_fold;
    rows_ = 0;
    folded_.set_text(row_.text);
}

void RowTemplate::fold() {
    const std::string before = std::move(folded_.text);
    folded_.set_text(row_.text);
    const std::string_view now = row_.text;
    std::size_t literal = 0;  // where the one that goes on begins, in the row of now
    std::size_t at = 0;
    std::size_t at_before = 0;
    for (const Piece& piece : all_.pieces) {
        at += piece.size;
        at_before += piece.size;
        const std::size_t end = std::min(now.find_first_not_of(number_characters, at), now.size());
        const std::size_t end_before = before.find_first_not_of(number_characters, at_before);
        const bool is_last = &piece == &all_.pieces.back();
        if (is_last || now.substr(at, end - at) != std::string_view(before).substr(at_before, end_before - at_before)) {
            folded_.add(piece, literal, at);
            literal = end;
        }
        at = end;
        at_before = end_before;
    }
}

// Rows of a job come in the same order in every step. Behind one that comes several times, such as a reduction in
// buckets, there are a few.
const Row* RowReader::scan(const char* at) {
    if (last_ == nullptr) return nullptr;
    for (RowTemplate* const expected : last_->next) {
        if (expected == nullptr) break;
        const Row* const row = expected->read(at);
        if (row == nullptr) continue;
        last_ = expected;
        ++hits_;
        return row;
    }
    return search(at);
}

const Row* RowReader::search(const char* at) {
    const auto found = templates_.find(RowTemplate::shape_of(at));
    if (found == templates_.end()) return nullptr;
    const Row* const row = found->second->read(at);
    if (row == nullptr) return nullptr;
    follow(*found->second);
    ++hits_;
    return row;
}

// The template that came last is expected first.
void RowReader::follow(RowTemplate& found) {
    if (last_ != nullptr) {
        auto& next = last_->next;
        const auto slot = std::find(next.begin(), next.end() - 1, &found);
        std::move_backward(next.begin(), slot, slot + 1);
        next.front() = &found;
    }
    last_ = &found;
}

const Row* RowReader::parse(std::string_view text) {
    const Row* const row = parser_.parse(text);
    if (row != nullptr) learn(*row);
    return row;
}

void RowReader::learn(const Row& row) {
    if (rows_idle_ > 0) {
        --rows_idle_;
        return;
    }
    std::unique_ptr<RowTemplate> made = RowTemplate::of(row);
    if (made == nullptr) return;
    if (templates_.size() == max_templates) forget();
    follow(*templates_.try_emplace(made->shape(), std::move(made)).first->second);
}

// Rows that nearly all differ in a text, as a time that is written as one, are better parsed each.
void RowReader::forget() {
    constexpr std::uint64_t hits_worth_it = 8 * max_templates;
    constexpr std::uint32_t rows_without = 1U << 16;
    if (hits_ < hits_worth_it) rows_idle_ = rows_without;
    templates_.clear();
    last_ = nullptr;
    hits_ = 0;
}

}  // namespace cep::tool
