// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>

#include <fmt/format.h>

#include "model/partial.hpp"
#include "model/partial_keys.hpp"
#include "read/row_keys.hpp"
#include "show/json_writer.hpp"

namespace cep::tool {
namespace {

// Keeps a line below a megabyte.
constexpr std::size_t values_per_line = 8192;

/// One JSON object on one line.
class LineObject {
  public:
    LineObject(std::string& out, std::string_view type) : out_(out) {
        out_ += "{\"type\":";
        append(type);
    }
    LineObject(const LineObject&) = delete;
    LineObject& operator=(const LineObject&) = delete;
    ~LineObject() { out_ += "}\n"; }

    /// An optional without a value is left out.
    template <typename Value>
    LineObject& member(std::string_view key, const Value& value) {
        if constexpr (is_optional<Value>) {
            return value ? member(key, *value) : *this;
        } else {
            append_key(key);
            append(value);
            return *this;
        }
    }
    template <typename Members, typename Struct>
    LineObject& members(const Members& members, const Struct& of) {
        for_each_member(members, [&](const auto& each) { member(each.key, of.*each.member); });
        return *this;
    }
    /// `get(i)` for each i from `first` to before `last`.
    template <typename Get>
    LineObject& list(std::string_view key, std::size_t first, std::size_t last, Get get) {
        append_key(key);
        out_ += '[';
        for (std::size_t i = first; i < last; ++i) {
            if (i > first) out_ += ',';
            append(get(i));
        }
        out_ += ']';
        return *this;
    }

  private:
    template <typename Value>
    static constexpr bool is_optional = requires(const Value& value) {
        value.has_value();
    };

    void append_key(std::string_view key) {
        out_ += ',';
        append(key);
        out_ += ':';
    }
    template <typename Value>
    void append(const Value& value) {
        if constexpr (is_optional<Value>) {
            value ? append(*value) : append_text("null");
        } else if constexpr (std::is_same_v<Value, bool>) {
            append_text(value ? "true" : "false");
        } else if constexpr (std::is_arithmetic_v<Value>) {
            fmt::format_to(std::back_inserter(out_), "{}", value);
        } else if constexpr (std::is_same_v<Value, schema::Kind>) {
            append(schema::kind_name(value));
        } else if constexpr (std::is_same_v<Value, Clock>) {
            append(clock_names[static_cast<std::size_t>(value)]);
        } else if constexpr (std::is_same_v<Value, NumberRanges>) {
            append_ranges(value);
        } else {
            append_json_string(out_, value);
        }
    }
    void append_text(std::string_view text) { out_ += text; }
    /// As [first, last] for each range.
    void append_ranges(const NumberRanges& numbers) {
        out_ += '[';
        for (const auto& [first, last] : numbers.ranges())
            fmt::format_to(std::back_inserter(out_), "{}[{},{}]", out_.back() == '[' ? "" : ",", first, last);
        out_ += ']';
    }

    std::string& out_;
};

// Where all durations are samples, or all are in histograms, the first version says everything.
void append_header(std::string& out, const PartialScope& scope, StepChoice choice) {
    const bool is_thinned = !choice.keeps_all() && !choice.keeps_none();
    LineObject line(out, "partial");
    line.member("schema", is_thinned ? "cep.partial/2" : "cep.partial/1");
    if (is_thinned) line.member("halvings", choice.halvings());
    line.member("steps", scope.filter.steps());
    line.member("ranks", scope.filter.ranks());
    line.member("phases", scope.filter.phases());
    line.member("attempt", scope.attempt);
}

void append_inputs(std::string& out, const InputCounts& inputs) {
    LineObject(out, "inputs").members(input_keys, inputs);
    for (const LocatedDamage& damage : inputs.shown) LineObject(out, "damage").members(damage_keys, damage);
    std::vector<std::string> unreadable = inputs.unreadable;
    std::sort(unreadable.begin(), unreadable.end());
    for (const std::string& why : unreadable) LineObject(out, "unreadable").member("why", why);
}

void append_histogram(std::string& out, const LogHistogram& histogram, const Totals& totals) {
    const LogHistogram::Buckets buckets = histogram.buckets();
    LineObject line(out, "histogram");
    line.member("relative_error", LogHistogram::relative_error);
    line.member("first_bucket", buckets.first);
    line.member("zeros", buckets.zeros);
    line.list("counts", 0, buckets.counts.size(), [&](std::size_t i) { return buckets.counts[i]; });
    line.members(total_keys, totals);
}

/// Nothing for what the row did not say.
template <typename Value>
Value said(Value value) {
    return value;
}
std::optional<std::int64_t> said(std::int64_t start_ns) {
    return start_ns == Sample::no_start ? std::nullopt : std::optional(start_ns);
}
std::optional<float> said(float lag_ms) {
    return std::isnan(lag_ms) ? std::nullopt : std::optional(lag_ms);
}

void append_phase(std::string& out, const PhaseSeries& phase) {
    LineObject(out, "phase").members(phase_keys, phase);
    const SampleList& samples = phase.samples;
    for (std::size_t first = 0; first < samples.size(); first += values_per_line) {
        const std::size_t last = std::min(first + values_per_line, samples.size());
        LineObject line(out, "samples");
        for_each_member(sample_keys, [&](const auto& column) {
            line.list(column.key, first, last, [&](std::size_t i) { return said(samples[i].*column.member); });
        });
    }
    if (phase.in_histogram.count > 0) append_histogram(out, phase.histogram, phase.in_histogram);
}

/// Writes text and keeps what the last line says of it.
class CheckedOutput {
  public:
    explicit CheckedOutput(Output& output) : output_(output) {}
    void write(const std::string& text) {
        lines_ += static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
        crc_ = ::crc32_z(crc_, reinterpret_cast<const Bytef*>(text.data()), text.size());
        output_.write(text);
    }
    void finish() {
        std::string text;
        LineObject(text, "end").member("lines", lines_).member("crc32", fmt::format("{:08x}", crc_));
        output_.write(text);
    }

  private:
    Output& output_;
    std::uint64_t lines_ = 0;
    unsigned long crc_ = 0;
};

}  // namespace

std::string series_text(std::int64_t rank, const RunSeries& series) {
    std::string text;
    LineObject(text, "series").member("rank", rank);
    if (series.has_run) LineObject(text, "series_run").members(run_keys, series.run).members(config_keys, series.run);
    if (series.has_stats)
        LineObject(text, "series_stats")
            .member("attempt", series.stats.attempt)
            .members(count_keys, series.stats)
            .member("open", series.stats.open)
            .members(self_time_keys, series.stats);
    if (series.stride) LineObject(text, "series_stride").members(stride_keys, *series.stride);
    for (const CounterSeries& counter : series.counters)
        LineObject(text, "series_counter").members(counter_keys, counter);
    const StepNumbers& steps = series.steps;
    for (std::size_t first = 0; first < steps.size(); first += values_per_line)
        LineObject(text, "steps")
            .list("steps", first, std::min(first + values_per_line, steps.size()),
                  [&](std::size_t i) { return steps[i]; });
    for (const PhaseSeries& phase : series.phases) append_phase(text, phase);
    return text;
}

void write_partial(Output& output, const PartialSummary& partial) {
    CheckedOutput checked(output);
    std::string head;
    append_header(head, partial.scope, partial.parts.choice);
    append_inputs(head, partial.inputs);
    LineObject(head, "coverage").members(coverage_keys, partial.parts.coverage);
    checked.write(head);
    for (const auto& [rank, all_series] : partial.parts.ranks)
        for (const RunSeries& series : all_series) checked.write(series_text(rank, series));
    std::string tail;
    for (const OpenSpan& open : partial.parts.open_spans) LineObject(tail, "open_span").members(open_span_keys, open);
    for (const auto& [name, mark] : partial.parts.marks)
        LineObject(tail, "marks").member("name", name).members(mark_keys, mark);
    checked.write(tail);
    checked.finish();
}

}  // namespace cep::tool
