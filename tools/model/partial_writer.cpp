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
        append_json_string(out_, type);
    }
    LineObject(const LineObject&) = delete;
    LineObject& operator=(const LineObject&) = delete;
    ~LineObject() { out_ += "}\n"; }

    std::string& value(std::string_view key) {
        out_ += ',';
        append_json_string(out_, key);
        out_ += ':';
        return out_;
    }
    template <typename Number>
    void number(std::string_view key, Number number) {
        fmt::format_to(std::back_inserter(value(key)), "{}", number);
    }
    template <typename Number>
    void number(std::string_view key, const std::optional<Number>& wanted) {
        if (wanted) number(key, *wanted);
    }
    void string(std::string_view key, std::string_view text) { append_json_string(value(key), text); }
    void boolean(std::string_view key, bool is_so) { value(key) += is_so ? "true" : "false"; }
    template <typename Members, typename Struct>
    void members(const Members& members, const Struct& of) {
        for_each_member(members, [&](const auto& each) {
            if constexpr (std::is_same_v<decltype(of.*each.member), const std::string&>) {
                string(each.key, of.*each.member);
            } else {
                number(each.key, of.*each.member);
            }
        });
    }

    /// `get(i)` for each of `count` values.
    template <typename Get>
    void numbers(std::string_view key, std::size_t first, std::size_t last, Get get) {
        std::string& out = value(key);
        out += '[';
        for (std::size_t i = first; i < last; ++i) {
            if (i > first) out += ',';
            append_number(out, get(i));
        }
        out += ']';
    }

    /// As [first, last] for each range.
    void ranges(std::string_view key, const NumberRanges& numbers) {
        std::string& out = value(key);
        out += '[';
        for (const auto& [first, last] : numbers.ranges())
            fmt::format_to(std::back_inserter(out), "{}[{},{}]", out.back() == '[' ? "" : ",", first, last);
        out += ']';
    }

  private:
    template <typename Number>
    static void append_number(std::string& out, Number number) {
        fmt::format_to(std::back_inserter(out), "{}", number);
    }
    template <typename Number>
    static void append_number(std::string& out, const std::optional<Number>& number) {
        if (number) {
            append_number(out, *number);
        } else {
            out += "null";
        }
    }

    std::string& out_;
};

// Where all durations are samples, or all are in histograms, the first version says everything.
void append_header(std::string& out, const PartialScope& scope, StepChoice choice) {
    const bool is_thinned = !choice.keeps_all() && !choice.keeps_none();
    LineObject line(out, "partial");
    line.string("schema", is_thinned ? "cep.partial/2" : "cep.partial/1");
    if (is_thinned) line.number("halvings", choice.halvings());
    line.string("steps", scope.filter.steps());
    line.string("ranks", scope.filter.ranks());
    line.string("phases", scope.filter.phases());
    line.number("attempt", scope.attempt);
}

void append_inputs(std::string& out, const InputCounts& inputs) {
    {
        LineObject line(out, "inputs");
        line.members(input_keys, inputs);
    }
    for (const LocatedDamage& damage : inputs.shown) {
        LineObject line(out, "damage");
        line.members(damage_keys, damage);
    }
    std::vector<std::string> unreadable = inputs.unreadable;
    std::sort(unreadable.begin(), unreadable.end());
    for (const std::string& why : unreadable) LineObject(out, "unreadable").string("why", why);
}

void append_coverage(std::string& out, const CoverageCollector::Facts& facts) {
    LineObject line(out, "coverage");
    line.ranges("ranks", facts.seen);
    line.ranges("listed_ranks", facts.listed);
    line.boolean("any_unlisted", facts.any_unlisted);
    line.number("world_size", facts.world_size);
}

void append_run(std::string& out, const RunInfo& run) {
    LineObject line(out, "series_run");
    line.members(run_keys, run);
    line.members(config_keys, run);
}

void append_stats(std::string& out, const StatsRow& stats) {
    LineObject line(out, "series_stats");
    line.number("attempt", stats.attempt);
    for (const CountKey& key : count_keys) line.number(key.key, stats.*key.member);
    line.number("open", stats.open);
    line.members(self_time_keys, stats);
}

void append_stride_change(std::string& out, const StrideChange& change) {
    LineObject line(out, "series_stride");
    line.number("from", change.from);
    line.number("to", change.to);
    line.number("longest", change.longest);
    line.number("first_step", change.first_step);
    line.number("step", change.step);
    line.number("max_percent", change.max_percent);
}

void append_histogram(std::string& out, const LogHistogram& histogram, const Totals& totals) {
    const LogHistogram::Buckets buckets = histogram.buckets();
    LineObject line(out, "histogram");
    line.number("relative_error", LogHistogram::relative_error);
    line.number("first_bucket", buckets.first);
    line.number("zeros", buckets.zeros);
    line.numbers("counts", 0, buckets.counts.size(), [&](std::size_t i) { return buckets.counts[i]; });
    line.members(total_keys, totals);
}

std::optional<std::int64_t> start_of(const Sample& sample) {
    return sample.has_start() ? std::optional(sample.start_ns) : std::nullopt;
}

std::optional<float> lag_of(const Sample& sample) {
    return std::isnan(sample.lag_ms) ? std::nullopt : std::optional(sample.lag_ms);
}

void append_phase(std::string& out, const PhaseSeries& phase) {
    {
        LineObject line(out, "phase");
        line.string("name", phase.name);
        line.string("kind", schema::kind_name(phase.kind));
        line.string("clock", clock_names[static_cast<std::size_t>(phase.clock)]);
        line.boolean("may_repeat", phase.may_repeat);
    }
    const SampleList& samples = phase.samples;
    for (std::size_t first = 0; first < samples.size(); first += values_per_line) {
        const std::size_t last = std::min(first + values_per_line, samples.size());
        LineObject line(out, "samples");
        line.numbers("duration_ms", first, last, [&](std::size_t i) { return samples[i].duration_ms; });
        line.numbers("start_ns", first, last, [&](std::size_t i) { return start_of(samples[i]); });
        line.numbers("lag_ms", first, last, [&](std::size_t i) { return lag_of(samples[i]); });
        line.numbers("collective", first, last, [&](std::size_t i) { return samples[i].collective; });
        line.numbers("step_index", first, last, [&](std::size_t i) { return samples[i].step_index; });
        line.numbers("place", first, last, [&](std::size_t i) { return samples[i].place; });
    }
    if (phase.in_histogram.count > 0) append_histogram(out, phase.histogram, phase.in_histogram);
}

void append_counter(std::string& out, const CounterSeries& counter) {
    LineObject line(out, "series_counter");
    line.string("name", counter.name);
    line.number("max", counter.max);
    line.number("last_step", counter.last_step);
    line.number("last", counter.last);
}

void append_series(std::string& out, std::int64_t rank, const RunSeries& series) {
    LineObject(out, "series").number("rank", rank);
    if (series.has_run) append_run(out, series.run);
    if (series.has_stats) append_stats(out, series.stats);
    if (series.stride) append_stride_change(out, *series.stride);
    for (const CounterSeries& counter : series.counters) append_counter(out, counter);
    const StepNumbers& steps = series.steps;
    for (std::size_t first = 0; first < steps.size(); first += values_per_line)
        LineObject(out, "steps")
            .numbers("steps", first, std::min(first + values_per_line, steps.size()),
                     [&](std::size_t i) { return steps[i]; });
    for (const PhaseSeries& phase : series.phases) append_phase(out, phase);
}

void append_open_span(std::string& out, const OpenSpan& open) {
    LineObject line(out, "open_span");
    line.members(open_span_keys, open);
}

void append_mark(std::string& out, const std::string& name, const MarkCount& mark) {
    LineObject line(out, "marks");
    line.string("name", name);
    line.number("count", mark.count);
    line.ranges("ranks", mark.ranks);
    line.ranges("steps", mark.steps);
}

/// Writes text and keeps what the last line says of it.
class CheckedOutput {
  public:
    explicit CheckedOutput(Output& output) : output_(output) {}
    void write(std::string& text) {
        lines_ += static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
        crc_ = ::crc32_z(crc_, reinterpret_cast<const Bytef*>(text.data()), text.size());
        output_.write(text);
        text.clear();
    }
    void finish() {
        std::string text;
        {
            LineObject line(text, "end");
            line.number("lines", lines_);
            line.string("crc32", fmt::format("{:08x}", crc_));
        }
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
    append_series(text, rank, series);
    return text;
}

void write_partial(Output& output, const PartialScope& scope, const InputCounts& inputs, const JobParts& parts) {
    CheckedOutput checked(output);
    std::string text;
    append_header(text, scope, parts.choice);
    append_inputs(text, inputs);
    append_coverage(text, parts.coverage.facts());
    checked.write(text);
    for (const auto& [rank, all_series] : parts.ranks)
        for (const RunSeries& series : all_series) {
            append_series(text, rank, series);
            checked.write(text);
        }
    for (const OpenSpan& open : parts.open_spans) append_open_span(text, open);
    for (const auto& [name, mark] : parts.marks) append_mark(text, name, mark);
    checked.write(text);
    checked.finish();
}

}  // namespace cep::tool
