// SPDX-License-Identifier: Apache-2.0
#include "read/row.hpp"

#include <simdjson.h>

#include <type_traits>
#include <unordered_map>

#include "read/row_keys.hpp"

namespace cep::tool {
namespace {

namespace dom = simdjson::dom;

static_assert(RowParser::padding_bytes >= simdjson::SIMDJSON_PADDING);

// Each returns whether the value has the right type, and leaves `out` as it is where it has not.

template <typename Value>
bool read(const dom::element& value, Value& out) {
    Value found{};
    const bool right = value.get(found) == simdjson::SUCCESS;
    if (right) out = found;
    return right;
}

template <typename Value>
bool read(const dom::element& value, std::optional<Value>& out) {
    Value found{};
    const bool right = read(value, found);
    if (right) out = found;
    return right || value.is_null();
}

bool read(const dom::element& value, std::string& out) {
    std::string_view text;
    const bool right = read(value, text);
    if (right) out = text;
    return right || value.is_null();
}

/// False too where there is no such key.
template <typename Value>
bool look_up(const dom::object& object, std::string_view key, Value& out) {
    dom::element value;
    return object.at_key(key).get(value) == simdjson::SUCCESS && read(value, out);
}

RowType type_from_name(std::string_view name) {
    for (std::size_t i = 1; i < row_types; ++i)
        if (row_type_names[i] == name) return static_cast<RowType>(i);
    return RowType::unknown;
}

void read_listed_ranks(const dom::element& value, RunInfo& run) {
    dom::array array;
    if (!read(value, array)) return;
    run.listed_ranks.emplace();
    for (const dom::element item : array) {
        std::int64_t rank = 0;
        if (read(item, rank)) run.listed_ranks->push_back(rank);
    }
}

// Returns false where the key is among these and the value has the wrong type.
template <typename Keys>
bool read_run_member(const Keys& keys, std::string_view key, const dom::element& value, RunInfo& run) {
    bool right = true;
    find_member(keys, [&](const auto& known) {
        const bool is_this = known.key == key;
        if (is_this) right = read(value, run.*known.member);
        return is_this;
    });
    return right;
}

void read_config(const dom::element& value, RunInfo& run) {
    dom::object config;
    if (!read(value, config)) return;
    for (const auto& [key, item] : config) {
        read_run_member(config_keys, key, item, run);
        if (key == "ranks") read_listed_ranks(item, run);
    }
}

std::string text_of(const dom::element& value) {
    std::string_view text;
    return value.get(text) == simdjson::SUCCESS ? std::string(text) : simdjson::minify(value);
}

void read_settings(const dom::element& meta, RunInfo& run) {
    constexpr std::size_t most_bytes = 8192;
    dom::object settings;
    if (meta["settings"].get(settings) != simdjson::SUCCESS) return;
    for (const auto& [key, value] : settings) {
        if (value.is_object() || value.is_array()) continue;
        const std::string line = std::string(key) + "=" + text_of(value);
        if (line.find('\n') != std::string::npos || key.find('=') != std::string_view::npos) continue;
        if (run.settings.size() + line.size() < most_bytes) run.settings += line + "\n";
    }
}

void read_stats(const dom::object& object, StatsRow& stats) {
    stats = {};
    look_up(object, "attempt", stats.attempt);
    look_up(object, "open", stats.open);
    dom::object dropped;
    const bool has_dropped = look_up(object, "dropped", dropped);
    for (const CountKey& key : count_keys)
        if (key.cause.empty()) {
            look_up(object, key.key, stats.*key.member);
        } else if (has_dropped) {
            look_up(dropped, key.cause, stats.*key.member);
        }
    for_each_member(self_time_keys, [&](const auto& time) { look_up(object, time.key, stats.*time.member); });
}

/// The key of the first number that is out of its limits; "" for none.
template <typename Keys, typename Values>
std::string_view find_excess(const Keys& keys, const Values& values) {
    std::string_view excess;
    for_each_member(keys, [&](const auto& key) {
        if constexpr (requires { key.least; })
            if (excess.empty() && !key.allows(values.*key.member)) excess = key.key;
    });
    return excess;
}

std::string describe(simdjson::error_code error) {
    if (error == simdjson::UTF8_ERROR) return "not valid UTF-8";
    if (error == simdjson::UNCLOSED_STRING) return "not valid JSON: a string is not closed";
    if (error == simdjson::UNESCAPED_CHARS) return "not valid JSON: a control character in a string";
    if (error == simdjson::DEPTH_ERROR) return "not valid JSON: nested too deeply";
    if (error == simdjson::NUMBER_ERROR) return "not valid JSON: a malformed or too large number";
    return error == simdjson::MEMALLOC || error == simdjson::CAPACITY ? "too large to parse" : "not valid JSON";
}

}  // namespace

class RowParser::Impl {
  public:
    const Row* parse(std::string_view text) {
        row_ = {};
        row_.text = text;
        kind_name_ = {};
        has_name_ = has_number_ = false;
        wrong_ = {};
        dom::element document;
        const auto error = parser_.parse(text.data(), text.size(), false).get(document);
        if (error != simdjson::SUCCESS) return fail(describe(error));
        dom::object object;
        if (!read(document, object)) return fail("not a JSON object");
        read_type(object);
        if (row_.type == RowType::run) run_ = {};
        if (row_.type == RowType::mark) stride_ = {};
        for (const auto& [key, value] : object)
            if (!read_key(key, value)) row_.odd_key = key;
        return complete(object);
    }
    [[nodiscard]] const std::string& why() const { return why_; }

  private:
    const Row* fail(std::string why) {
        why_ = std::move(why);
        return nullptr;
    }

    void read_type(const dom::object& object) {
        dom::element type;
        if (object.at_key("type").get(type) != simdjson::SUCCESS) return;
        std::string_view name;
        row_.type = read(type, name) ? type_from_name(name) : RowType::unknown;
    }

    // Returns false where an optional key has a value of another type. The names of keys that every row needs are
    // kept in wrong_ instead.
    bool read_key(std::string_view key, const dom::element& value) {
        if (key == "type") return true;  // read_type() took it
        if (key == "name") return need(has_name_ = read(value, row_.name), "name is not a string");
        if (const auto right = read_number(key, value)) return *right;
        if (row_.type == RowType::run) return read_run_key(key, value);
        if (is_span(row_.type)) return read_span_key(key, value);
        return row_.type != RowType::mark || read_mark_key(key, value);
    }

    /// Nothing if rows of this type have no such number.
    std::optional<bool> read_number(std::string_view key, const dom::element& value) {
        std::optional<bool> right;
        find_member(row_keys, [&](const auto& known) {
            if (known.key != key || !known.is_in(row_.type)) return false;
            right = read(value, row_.*known.member);
            if constexpr (std::is_same_v<decltype(row_.*known.member), double&>)
                if (!known.wrong.empty()) has_number_ = *right;
            if (!known.wrong.empty()) right = need(*right, known.wrong);
            return true;
        });
        return right;
    }

    bool read_run_key(std::string_view key, const dom::element& value) {
        if (key == "config") read_config(value, run_);
        if (key == "meta") read_settings(value, run_);
        return read_run_member(run_keys, key, value, run_);
    }

    bool read_span_key(std::string_view key, const dom::element& value) {
        if (key == "group") return read(value, row_.group) || value.is_null();
        if (key == "kind") return read(value, kind_name_) || value.is_null();
        std::string_view text;
        if (key == "error") row_.is_unfinished = read(value, text) && text == "NotFinished";
        if (key != "clock") return true;
        const bool right = read(value, text);
        row_.clock = clock_from_name(text);
        return right || value.is_null();
    }

    // A trainer's mark has none of these.
    bool read_mark_key(std::string_view key, const dom::element& value) {
        if (key == "from") return read(value, stride_.from);
        if (key == "to") return read(value, stride_.to);
        return key != "max_overhead_percent" || read(value, stride_.max_percent);
    }

    bool need(bool right, std::string_view wrong) {
        if (!right && wrong_.empty()) wrong_ = wrong;
        return true;
    }

    const Row* complete(const dom::object& object) {
        if (row_.type == RowType::unknown) return &row_;
        if (!wrong_.empty()) return fail(std::string(wrong_));
        if (!row_.rank) return fail("no rank");
        if (row_.duration_ms < 0) return fail("duration_ms is negative");
        if (const std::string_view key = find_excess(row_keys, row_); !key.empty()) return refuse_excess(key);
        if (row_.type == RowType::run) return complete_run();
        if (row_.type == RowType::stats) {
            read_stats(object, stats_);
            row_.stats = &stats_;
            return &row_;
        }
        if (!row_.step) return fail("no step");
        if (!has_name_) return fail("no name");
        if (row_.type == RowType::counter && !has_number_) return fail("value is not a number");
        if (row_.type == RowType::span && !has_number_) return fail("no duration_ms");
        if (row_.type == RowType::mark) complete_mark();
        if (is_span(row_.type)) row_.kind = kind_name_.empty() ? infer_kind() : schema::kind_from_name(kind_name_);
        return &row_;
    }

    const Row* refuse_excess(std::string_view key) { return fail(std::string(key) + " is out of range"); }

    const Row* complete_run() {
        const std::string_view key = find_excess(std::tuple_cat(run_keys, config_keys), run_);
        if (!key.empty()) return refuse_excess(key);
        run_.rank = *row_.rank;
        row_.run = &run_;
        return &row_;
    }

    void complete_mark() {
        stride_.longest = std::max(stride_.from, stride_.to);
        if (row_.name != schema::stride_mark || !limits::is_stride_change(stride_)) return;
        stride_.first_step = stride_.step = *row_.step;
        row_.stride = &stride_;
    }

    schema::Kind infer_kind() {
        constexpr std::size_t max_names = 1024;
        name_ = row_.name;
        if (const auto found = kinds_.find(name_); found != kinds_.end()) return found->second;
        if (kinds_.size() == max_names) kinds_.clear();
        return kinds_.emplace(name_, schema::infer_kind(name_)).first->second;
    }

    dom::parser parser_;
    std::unordered_map<std::string, schema::Kind> kinds_;  // of names: a job has few, and many rows
    std::string name_;                                     // reused to save an allocation
    Row row_;
    RunInfo run_;
    StatsRow stats_;
    StrideChange stride_;
    std::string_view kind_name_;
    std::string_view wrong_;
    std::string why_;
    bool has_name_ = false;
    bool has_number_ = false;  // a span its duration, a counter its value
};

RowParser::RowParser() : impl_(std::make_unique<Impl>()) {}
RowParser::~RowParser() = default;
const Row* RowParser::parse(std::string_view text) {
    return impl_->parse(text);
}
const std::string& RowParser::why() const {
    return impl_->why();
}

}  // namespace cep::tool
