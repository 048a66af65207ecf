// SPDX-License-Identifier: Apache-2.0
#include "read/row_shape.hpp"

#include <algorithm>
#include <cstring>

#include "read/json_scan.hpp"

namespace cep::tool {
namespace {

// The NULs behind the last row are no row, and so end the reading of a shape.
static_assert(RowLayout::readable_bytes(RowShape::max_bytes) <= RowParser::padding_bytes);

std::string_view text_of(std::string_view row, const RowNumber& number) {
    return row.substr(number.begin, number.end - number.begin);
}

// The text in front of the number `i`, or behind the last one.
std::string_view text_before(std::string_view row, std::span<const RowNumber> numbers, std::size_t i) {
    const std::size_t begin = i == 0 ? 0 : numbers[i - 1].end;
    return row.substr(begin, (i < numbers.size() ? numbers[i].begin : row.size()) - begin);
}

bool always_differs(RowKey key) {
    return key == RowKey::step || key == RowKey::start_ns || key == RowKey::duration_ms;
}

std::int64_t* integer_of(Row& row, RowKey key) {
    const auto given = [](std::optional<std::int64_t>& integer) { return integer ? &*integer : nullptr; };
    switch (key) {
        case RowKey::step:
            return given(row.step);
        case RowKey::rank:
            return given(row.rank);
        case RowKey::start_ns:
            return given(row.start_ns);
        case RowKey::seq:
            return given(row.seq);
        case RowKey::depth:
            return given(row.depth);
        case RowKey::stream:
            return given(row.stream);
        case RowKey::bytes:
            return given(row.bytes);
        case RowKey::coll:
            return given(row.coll);
        default:
            return nullptr;
    }
}

double* decimal_of(Row& row, RowKey key) {
    switch (key) {
        case RowKey::duration_ms:
            return &row.duration_ms;
        case RowKey::elapsed_ms:
            return &row.elapsed_ms;
        case RowKey::lag_ms:
            return row.lag_ms ? &*row.lag_ms : nullptr;
        case RowKey::value:
            return &row.value;
        default:
            return nullptr;
    }
}

}  // namespace

std::uint64_t RowShape::hash_of(std::string_view text, std::span<const RowNumber> numbers) {
    constexpr std::uint64_t odd = 0x9e3779b97f4a7c15U;
    std::uint64_t hash = numbers.size();
    for (std::size_t i = 0; i <= numbers.size(); ++i)
        for (const char letter : text_before(text, numbers, i))
            hash = (hash ^ static_cast<unsigned char>(letter)) * odd;
    return hash;
}

RowShape::RowShape(const Row& row, std::span<const RowNumber> numbers)
    : row_(row), text_(row.text), numbers_(numbers.begin(), numbers.end()) {
    const auto place_of = [&row](std::string_view string) -> String {
        if (string.empty()) return {};
        return {static_cast<std::uint32_t>(string.data() - row.text.data()), static_cast<std::uint32_t>(string.size())};
    };
    name_ = place_of(row.name);
    group_ = place_of(row.group);
    for (const RowNumber& number : numbers_)
        differ_.push_back(always_differs(number.key) || text_of(text_, number).find('.') != std::string::npos);
    make_pieces();
}

bool RowShape::include(std::string_view text, std::span<const RowNumber> numbers) {
    if (numbers.size() != numbers_.size()) return false;
    for (std::size_t i = 0; i <= numbers.size(); ++i)
        if (text_before(text_, numbers_, i) != text_before(text, numbers, i)) return false;
    const std::vector<bool> differed = differ_;
    for (std::size_t i = 0; i < numbers.size(); ++i)
        if (text_of(text, numbers[i]) != text_of(text_, numbers_[i])) differ_[i] = true;
    if (differ_ != differed) make_pieces();
    return true;
}

void RowShape::make_pieces() {
    pieces_.clear();
    fields_.clear();
    layouts_.clear();
    std::uint32_t begin = 0;
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
        if (!differ_[i]) continue;
        const RowNumber& number = numbers_[i];
        pieces_.push_back({begin, number.begin});
        const bool may_be_negative = number.key != RowKey::duration_ms;
        fields_.push_back({0, 0, integer_of(row_, number.key), decimal_of(row_, number.key), may_be_negative});
        begin = number.end;
    }
    pieces_.push_back({begin, static_cast<std::uint32_t>(text_.size())});
}

const Row* RowShape::read_by_number(const char* at) {
    const char* const row_begin = at;
    String name;
    String group;
    auto field = fields_.begin();
    for (const Piece& piece : pieces_) {
        const std::size_t size = piece.end - piece.begin;
        if (std::memcmp(at, text_.data() + piece.begin, size) != 0) return nullptr;
        const auto place = static_cast<std::uint32_t>(at - row_begin);
        if (name_.begin >= piece.begin && name_.begin < piece.end) name.begin = place + name_.begin - piece.begin;
        if (group_.begin >= piece.begin && group_.begin < piece.end) group.begin = place + group_.begin - piece.begin;
        at += size;
        if (field == fields_.end()) break;
        field->begin = static_cast<std::uint32_t>(at - row_begin);
        if (field->integer != nullptr) {
            at = json::read_integer(at, *field->integer);
        } else {
            at = field->decimal != nullptr ? json::read_double(at, *field->decimal) : json::skip_number(at);
        }
        if (at == nullptr) return nullptr;
        field->end = static_cast<std::uint32_t>(at - row_begin);
        ++field;
    }
    if (row_.type == RowType::span && row_.duration_ms < 0) return nullptr;
    const auto size = static_cast<std::size_t>(at - row_begin);
    learn_layout({row_begin, size}, name.begin, group.begin);
    return set_text(row_begin, size, name.begin, group.begin);
}

// Numbers of many forms make more layouts than are worth trying, and some have none.
void RowShape::learn_layout(std::string_view text, std::uint32_t name, std::uint32_t group) {
    constexpr std::uint32_t max_patience = 1024;
    constexpr std::uint32_t patience_when_full = 32;
    if (++unlaid_rows_ < patience_) return;
    unlaid_rows_ = 0;
    std::optional<RowLayout> layout = RowLayout::of(text, fields_);
    if (!layout) {
        patience_ = std::min(2 * patience_, max_patience);
        return;
    }
    KnownLayout known{std::move(*layout), name, group};
    if (layouts_.size() < max_layouts) {
        layouts_.push_back(std::move(known));
        patience_ = 1;
        return;
    }
    layouts_[next_layout_] = std::move(known);
    next_layout_ = (next_layout_ + 1) % max_layouts;
    patience_ = patience_when_full;
}

}  // namespace cep::tool
