// SPDX-License-Identifier: Apache-2.0
//
// Fields of a record: key, heading, unit, meaning and value stand once, and tables, CSV and JSON follow from them.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/text.hpp"
#include "show/json_writer.hpp"
#include "show/table.hpp"

namespace cep::tool {

/// What a record has, as a value: monostate of an optional without one.
template <typename Found>
[[nodiscard]] Value value_of(const Found& found) {
    if constexpr (requires { found.has_value(); }) {
        return found ? value_of(*found) : Value();
    } else if constexpr (std::is_floating_point_v<Found>) {
        return double{found};
    } else if constexpr (std::is_integral_v<Found> && !std::is_same_v<Found, bool>) {
        return std::conditional_t<std::is_signed_v<Found>, std::int64_t, std::uint64_t>{found};
    } else if constexpr (std::is_convertible_v<Found, std::string_view>) {
        return std::string(std::string_view(found));
    } else {
        return found;
    }
}

/// The number that a value is.
[[nodiscard]] double to_double(const Value& value);

/// Without one that a field says: "-" of nothing and of "", "1,234" of a count, "1234" of another whole number, the
/// text itself of a text.
[[nodiscard]] std::string describe_value(const Value& value);
/// "12.3 %" of 0.1234.
[[nodiscard]] std::string describe_percent(double fraction);

/// "ms" of "p50_ms": each key of a time, a size or a rate ends with its unit.
[[nodiscard]] std::string unit_of_key(std::string_view key);

/// Where values of that type stand in a column: numbers on the right.
template <typename Found>
constexpr Align align_of() {
    if constexpr (requires(Found found) { found.has_value(); })
        return align_of<typename Found::value_type>();
    else
        return std::is_same_v<Found, Value> || (std::is_arithmetic_v<Found> && !std::is_same_v<Found, bool>)
                   ? Align::right
                   : Align::left;
}

template <typename Record>
struct Field {
    Column column;
    std::function<Value(const Record&)> value{};                     // of a column
    std::function<std::string(const Record&, const Value&)> text{};  // for people; else describe_value()
    bool has_words_for_none = false;                                 // else "-" where the value is not known
    std::function<void(JsonWriter&, const Record&)> member{};  // of JSON, in place of the value: a list, an object

    /// `get`: a member, or a function of the record.
    template <typename Get>
    Field(std::string_view key, std::string_view heading, std::string_view meaning, Get get)
        : column{std::string(key), std::string(heading),
                 align_of<std::decay_t<std::invoke_result_t<Get, const Record&>>>(), unit_of_key(key),
                 std::string(meaning)},
          value([get](const Record& record) { return value_of(std::invoke(get, record)); }) {
        // Words that only people see are shown as they are.
        if (key.empty()) text = [](const Record&, const Value& words) { return std::get<std::string>(words); };
    }
    /// `describe`: a function of the number, of the record, or of the record and the number; or of the record and a
    /// value, which may be none.
    template <typename Get, typename Describe>
    Field(std::string_view key, std::string_view heading, std::string_view meaning, Get get, Describe describe)
        : Field(key, heading, meaning, std::move(get)) {
        has_words_for_none = std::is_invocable_v<Describe, const Record&, const Value&>;
        text = [describe](const Record& record, const Value& found) -> std::string {
            if constexpr (std::is_invocable_v<Describe, const Record&, const Value&>)
                return std::invoke(describe, record, found);
            else if constexpr (std::is_invocable_v<Describe, const Record&, double>)
                return std::invoke(describe, record, to_double(found));
            else if constexpr (std::is_invocable_v<Describe, double>)
                return std::invoke(describe, to_double(found));
            else
                return std::invoke(describe, record);
        };
    }

    /// A member of JSON that is no column. `write` writes its value.
    template <std::invocable<JsonWriter&, const Record&> Write>
    Field(std::string_view key, Write write) : member(std::move(write)) {
        column.key = key;
    }

    /// JSON has what `write` writes, such as the list that tables count.
    template <std::invocable<JsonWriter&, const Record&> Write>
    Field in_json(Write write) && {
        return member = std::move(write), std::move(*this);
    }
    /// Left out on a terminal without room, the highest number first.
    Field detail(int order) && { return column.detail = order, std::move(*this); }
    Field left() && { return column.align = Align::left, std::move(*this); }
    Field right() && { return column.align = Align::right, std::move(*this); }
};

template <typename Record>
using Fields = std::vector<Field<Record>>;

/// Adds the fields of a record inside of the outer one. `get`: a member that is such a record, or a pointer to one or
/// an optional, of which nothing is shown where it has none. Keys get a prefix.
template <typename Outer, typename Record, typename Get>
void add_within(Fields<Outer>& fields, const Fields<Record>& inner, Get get, std::string_view prefix = {}) {
    const auto find = [get](const Outer& outer) -> const Record* {
        const auto& found = std::invoke(get, outer);
        if constexpr (std::is_same_v<std::decay_t<decltype(found)>, Record>)
            return &found;
        else
            return found ? &*found : nullptr;
    };
    for (const auto& [column, value, text, has_words_for_none, member] : inner) {
        if (!value) continue;
        Field<Outer>& field = fields.emplace_back("", "", "", [find, value = value](const Outer& outer) {
            const Record* const record = find(outer);
            return record != nullptr ? value(*record) : Value();
        });
        field.column = column;
        if (!column.key.empty()) field.column.key.insert(0, prefix);
        field.text = nullptr;
        if (text)
            field.text = [find, text = text](const Outer& outer, const Value& shown) {
                return text(*find(outer), shown);
            };
    }
}

/// Those of the fields that are columns of a table, in its order: keys with spaces between them. "-key": for programs
/// only; "+key": for people only. "key:2": see Column::detail.
template <typename Record>
[[nodiscard]] Fields<Record> choose(const Fields<Record>& all, std::string_view columns) {
    Fields<Record> chosen;
    for (std::string_view key : split(columns, ' ')) {
        const bool is_for_programs = key.starts_with('-');
        const bool is_for_people = key.starts_with('+');
        const std::size_t end = std::min(key.find(':'), key.size());
        const int detail = parse_number<int>(key.substr(std::min(end + 1, key.size()))).value_or(0);
        key = key.substr(0, end).substr(is_for_programs || is_for_people);
        for (const Field<Record>& field : all) {
            if (field.column.key != key) continue;
            Column& column = chosen.emplace_back(field).column;
            if (is_for_programs) column.heading.clear();
            if (is_for_people) column.key.clear();
            column.detail = detail;
        }
    }
    return chosen;
}

template <typename Record>
[[nodiscard]] std::vector<Column> columns_of(const Fields<Record>& fields) {
    std::vector<Column> columns;
    for (const Field<Record>& field : fields)
        if (field.value) columns.push_back(field.column);
    return columns;
}

template <typename Record>
[[nodiscard]] std::vector<Cell> cells_of(const Fields<Record>& fields, const Record& record) {
    std::vector<Cell> cells;
    for (const Field<Record>& field : fields) {
        if (!field.value) continue;
        const Value value = field.value(record);
        const bool has_text =
            field.text && (field.has_words_for_none || !std::holds_alternative<std::monostate>(value));
        cells.push_back({value, has_text ? field.text(record, value) : describe_value(value)});
    }
    return cells;
}

/// A line for each record.
template <typename Record, typename Records>
[[nodiscard]] Table table_of(const Fields<Record>& fields, const Records& records, std::string title = {}) {
    Table table(columns_of(fields), std::move(title));
    for (const Record& record : records) table.add(cells_of(fields, record));
    return table;
}

/// The members of the open object: those that have a key.
template <typename Record>
void write_fields(JsonWriter& json, const Fields<Record>& fields, const Record& record) {
    for (const Field<Record>& field : fields) {
        if (field.column.key.empty()) continue;
        json.key(field.column.key);
        if (field.member) {
            field.member(json, record);
            continue;
        }
        std::visit(
            [&json](const auto& value) {
                if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>)
                    json.null();
                else
                    json.value(value);
            },
            field.value(record));
    }
}

/// A member with a list of records.
template <typename Record, typename Records>
void write_records(JsonWriter& json, std::string_view name, const Fields<Record>& fields, const Records& records) {
    json.objects(name, records, [&](const Record& record) { write_fields(json, fields, record); });
}

}  // namespace cep::tool
