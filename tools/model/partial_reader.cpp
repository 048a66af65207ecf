// SPDX-License-Identifier: Apache-2.0
#include <simdjson.h>
#include <zlib.h>

#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/failure.hpp"
#include "model/partial.hpp"
#include "model/partial_keys.hpp"
#include "read/row_keys.hpp"
#include "read/row_limits.hpp"

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

/// The keys of one line. Each call throws Malformed where the key is missing or has another type of value.
class Fields {
  public:
    explicit Fields(const dom::object& object) : object_(object) {}

    [[nodiscard]] std::int64_t integer(std::string_view key) const { return get<std::int64_t>(key); }
    [[nodiscard]] std::uint64_t count(std::string_view key) const { return get<std::uint64_t>(key); }
    [[nodiscard]] bool boolean(std::string_view key) const { return get<bool>(key); }
    [[nodiscard]] std::string string(std::string_view key) const { return std::string(get<std::string_view>(key)); }
    [[nodiscard]] dom::array array(std::string_view key) const { return get<dom::array>(key); }
    [[nodiscard]] double number(std::string_view key) const { return get<double>(key); }
    [[nodiscard]] std::optional<std::int64_t> optional_integer(std::string_view key) const {
        return object_.at_key(key).error() == simdjson::SUCCESS ? std::optional(integer(key)) : std::nullopt;
    }
    [[nodiscard]] std::optional<double> optional_double(std::string_view key) const {
        return object_.at_key(key).error() == simdjson::SUCCESS ? std::optional(get<double>(key)) : std::nullopt;
    }

    template <typename Members, typename Struct>
    void read(const Members& members, Struct& into) const {
        for_each_member(members, [&](const auto& each) { read_value(each.key, into.*each.member); });
    }

    /// A few bytes can name any number of numbers: `room` is for how many more there is room, and falls.
    [[nodiscard]] NumberRanges ranges(std::string_view key, std::uint64_t& room) const {
        NumberRanges numbers;
        for (const dom::element item : array(key)) {
            dom::array range;
            std::int64_t first = 0;
            std::int64_t last = 0;
            const bool right = item.get(range) == simdjson::SUCCESS && range.size() == 2 &&
                               range.at(0).get(first) == simdjson::SUCCESS &&
                               range.at(1).get(last) == simdjson::SUCCESS;
            require(right && first <= last, "a malformed range");
            const std::uint64_t more = static_cast<std::uint64_t>(last) - static_cast<std::uint64_t>(first);
            require(more < room, "a range that is too long");
            room -= more + 1;
            numbers.insert(first, last);
        }
        return numbers;
    }

  private:
    void read_value(std::string_view key, std::int64_t& value) const { value = integer(key); }
    void read_value(std::string_view key, std::uint64_t& value) const { value = count(key); }
    void read_value(std::string_view key, double& value) const { value = number(key); }
    void read_value(std::string_view key, std::string& value) const { value = string(key); }
    void read_value(std::string_view key, std::optional<std::int64_t>& value) const { value = optional_integer(key); }
    void read_value(std::string_view key, std::optional<double>& value) const { value = optional_double(key); }

    template <typename Value>
    [[nodiscard]] Value get(std::string_view key) const {
        Value value{};
        if (object_.at_key(key).get(value) != simdjson::SUCCESS)
            throw Malformed{fmt::format("no {}, or one of another type", key)};
        return value;
    }

    const dom::object& object_;
};

template <typename Number>
Number number_of(const dom::element& element) {
    Number number{};
    require(element.get(number) == simdjson::SUCCESS, "a value that is not such a number");
    return number;
}

std::uint32_t small_number_of(const dom::element& element) {
    const auto number = number_of<std::uint64_t>(element);
    require(number <= UINT32_MAX, "a number that is too large");
    return static_cast<std::uint32_t>(number);
}

RunInfo read_run(const Fields& fields) {
    RunInfo run;
    fields.read(run_keys, run);
    fields.read(config_keys, run);
    return run;
}

StatsRow read_stats(const Fields& fields) {
    StatsRow stats;
    stats.attempt = fields.optional_integer("attempt");
    for (const CountKey& key : count_keys) stats.*key.member = fields.count(key.key);
    stats.open = fields.count("open");
    stats.self_ms = fields.number("self_ms");
    stats.trainer_ms = fields.optional_double("trainer_ms").value_or(0);
    return stats;
}

StrideChange read_stride_change(const Fields& fields) {
    StrideChange change;
    change.from = fields.integer("from");
    change.to = fields.integer("to");
    change.longest = fields.integer("longest");
    change.first_step = fields.integer("first_step");
    change.step = fields.integer("step");
    change.max_percent = fields.number("max_percent");
    require(limits::is_stride_change(change), "a malformed change of the stride");
    return change;
}

void read_histogram(const Fields& fields, PhaseSeries& phase) {
    // Buckets of doubles end long before these.
    constexpr std::int64_t max_buckets = 200'000;
    require(fields.number("relative_error") == LogHistogram::relative_error, "a histogram of another precision");
    LogHistogram::Buckets buckets;
    buckets.first = fields.integer("first_bucket");
    buckets.zeros = fields.count("zeros");
    for (const dom::element count : fields.array("counts")) buckets.counts.push_back(small_number_of(count));
    require(buckets.first >= -max_buckets && buckets.first <= max_buckets && buckets.counts.size() <= max_buckets,
            "a malformed histogram");
    phase.histogram = LogHistogram::of(std::move(buckets));
    Totals& totals = phase.in_histogram;
    totals.count = phase.histogram.count();
    fields.read(total_keys, totals);
    for_each_member(total_keys, [&](const auto& time) { require(totals.*time.member >= 0, "a negative time"); });
}

/// An array that is gone through beside others.
class Column {
  public:
    Column(const Fields& fields, std::string_view key)
        : array_(fields.array(key)), next_(array_.begin()), end_(array_.end()) {}
    [[nodiscard]] bool at_end() const { return !(next_ != end_); }
    dom::element take() {
        require(!at_end(), "columns of different lengths");
        const dom::element element = *next_;
        ++next_;
        return element;
    }

  private:
    const dom::array array_;
    dom::array::iterator next_;
    const dom::array::iterator end_;
};

void read_samples(const Fields& fields, StepChoice choice, const RunSeries& series, PhaseSeries& phase) {
    Column durations_ms(fields, "duration_ms");
    Column starts_ns(fields, "start_ns");
    Column lags_ms(fields, "lag_ms");
    Column collectives(fields, "collective");
    Column step_indices(fields, "step_index");
    Column places(fields, "place");
    while (!durations_ms.at_end()) {
        const auto duration_ms = number_of<double>(durations_ms.take());
        const dom::element start_ns = starts_ns.take();
        const dom::element lag_ms = lags_ms.take();
        const Sample sample{
            duration_ms,
            start_ns.is_null() ? Sample::no_start : number_of<std::int64_t>(start_ns),
            lag_ms.is_null() ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(number_of<double>(lag_ms)),
            small_number_of(collectives.take()),
            small_number_of(step_indices.take()),
            small_number_of(places.take())};
        require(sample.duration_ms >= 0 && sample.step_index < series.steps.size(), "a malformed sample");
        require(choice.keeps(series.steps[sample.step_index]), "a sample of a step that is not kept");
        phase.samples.push_back(sample);
    }
    const bool all_end =
        starts_ns.at_end() && lags_ms.at_end() && collectives.at_end() && step_indices.at_end() && places.at_end();
    require(all_end, "columns of different lengths");
}

PhaseSeries read_phase(const Fields& fields) {
    PhaseSeries phase;
    phase.name = fields.string("name");
    phase.kind = schema::kind_from_name(fields.string("kind"));
    phase.clock = clock_from_name(fields.string("clock"));
    phase.may_repeat = fields.boolean("may_repeat");
    return phase;
}

OpenSpan read_open_span(const Fields& fields) {
    OpenSpan open;
    fields.read(open_span_keys, open);
    return open;
}

CoverageCollector read_coverage(const Fields& fields, std::uint64_t& room) {
    CoverageCollector::Facts facts;
    facts.seen = fields.ranges("ranks", room);
    facts.listed = fields.ranges("listed_ranks", room);
    facts.any_unlisted = fields.boolean("any_unlisted");
    facts.world_size = fields.integer("world_size");
    return CoverageCollector::of(std::move(facts));
}

PartialScope read_scope(const Fields& fields) {
    PartialScope scope;
    try {
        if (const std::string steps = fields.string("steps"); !steps.empty()) scope.filter.set_steps(steps);
        if (const std::string ranks = fields.string("ranks"); !ranks.empty()) scope.filter.set_ranks(ranks);
        if (const std::string phases = fields.string("phases"); !phases.empty()) scope.filter.set_phases(phases);
    } catch (const UsageError& error) {
        throw Malformed{error.what()};
    }
    scope.attempt = fields.optional_integer("attempt");
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
        const Fields fields(object);
        const std::string type = fields.string("type");
        if (lines_ == 0) read_version(type, fields);
        if (type == "end") return read_end(fields);
        read_line(type, fields);
        ++lines_;
        crc_ = ::crc32_z(crc_, reinterpret_cast<const Bytef*>(line.data()), line.size());
        crc_ = ::crc32_z(crc_, reinterpret_cast<const Bytef*>("\n"), 1);
    }

    void read_version(const std::string& type, const Fields& fields) {
        const std::string schema = type == "partial" ? fields.string("schema") : "";
        require(schema == schema_name || schema == thinned_schema_name, "of another version");
        if (schema == schema_name) return;
        const std::uint64_t halvings = fields.count("halvings");
        require(halvings > 0 && halvings < StepChoice::none, "malformed halvings");
        partial_.parts.choice = StepChoice(static_cast<unsigned>(halvings));
    }

    void read_line(const std::string& type, const Fields& fields) {
        JobParts& parts = partial_.parts;
        if (type == "samples") return read_samples(fields, parts.choice, series(), phase());
        if (type == "phase") {
            series().phases.push_back(read_phase(fields));
        } else if (type == "series") {
            rank_ = fields.integer("rank");
            series_ = &parts.ranks[rank_].emplace_back();
        } else if (type == "steps") {
            for (const dom::element step : fields.array("steps"))
                series().steps.push_back(number_of<std::int64_t>(step));
        } else if (type == "series_run") {
            series().run = read_run(fields);
            series().run.rank = rank_;
            series().has_run = true;
        } else if (type == "series_stats") {
            series().stats = read_stats(fields);
            series().has_stats = true;
        } else if (type == "series_stride") {
            series().stride = read_stride_change(fields);
        } else if (type == "series_counter") {
            CounterSeries counter(fields.string("name"), fields.integer("last_step"), fields.number("last"));
            counter.max = fields.number("max");
            series().counters.push_back(std::move(counter));
        } else if (type == "histogram") {
            read_histogram(fields, phase());
            has_histograms_ = true;
            require(!parts.choice.keeps_all() || phase().samples.empty(), "a histogram of samples");
        } else {
            read_job_line(type, fields);
        }
    }

    void read_job_line(const std::string& type, const Fields& fields) {
        InputCounts& inputs = partial_.inputs;
        if (type == "partial") {
            partial_.scope = read_scope(fields);
        } else if (type == "inputs") {
            fields.read(input_keys, inputs);
        } else if (type == "damage") {
            fields.read(damage_keys, inputs.shown.emplace_back());
        } else if (type == "unreadable") {
            inputs.unreadable.push_back(fields.string("why"));
        } else if (type == "coverage") {
            partial_.parts.coverage = read_coverage(fields, room_);
        } else if (type == "open_span") {
            partial_.parts.open_spans.push_back(read_open_span(fields));
        } else if (type == "marks") {
            MarkCount& mark = partial_.parts.marks[fields.string("name")];
            mark = {fields.ranges("ranks", room_), fields.ranges("steps", room_), fields.count("count")};
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
        require(fields.count("lines") == lines_, "lines are missing");
        require(fields.string("crc32") == fmt::format("{:08x}", crc_), "the checksum does not fit");
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
