// SPDX-License-Identifier: Apache-2.0
#include "read/row_pattern.hpp"

#include <simdjson.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "read/row_keys.hpp"

namespace cep::tool {
namespace {

namespace ondemand = simdjson::ondemand;

std::string_view text_of(std::string_view row, const RowNumber& number) {
    return row.substr(number.begin, number.end - number.begin);
}

// These differ in all rows, and so does what has a decimal point.
bool always_differs(std::string_view key, std::string_view number) {
    return key == "step" || key == "start_ns" || number.find('.') != std::string_view::npos;
}

// Limits below zero mirror those above it, or do not matter: digits without a sign are never below zero.
RowField field_of(Row& row, const RowNumber& number) {
    RowField field{number.begin, number.end, nullptr, nullptr, true};
    for_each_member(row_keys, [&](const auto& key) {
        if (key.key != number.key || !key.is_in(row.type)) return;
        auto& value = row.*key.member;
        field.max = static_cast<double>(key.most);
        if constexpr (std::is_same_v<decltype(value), double&>) {
            field.decimal = &value;
            field.may_be_negative = key.least < 0;
        } else if constexpr (std::is_same_v<decltype(value), std::optional<double>&>) {
            if (value) field.decimal = &*value;
        } else if (value) {
            field.integer = &*value;
        }
    });
    return field;
}

// A second parser needs much memory for a long row.
constexpr std::size_t max_searched_bytes = std::size_t{64} << 10;

bool may_have_places(const Row& row) {
    if (row.text.size() > max_searched_bytes) return false;
    if (row.type == RowType::mark && row.name == schema::stride_mark) return false;  // its strides have no place
    const bool has_numbers = row.type == RowType::span || row.type == RowType::counter || row.type == RowType::mark ||
                             row.type == RowType::open;
    return has_numbers && row.odd_key.empty() && row.text.starts_with('{') && row.text.ends_with('}') &&
           row.text.find('\\') == std::string_view::npos;
}

}  // namespace

struct PlaceFinder::Parser : ondemand::parser {};

PlaceFinder::PlaceFinder() : parser_(std::make_unique<Parser>()) {}
PlaceFinder::~PlaceFinder() = default;

std::optional<RowPlaces> PlaceFinder::find(const Row& row) {
    if (!may_have_places(row)) return std::nullopt;
    const std::string_view text = row.text;
    RowPlaces places;
    std::vector<std::string_view> keys;
    ondemand::document document;
    ondemand::object object;
    const simdjson::padded_string_view padded(text.data(), text.size(), text.size() + simdjson::SIMDJSON_PADDING);
    if (parser_->iterate(padded).get(document) != simdjson::SUCCESS) return std::nullopt;
    if (document.get_object().get(object) != simdjson::SUCCESS) return std::nullopt;
    for (auto item : object) {
        ondemand::field field;
        if (std::move(item).get(field) != simdjson::SUCCESS) return std::nullopt;
        const auto key_begin = static_cast<std::size_t>(field.key().raw() - text.data());
        const std::string_view key = text.substr(key_begin, text.find('"', key_begin) - key_begin);
        if (std::find(keys.begin(), keys.end(), key) != keys.end()) return std::nullopt;
        keys.push_back(key);
        const auto begin = static_cast<std::size_t>(field.value().raw_json_token().data() - text.data());
        if (key == "name") places.name = text.substr(begin + 1, row.name.size());
        if (key == "group" && text[begin] == '"') places.group = text.substr(begin + 1, row.group.size());
        const std::size_t end = std::min(text.find_first_not_of("0123456789+-.eE", begin), text.size());
        if (end == begin || text[begin] == 'e') continue;
        const std::string_view number = text.substr(begin, end - begin);
        places.numbers.push_back({std::string(key), static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end),
                                  always_differs(key, number)});
    }
    return places;
}

RowPattern::RowPattern(const Row& row, const RowPlaces& places) : row_(row), text_(row.text), numbers_(places.numbers) {
    if (!row.name.empty()) name_ = static_cast<std::size_t>(places.name.data() - row.text.data());
    if (!row.group.empty()) group_ = static_cast<std::size_t>(places.group.data() - row.text.data());
}

std::unique_ptr<RowPattern> RowPattern::of(const Row& row, const RowPlaces& places) {
    if (row.text.size() > max_bytes) return nullptr;
    std::unique_ptr<RowPattern> pattern(new RowPattern(row, places));
    return pattern->make_layout() ? std::move(pattern) : nullptr;
}

bool RowPattern::make_layout() {
    std::vector<RowField> fields;
    for (const RowNumber& number : numbers_)
        if (number.differs) fields.push_back(field_of(row_, number));
    std::optional<RowLayout> layout = RowLayout::of(text_, fields);
    if (layout) layout_ = std::move(layout);
    return layout_.has_value();
}

bool RowPattern::include(std::string_view text, const RowPlaces& places) {
    if (text.size() != text_.size() || places.numbers != numbers_) return false;
    std::size_t begin = 0;
    for (std::size_t i = 0; i <= numbers_.size(); ++i) {
        const std::size_t end = i < numbers_.size() ? numbers_[i].begin : text.size();
        if (text.substr(begin, end - begin) != std::string_view(text_).substr(begin, end - begin)) return false;
        if (i < numbers_.size()) begin = numbers_[i].end;
    }
    for (RowNumber& number : numbers_) number.differs |= text_of(text, number) != text_of(text_, number);
    text_ = text;
    return make_layout();
}

}  // namespace cep::tool
