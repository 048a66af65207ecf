// SPDX-License-Identifier: Apache-2.0
#include "read/row.hpp"

#include <simdjson.h>

#include <string>
#include <unordered_map>

#include "read/row_keys.hpp"

namespace cep::tool {
namespace {

namespace dom = simdjson::dom;

static_assert(RowParser::padding_bytes >= simdjson::SIMDJSON_PADDING);

bool read_int(const dom::element& value, std::int64_t& out) {
    return value.get_int64().get(out) == simdjson::SUCCESS;
}

bool read_double(const dom::element& value, double& out) {
    return value.get_double().get(out) == simdjson::SUCCESS;
}

bool read_string(const dom::element& value, std::string_view& out) {
    return value.get_string().get(out) == simdjson::SUCCESS;
}

template <typename T, typename Read>
bool read_optional(const dom::element& value, std::optional<T>& out, Read read) {
    T found{};
    const bool right = read(value, found);
    if (right) out = found;
    return right || value.is_null();
}

void read_count(const dom::object& object, std::string_view key, std::uint64_t& out) {
    std::uint64_t found = 0;
    if (object.at_key(key).get(found) == simdjson::SUCCESS) out = found;
}

RowType type_from_name(std::string_view name) {
    for (std::size_t i = 1; i < row_types; ++i)
        if (row_type_names[i] == name) return static_cast<RowType>(i);
    return RowType::unknown;
}

void read_listed_ranks(const dom::element& value, RunInfo& run) {
    dom::array array;
    if (value.get(array) != simdjson::SUCCESS) return;
    run.listed_ranks.emplace();
    for (const dom::element item : array) {
        std::int64_t rank = 0;
        if (read_int(item, rank)) run.listed_ranks->push_back(rank);
    }
}

bool read_member(const dom::element& value, std::int64_t& out) {
    return read_int(value, out);
}

bool read_member(const dom::element& value, std::optional<std::int64_t>& out) {
    return read_optional(value, out, read_int);
}

bool read_member(const dom::element& value, std::optional<double>& out) {
    return read_optional(value, out, read_double);
}

bool read_member(const dom::element& value, std::string& out) {
    std::string_view text;
    if (read_string(value, text)) out = text;
    return !text.empty() || value.is_string() || value.is_null();
}

// Returns false where the key is among these and the value has the wrong type.
template <typename Keys>
bool read_run_member(const Keys& keys, std::string_view key, const dom::element& value, RunInfo& run) {
    bool right = true;
    for_each_member(keys, [&](const auto& known) {
        if (known.key == key) right = read_member(value, run.*known.member);
    });
    return right;
}

void read_config(const dom::element& value, RunInfo& run) {
    dom::object config;
    if (value.get(config) != simdjson::SUCCESS) return;
    for (const auto& [key, item] : config) {
        read_run_member(config_keys, key, item, run);
        if (key == "ranks") read_listed_ranks(item, run);
    }
}

void read_stats(const dom::object& object, StatsRow& stats) {
    stats = {};
    std::int64_t attempt = 0;
    if (object.at_key("attempt").get(attempt) == simdjson::SUCCESS) stats.attempt = attempt;
    read_count(object, "open", stats.open);
    dom::object dropped;
    const bool has_dropped = object.at_key("dropped").get(dropped) == simdjson::SUCCESS;
    for (const CountKey& key : count_keys)
        if (key.cause.empty()) {
            read_count(object, key.key, stats.*key.member);
        } else if (has_dropped) {
            read_count(dropped, key.cause, stats.*key.member);
        }
    for_each_member(self_time_keys, [&](const auto& time) {
        double ms = 0;
        if (object.at_key(time.key).get(ms) == simdjson::SUCCESS) stats.*time.member = ms;
    });
}

std::string describe(simdjson::error_code error) {
    switch (error) {
        case simdjson::UTF8_ERROR:
            return "not valid UTF-8";
        case simdjson::UNCLOSED_STRING:
            return "not valid JSON: a string is not closed";
        case simdjson::UNESCAPED_CHARS:
            return "not valid JSON: a control character in a string";
        case simdjson::DEPTH_ERROR:
            return "not valid JSON: nested too deeply";
        case simdjson::NUMBER_ERROR:
            return "not valid JSON: a malformed or too large number";
        case simdjson::MEMALLOC:
        case simdjson::CAPACITY:
            return "too large to parse";
        default:
            return "not valid JSON";
    }
}

}  // namespace

class RowParser::Impl {
  public:
    const Row* parse(std::string_view text) {
        row_ = {};
        row_.text = text;
        kind_name_ = {};
        has_name_ = has_duration_ = has_value_ = false;
        wrong_ = {};
        dom::element document;
        const auto error = parser_.parse(text.data(), text.size(), false).get(document);
        if (error != simdjson::SUCCESS) return fail(describe(error));
        dom::object object;
        if (document.get(object) != simdjson::SUCCESS) return fail("not a JSON object");
        read_type(object);
        if (row_.type == RowType::run) run_ = {};
        if (row_.type == RowType::mark) stride_ = {};
        for (const auto& [key, value] : object)
            if (!read_key(key, value)) row_.odd_key = key;
        return complete(object) ? &row_ : nullptr;
    }
    [[nodiscard]] const std::string& why() const { return why_; }

  private:
    const Row* fail(std::string why) {
        why_ = std::move(why);
        return nullptr;
    }
    bool refuse(std::string why) {
        why_ = std::move(why);
        return false;
    }

    void read_type(const dom::object& object) {
        dom::element type;
        if (object.at_key("type").get(type) != simdjson::SUCCESS) return;
        std::string_view name;
        row_.type = read_string(type, name) ? type_from_name(name) : RowType::unknown;
    }

    // Returns false where an optional key has a value of another type. The names of keys that every row needs are
    // kept in wrong_ instead.
    bool read_key(std::string_view key, const dom::element& value) {
        if (key == "name") return need(has_name_ = read_string(value, row_.name), "name is not a string");
        const bool is_span = row_.type == RowType::span || row_.type == RowType::open;
        if (const IntegerKey* const known = find_integer_key(key); known != nullptr && (known->of_every_row || is_span))
            return read_integer(*known, value);
        if (row_.type == RowType::run) return read_run_key(key, value);
        if (is_span) return read_span_key(key, value);
        if (row_.type == RowType::mark) return read_mark_key(key, value);
        if (key == "value" && row_.type == RowType::counter) has_value_ = read_double(value, row_.value);
        return true;
    }

    static const IntegerKey* find_integer_key(std::string_view key) {
        for (const IntegerKey& known : integer_keys)
            if (known.key == key) return &known;
        return nullptr;
    }

    bool read_integer(const IntegerKey& key, const dom::element& value) {
        const bool right = read_member(value, row_.*key.member);
        if (key.key == "step") return need(right, "step is not an integer");
        return key.key == "rank" ? need(right, "rank is not an integer") : right;
    }

    bool read_run_key(std::string_view key, const dom::element& value) {
        if (key == "config") read_config(value, run_);
        return read_run_member(run_keys, key, value, run_);
    }

    bool read_span_key(std::string_view key, const dom::element& value) {
        if (key == "duration_ms")
            return need(has_duration_ = read_double(value, row_.duration_ms), "duration_ms is not a number");
        if (key == "elapsed_ms") return read_double(value, row_.elapsed_ms);
        if (key == "lag_ms") return read_member(value, row_.lag_ms);
        if (key == "group") return read_string(value, row_.group) || value.is_null();
        if (key == "kind") return read_string(value, kind_name_) || value.is_null();
        if (key != "clock") return true;
        std::string_view clock;
        const bool right = read_string(value, clock);
        row_.clock = clock_from_name(clock);
        return right || value.is_null();
    }

    // A trainer's mark has none of these.
    bool read_mark_key(std::string_view key, const dom::element& value) {
        if (key == "from") return read_int(value, stride_.from);
        if (key == "to") return read_int(value, stride_.to);
        return key != "max_overhead_percent" || read_double(value, stride_.max_percent);
    }

    bool need(bool right, std::string_view wrong) {
        if (!right && wrong_.empty()) wrong_ = wrong;
        return true;
    }

    bool complete(const dom::object& object) {
        if (row_.type == RowType::unknown) return true;
        if (!wrong_.empty()) return refuse(std::string(wrong_));
        if (!row_.rank) return refuse("no rank");
        if (row_.duration_ms < 0) return refuse("duration_ms is negative");
        if (const std::string_view key = limits::find_excess(row_); !key.empty()) return refuse_excess(key);
        if (row_.type == RowType::run) return complete_run();
        if (row_.type == RowType::stats) return complete_stats(object);
        if (!row_.step) return refuse("no step");
        if (!has_name_) return refuse("no name");
        if (row_.type == RowType::counter && !has_value_) return refuse("value is not a number");
        if (row_.type == RowType::span && !has_duration_) return refuse("no duration_ms");
        if (row_.type == RowType::mark) complete_mark();
        if (row_.type == RowType::span || row_.type == RowType::open)
            row_.kind = kind_name_.empty() ? infer_kind() : schema::kind_from_name(kind_name_);
        return true;
    }

    bool refuse_excess(std::string_view key) { return refuse(std::string(key) + " is out of range"); }

    bool complete_run() {
        if (const std::string_view key = limits::find_excess(run_); !key.empty()) return refuse_excess(key);
        run_.rank = *row_.rank;
        row_.run = &run_;
        return true;
    }

    bool complete_stats(const dom::object& object) {
        read_stats(object, stats_);
        row_.stats = &stats_;
        return true;
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
    bool has_duration_ = false;
    bool has_value_ = false;
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
