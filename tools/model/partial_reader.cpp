// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <simdjson.h>
#include <zlib.h>

#include <limits>
#include <utility>

#include "base/failure.hpp"
#include "model/partial.hpp"
#include "model/partial_keys.hpp"
#include "read/row_keys.hpp"

namespace cep::tool {
namespace {

namespace dom = simdjson::dom;

constexpr std::string_view schema_name = "cep.partial/1";
constexpr std::string_view thinned_schema_name = "cep.partial/2";

/// Why a line is not what it should be.
struct Malformed {
    std::string why;
};

void require(bool right, std::string_view why) {
    if (!right) throw Malformed{std::string(why)};
}

/// The keys of one line. Each call throws Malformed where the key is missing or has another type of value; an optional
/// may be missing.
class Fields {
  public:
    /// Ranges of a few bytes can name any number of numbers: `room` is for how many more there is room, and falls.
    Fields(const dom::object& object, std::uint64_t& room) : object_(object), room_(room) {}

    template <typename Value>
    [[nodiscard]] Value get(std::string_view key) const {
        Value value{};
        read(key, value);
        return value;
    }
    template <typename Value>
    void read(std::string_view key, Value& value) const {
        if (object_.at_key(key).get(value) != simdjson::SUCCESS)
            throw Malformed{fmt::format("no {}, or one of another type", key)};
    }
    template <typename Value>
    void read(std::string_view key, std::optional<Value>& value) const {
        if (object_.at_key(key).error() == simdjson::SUCCESS) read(key, value.emplace());
    }
    void read(std::string_view key, std::string& value) const { value = get<std::string_view>(key); }
    void read(std::string_view key, schema::Kind& value) const {
        value = schema::kind_from_name(get<std::string_view>(key));
    }
    void read(std::string_view key, Clock& value) const { value = clock_from_name(get<std::string_view>(key)); }
    void read(std::string_view key, NumberRanges& value) const;
    template <typename Members, typename Struct>
    void read_members(const Members& members, Struct& into) const {
        for_each_member(members, [&](const auto& each) { read(each.key, into.*each.member); });
    }

  private:
    const dom::object& object_;
    std::uint64_t& room_;
};

void Fields::read(std::string_view key, NumberRanges& value) const {
    value = {};
    for (const dom::element item : get<dom::array>(key)) {
        dom::array range;
        std::int64_t first = 0;
        std::int64_t last = 0;
        const bool right = item.get(range) == simdjson::SUCCESS && range.size() == 2 &&
                           range.at(0).get(first) == simdjson::SUCCESS && range.at(1).get(last) == simdjson::SUCCESS;
        require(right && first <= last, "a malformed range");
        const std::uint64_t more = static_cast<std::uint64_t>(last) - static_cast<std::uint64_t>(first);
        require(more < room_, "a range that is too long");
        room_ -= more + 1;
        value.insert(first, last);
    }
}

template <typename Number>
void read_value(const dom::element& element, Number& number) {
    require(element.get(number) == simdjson::SUCCESS, "a value that is not such a number");
}

void read_value(const dom::element& element, std::uint32_t& number) {
    std::uint64_t large = 0;
    read_value(element, large);
    require(large <= UINT32_MAX, "a number that is too large");
    number = static_cast<std::uint32_t>(large);
}

// Of a sample: what its row did not say is null.
template <typename Number>
void read_said(const dom::element& element, Number& number) {
    read_value(element, number);
}

void read_said(const dom::element& element, std::int64_t& start_ns) {
    start_ns = Sample::no_start;
    if (!element.is_null()) read_value(element, start_ns);
}

void read_said(const dom::element& element, float& lag_ms) {
    double number = std::numeric_limits<double>::quiet_NaN();
    if (!element.is_null()) read_value(element, number);
    lag_ms = static_cast<float>(number);
}

StatsRow read_stats(const Fields& fields) {
    StatsRow stats;
    fields.read("attempt", stats.attempt);
    fields.read_members(count_keys, stats);
    fields.read("open", stats.open);
    fields.read("self_ms", stats.self_ms);
    stats.trainer_ms = fields.get<std::optional<double>>("trainer_ms").value_or(0);
    return stats;
}

void read_histogram(const Fields& fields, PhaseSeries& phase) {
    // Buckets of doubles end long before these.
    constexpr std::int64_t max_buckets = 200'000;
    require(fields.get<double>("relative_error") == LogHistogram::relative_error, "a histogram of another precision");
    LogHistogram::Buckets buckets;
    fields.read("first_bucket", buckets.first);
    fields.read("zeros", buckets.zeros);
    for (const dom::element count : fields.get<dom::array>("counts")) read_value(count, buckets.counts.emplace_back());
    require(buckets.first >= -max_buckets && buckets.first <= max_buckets && buckets.counts.size() <= max_buckets,
            "a malformed histogram");
    phase.histogram = LogHistogram::of(std::move(buckets));
    Totals& totals = phase.in_histogram;
    totals.count = phase.histogram.count();
    fields.read_members(total_keys, totals);
    for_each_member(total_keys, [&](const auto& time) { require(totals.*time.member >= 0, "a negative time"); });
}

void read_samples(const Fields& fields, StepChoice choice, const RunSeries& series, PhaseSeries& phase) {
    std::vector<Sample> samples(fields.get<dom::array>("duration_ms").size());
    for_each_member(sample_keys, [&](const auto& column) {
        auto sample = samples.begin();
        for (const dom::element value : fields.get<dom::array>(column.key)) {
            require(sample != samples.end(), "columns of different lengths");
            read_said(value, (*sample++).*column.member);
        }
        require(sample == samples.end(), "columns of different lengths");
    });
    for (const Sample& sample : samples) {
        require(sample.duration_ms >= 0 && sample.step_index < series.steps.size(), "a malformed sample");
        require(choice.keeps(series.steps[sample.step_index]), "a sample of a step that is not kept");
        phase.samples.push_back(sample);
    }
}

PartialScope read_scope(const Fields& fields) {
    PartialScope scope;
    try {
        const auto steps = fields.get<std::string_view>("steps");
        const auto ranks = fields.get<std::string_view>("ranks");
        const auto phases = fields.get<std::string_view>("phases");
        if (!steps.empty()) scope.filter.set_steps(steps);
        if (!ranks.empty()) scope.filter.set_ranks(ranks);
        if (!phases.empty()) scope.filter.set_phases(phases);
    } catch (const UsageError& error) {
        throw Malformed{error.what()};
    }
    fields.read("attempt", scope.attempt);
    return scope;
}

}  // namespace

std::string PartialScope::describe() const {
    std::string text = filter.describe();
    if (attempt) text += fmt::format("{}--attempt {}", text.empty() ? "" : " ", *attempt);
    return text.empty() ? "no filter" : text;
}

class PartialReader::Impl {
  public:
    void take(std::string_view line, std::uint64_t number) {
        last_number_ = number;
        if (!why_.empty()) return;
        try {
            read(line);
        } catch (const Malformed& malformed) {
            why_ = fmt::format("line {}: {}", number, malformed.why);
        }
    }

    PartialSummary finish() {
        if (why_.empty() && !ended_) why_ = fmt::format("line {}: it ends too early", last_number_);
        if (why_.empty() && !are_samples_counted()) why_ = "samples that no histogram counts";
        if (!why_.empty()) throw ReadError(why_);
        // The first version keeps no samples of the same phase beside a histogram.
        if (has_histograms_ && partial_.parts.choice.keeps_all()) partial_.parts.thin(StepChoice(StepChoice::none));
        return std::move(partial_);
    }

  private:
    void read(std::string_view line) {
        require(!ended_, "something behind the end");
        dom::object object;
        require(parser_.parse(line.data(), line.size()).get(object) == simdjson::SUCCESS, "not a JSON object");
        const Fields fields(object, room_);
        const auto type = fields.get<std::string_view>("type");
        if (lines_ == 0) read_version(type, fields);
        if (type == "end") return read_end(fields);
        read_line(type, fields);
        ++lines_;
        crc_ = ::crc32_z(crc_, reinterpret_cast<const Bytef*>(line.data()), line.size());
        crc_ = ::crc32_z(crc_, reinterpret_cast<const Bytef*>("\n"), 1);
    }

    void read_version(std::string_view type, const Fields& fields) {
        const auto schema = type == "partial" ? fields.get<std::string_view>("schema") : "";
        require(schema == schema_name || schema == thinned_schema_name, "of another version");
        if (schema == schema_name) return;
        const auto halvings = fields.get<std::uint64_t>("halvings");
        require(halvings > 0 && halvings < StepChoice::none, "malformed halvings");
        partial_.parts.choice = StepChoice(static_cast<unsigned>(halvings));
    }

    void read_line(std::string_view type, const Fields& fields) {
        JobParts& parts = partial_.parts;
        if (type == "samples") return read_samples(fields, parts.choice, series(), phase());
        if (type == "phase") {
            fields.read_members(phase_keys, series().phases.emplace_back());
        } else if (type == "series") {
            fields.read("rank", rank_);
            series_ = &parts.ranks[rank_].emplace_back();
        } else if (type == "steps") {
            std::int64_t number = 0;
            for (const dom::element step : fields.get<dom::array>("steps")) {
                read_value(step, number);
                series().steps.push_back(number);
            }
        } else if (type == "series_run") {
            RunInfo& run = series().run;
            run = {};
            fields.read_members(run_keys, run);
            fields.read_members(config_keys, run);
            run.rank = rank_;
            series().has_run = true;
        } else if (type == "series_stats") {
            series().stats = read_stats(fields);
            series().has_stats = true;
        } else if (type == "series_stride") {
            fields.read_members(stride_keys, series().stride.emplace());
            require(limits::is_stride_change(*series().stride), "a malformed change of the stride");
        } else if (type == "series_counter") {
            fields.read_members(counter_keys, series().counters.emplace_back());
        } else if (type == "histogram") {
            read_histogram(fields, phase());
            has_histograms_ = true;
            require(!parts.choice.keeps_all() || phase().samples.empty(), "a histogram of samples");
        } else {
            read_job_line(type, fields);
        }
    }

    void read_job_line(std::string_view type, const Fields& fields) {
        JobParts& parts = partial_.parts;
        if (type == "partial") {
            partial_.scope = read_scope(fields);
        } else if (type == "inputs") {
            fields.read_members(input_keys, partial_.inputs);
        } else if (type == "damage") {
            fields.read_members(damage_keys, partial_.inputs.shown.emplace_back());
        } else if (type == "unreadable") {
            fields.read("why", partial_.inputs.unreadable.emplace_back());
        } else if (type == "coverage") {
            fields.read_members(coverage_keys, parts.coverage);
        } else if (type == "open_span") {
            fields.read_members(open_span_keys, parts.open_spans.emplace_back());
        } else if (type == "marks") {
            fields.read_members(mark_keys, parts.marks[fields.get<std::string>("name")]);
        } else {
            throw Malformed{"a line of an unknown type"};
        }
    }

    /// Where samples are of some steps, histograms are of all.
    [[nodiscard]] bool are_samples_counted() const {
        if (partial_.parts.choice.keeps_all()) return true;
        for (const auto& [rank, all_series] : partial_.parts.ranks)
            for (const RunSeries& series : all_series)
                for (const PhaseSeries& phase : series.phases)
                    if (phase.in_histogram.count < phase.samples.size()) return false;
        return true;
    }

    void read_end(const Fields& fields) {
        require(fields.get<std::uint64_t>("lines") == lines_, "lines are missing");
        require(fields.get<std::string_view>("crc32") == fmt::format("{:08x}", crc_), "the checksum does not fit");
        ended_ = true;
    }

    RunSeries& series() {
        require(series_ != nullptr, "out of place");
        return *series_;
    }
    PhaseSeries& phase() {
        require(!series().phases.empty(), "out of place");
        return series().phases.back();
    }

    dom::parser parser_;
    PartialSummary partial_;
    std::uint64_t room_ = JobParts::max_listed;  // for numbers in ranges
    RunSeries* series_ = nullptr;
    std::int64_t rank_ = 0;
    std::uint64_t lines_ = 0;
    std::uint64_t last_number_ = 0;
    unsigned long crc_ = 0;
    bool ended_ = false;
    bool has_histograms_ = false;
    std::string why_;
};

PartialReader::PartialReader() : impl_(std::make_unique<Impl>()) {}
PartialReader::~PartialReader() = default;
void PartialReader::take(std::string_view line, std::uint64_t number) {
    impl_->take(line, number);
}
PartialSummary PartialReader::finish() {
    return impl_->finish();
}

}  // namespace cep::tool
