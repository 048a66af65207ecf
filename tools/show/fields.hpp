// SPDX-License-Identifier: Apache-2.0
//
// Fields of a record: key, heading, unit, meaning and value stand once, and tables and JSON follow from them.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "show/json_writer.hpp"
#include "show/table.hpp"

namespace cep::tool {

template <typename Record>
struct Field {
    Column column;
    std::function<Value(const Record&)> value;
    std::function<std::string(const Record&, const Value&)> text{};  // for people; default: as describe_value() says

    /// The same field of a record that has such a record in it.
    template <typename Outer>
    [[nodiscard]] Field<Outer> within(Record Outer::*inner) const {
        Field<Outer> outer{column, [value = value, inner](const Outer& one) { return value(one.*inner); }};
        if (text)
            outer.text = [text = text, inner](const Outer& one, const Value& found) { return text(one.*inner, found); };
        return outer;
    }
};

template <typename Record>
using Fields = std::vector<Field<Record>>;

/// Nothing where the number is not known.
template <typename Number>
[[nodiscard]] Value value_or_none(const Number& number) {
    return number ? Value(*number) : Value();
}

/// "-" of nothing and of "", "1,234" of a count, "1234" of another whole number, the text itself of a text.
[[nodiscard]] std::string describe_value(const Value& value);

template <typename Record>
[[nodiscard]] std::vector<Column> columns_of(const Fields<Record>& fields) {
    std::vector<Column> columns;
    for (const Field<Record>& field : fields) columns.push_back(field.column);
    return columns;
}

template <typename Record>
[[nodiscard]] std::vector<Cell> cells_of(const Fields<Record>& fields, const Record& record) {
    std::vector<Cell> cells;
    for (const Field<Record>& field : fields) {
        const Value value = field.value(record);
        const bool is_known = !std::holds_alternative<std::monostate>(value);
        const bool has_text = field.text && (is_known || field.column.key.empty());
        cells.push_back({value, has_text ? field.text(record, value) : describe_value(value)});
    }
    return cells;
}

/// The members of the open object: those that have a key.
template <typename Record>
void write_fields(JsonWriter& json, const Fields<Record>& fields, const Record& record) {
    for (const Field<Record>& field : fields) {
        if (field.column.key.empty()) continue;
        json.key(field.column.key);
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

}  // namespace cep::tool
