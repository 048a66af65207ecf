// SPDX-License-Identifier: Apache-2.0
#include "report/data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "report/heat_picture.hpp"
#include "show/json_writer.hpp"
#include "verdict/causes.hpp"

namespace cep::report {
namespace {

using tool::JsonWriter;
using tool::printable;

constexpr std::size_t most_listed = 1000;

std::vector<std::int64_t> as_integers(const std::vector<std::size_t>& values) {
    return {values.begin(), values.end()};
}

std::vector<std::string> as_printable(const std::vector<std::string>& names) {
    std::vector<std::string> safe;
    for (const std::string& name : names) safe.push_back(printable(name));
    return safe;
}

class Writer {
  public:
    Writer(const PageParts& parts, const FittedHeat& fitted) : parts_(parts), fitted_(fitted) {}

    std::string write() {
        json_.begin_object();
        json_.members("schema", "cep.report/1");
        json_.object("colors", [&] {
            json_.key("sequential").begin_array();
            for (const std::string_view color : heat_colors) json_.string(color);
            json_.end_array();
        });
        json_.members("left_out", fitted_.left_out);
        write_job(parts_.view);
        write_grids();
        json_.objects("layers", fitted_.layers, [&](const FittedLayer& layer) { write_layer(layer); });
        write_bands();
        write_breakdown();
        write_waits();
        write_timeline(parts_.timeline);
        write_what_if();
        write_comm();
        write_memory();
        if (parts_.inputs.comparison != nullptr) write_comparison(*parts_.inputs.comparison);
        json_.end_object();
        return json_.finish();
    }

  private:
    /// A section with its members, or why it is empty.
    template <typename Write>
    void section(std::string_view name, const std::string& empty, const Write& write) {
        json_.object(name, [&] {
            if (empty.empty()) {
                write();
            } else {
                json_.members("empty", empty);
            }
        });
    }
    void numbers(std::string_view name, const std::vector<double>& values, int significant = 5) {
        json_.key(name).numbers(values, significant);
    }

    void write_job(const JobView& view) {
        json_.object("ranks", [&] {
            json_.members("rank", view.ranks, "host", as_integers(view.host), "role", as_integers(view.role));
            numbers("slowness", view.slowness_ms);
        });
        json_.members("hosts", as_printable(view.hosts), "roles", as_printable(view.roles));
        const std::size_t count = std::min(most_listed, view.blamed.size());
        json_.objects("blamed", std::span(view.blamed).first(count), [&](const Blamed& one) {
            json_.members("rank", one.rank, "phase", printable(one.phase), "first_step", one.first_step, "last_step",
                          one.last_step);
        });
        json_.objects("phases", view.phases, [&](const PhaseView& phase) {
            json_.members("name", printable(phase.name), "kind", schema::kind_name(phase.kind), "color",
                          std::int64_t{phase.color});
        });
    }

    // The order of the grids is that of the constants.
    static constexpr std::int64_t overview_grid = 0;
    static constexpr std::int64_t band_grid = 1;
    static constexpr std::int64_t fine_steps = 2;
    static constexpr std::int64_t chosen_ranks = 1;
    static constexpr std::int64_t all_ranks = 2;

    void write_grids() {
        const auto any = [this](bool FittedLayer::*member) {
            return std::any_of(fitted_.layers.begin(), fitted_.layers.end(),
                               [member](const auto& one) { return one.*member; });
        };
        const bool has_full = any(&FittedLayer::has_full);
        std::vector<Bins> steps = {fitted_.step_bins, parts_.heat.band_steps};
        if (has_full || any(&FittedLayer::has_chosen)) steps.push_back(parts_.view.steps);
        std::vector<Bins> ranks = {fitted_.rank_bins, single_bins(as_integers(parts_.heat.chosen))};
        if (has_full) ranks.push_back(index_bins(parts_.view.ranks.size()));
        const auto write = [this](const Bins& bins) { json_.members("first", bins.first, "last", bins.last); };
        json_.objects("step_bins", steps, write);
        json_.objects("rank_bins", ranks, write);
    }

    struct Level {
        std::int64_t ranks;
        std::int64_t steps;
        const Block& block;
    };

    void write_block(const Block& block) {
        json_.members("rows", block.rows, "columns", block.columns, "bits", block.bits, "low", block.low, "high",
                      block.high, "encoding", "deflate", "data", block.data);
    }

    void write_layer(const FittedLayer& fitted) {
        const Layer& layer = *fitted.layer;
        json_.members("phase", layer.phase, "measure", measure_names[static_cast<std::size_t>(layer.measure)], "unit",
                      layer.unit());
        json_.object("scale", [&] {
            json_.members("kind", layer.scale.is_log ? "log" : "linear", "low", layer.scale.low, "high",
                          layer.scale.high);
        });
        json_.object_or_null("by_rank", fitted.by_rank, [&](const Block& block) { write_block(block); });
        std::vector<Level> levels = {{overview_grid, overview_grid, fitted.overview}};
        if (fitted.has_chosen) levels.push_back({chosen_ranks, fine_steps, *layer.of_chosen});
        if (fitted.has_full) levels.push_back({all_ranks, fine_steps, *layer.full});
        json_.objects("levels", levels, [&](const Level& level) {
            json_.members("ranks", level.ranks, "steps", level.steps);
            json_.object("block", [&] { write_block(level.block); });
        });
    }

    void write_bands() {
        section("bands", parts_.heat.bands.empty() ? "No durations by step are known." : "", [&] {
            json_.objects("phases", parts_.heat.bands, [&](const Band& band) {
                json_.members("phase", band.phase, "steps", band_grid);
                numbers("p10", band.p10_ms);
                numbers("p50", band.p50_ms);
                numbers("p90", band.p90_ms);
                numbers("max", band.max_ms);
                json_.members("max_rank", as_integers(band.max_rank));
            });
            json_.objects("changes", parts_.inputs.verdict->changes, [&](const tool::ChangeFact& change) {
                json_.members("step", change.step, "before_ms", change.before_ms, "after_ms", change.after_ms, "phase",
                              printable(change.phase));
            });
            json_.objects("marks", parts_.inputs.job->marks, [&](const auto& named) {
                const auto& [name, mark] = named;
                std::vector<std::int64_t> steps;
                for (const auto& [first, last] : mark.steps.ranges())
                    for (std::int64_t step = first; step <= last && steps.size() < most_listed; ++step)
                        steps.push_back(step);
                json_.members("name", printable(name), "steps", steps);
            });
            json_.members("long_steps", parts_.inputs.verdict->events.unmarked_steps);
        });
    }

    void write_breakdown() {
        section("breakdown", parts_.breakdown.empty, [&] {
            json_.objects("parts", parts_.breakdown.parts, [&](const BreakdownPart& part) {
                json_.members("name", printable(part.name), "color",
                              part.color ? std::optional<std::int64_t>(*part.color) : std::nullopt);
            });
            json_.objects("bars", parts_.breakdown.bars, [&](const BreakdownBar& bar) {
                json_.members("label", bar.label, "rank", bar.rank, "step_ms", bar.step_ms);
                numbers("ms", bar.ms, 8);
            });
        });
    }

    void write_waits() {
        const auto place_of = [this](Measure measure) {
            for (std::size_t i = 0; i < fitted_.layers.size(); ++i)
                if (fitted_.layers[i].layer->phase == 0 && fitted_.layers[i].layer->measure == measure &&
                    fitted_.layers[i].by_rank)
                    return i;
            return fitted_.layers.size();
        };
        const std::size_t own = place_of(Measure::own);
        const std::size_t wait = place_of(Measure::wait);
        const bool known = std::max(own, wait) < fitted_.layers.size();
        section("waits", known ? "" : "Own work and waiting are not known apart.",
                [&] { json_.members("own_layer", own, "wait_layer", wait); });
    }

    void write_timeline(const Timeline& timeline) {
        section("timeline", timeline.empty, [&] {
            json_.objects("steps", timeline.steps, [&](const TimelineStep& step) {
                json_.members("step", step.step, "start_ns", std::to_string(step.start_ns), "length_ms",
                              step.length_ms);
            });
            json_.objects("ranks", timeline.ranks, [&](const TimelineRank& rank) {
                json_.members("rank", rank.rank, "why", printable(rank.why));
            });
            json_.objects("lanes", timeline.lanes, [&](const Lane& lane) {
                json_.members("rank", timeline.ranks[lane.rank].rank, "name", lane.name);
            });
            json_.members("each_from_zero", timeline.each_from_zero, "clocks_apart_ms", timeline.clocks_apart_ms,
                          "clock_error_ms", timeline.clock_error_ms);
            json_.object("spans", [&] { write_spans(timeline.spans); });
        });
    }

    void write_spans(const std::vector<TimelineSpan>& spans) {
        const auto column = [&spans](auto member) {
            std::vector<std::int64_t> values;
            for (const TimelineSpan& span : spans) values.push_back(static_cast<std::int64_t>(span.*member));
            return values;
        };
        const auto times = [&spans](double TimelineSpan::*member) {
            std::vector<double> values;
            for (const TimelineSpan& span : spans) values.push_back(span.*member);
            return values;
        };
        json_.members("lane", column(&TimelineSpan::lane), "step", column(&TimelineSpan::step), "phase",
                      column(&TimelineSpan::phase));
        numbers("start_ms", times(&TimelineSpan::start_ms), 9);
        numbers("duration_ms", times(&TimelineSpan::duration_ms), 9);
        json_.members("depth", column(&TimelineSpan::depth), "join", column(&TimelineSpan::join));
    }

    void write_what_if() {
        const tool::Replay& replay = parts_.inputs.verdict->replay;
        section("whatif", why_no_replay(replay), [&] {
            json_.members("observed_ms", replay.observed_ms, "replayed_ms", replay.replayed_ms, "ideal_ms",
                          replay.ideal_ms, "holds", replay.holds());
            json_.objects("losses", losses_of(replay),
                          [&](const Loss& loss) { json_.members("label", loss.label, "ms", loss.ms); });
            json_.objects("causes", parts_.inputs.verdict->causes(), [&](const tool::Finding* cause) {
                const double share = cause->cost_share.value_or(0);
                json_.members("label", printable(tool::label_of(*cause)), "kind", tool::kind_name(cause->kind), "phase",
                              printable(cause->phase), "ms", share * replay.observed_ms, "slowdown", 1 / (1 - share));
            });
        });
    }

    void write_comm() {
        const comm::CommReport* const comm = parts_.inputs.comm;
        const std::string why = comm == nullptr        ? parts_.inputs.why_no_comm
                                : comm->models.empty() ? "There are no spans of communication."
                                                       : "";
        section("comm", why, [&] {
            const std::size_t count = std::min<std::size_t>(64, comm->models.size());
            json_.objects("models", std::span(comm->models).first(count),
                          [&](const comm::CommModel& model) { write_model(model); });
        });
    }

    void write_model(const comm::CommModel& model) {
        const auto of_fit = [&model](double comm::TransferFit::*member) {
            return model.fit ? std::optional(*model.fit.*member) : std::nullopt;
        };
        json_.members("name", printable(model.name), "group", printable(model.group), "ranks", model.ranks, "alpha_us",
                      of_fit(&comm::TransferFit::alpha_us), "beta_gb_per_s",
                      model.fit ? model.fit->beta_gb_per_s : std::nullopt, "r_squared",
                      of_fit(&comm::TransferFit::r_squared), "refused", model.refused);
        std::vector<std::int64_t> bytes;
        std::vector<std::int64_t> counts;
        std::vector<double> transfer_ms;
        std::vector<double> wait_ms;
        const std::size_t every = std::max<std::size_t>(1, model.sizes.size() / 200);
        for (std::size_t i = 0; i < model.sizes.size(); i += every) {
            const comm::SizeReport& size = model.sizes[i];
            bytes.push_back(size.point.bytes);
            counts.push_back(static_cast<std::int64_t>(size.point.collectives));
            transfer_ms.push_back(size.point.transfer_ms);
            wait_ms.push_back(size.wait_ms);
        }
        json_.object("points", [&] {
            json_.members("bytes", bytes);
            numbers("transfer_ms", transfer_ms);
            numbers("wait_ms", wait_ms);
            json_.members("count", counts);
        });
    }

    void write_memory() {
        section("memory", parts_.memory.empty() ? "No memory was counted." : "", [&] {
            json_.objects("counters", parts_.memory, [&](const MemoryCounter& counter) {
                json_.members("name", printable(counter.name), "unit", "bytes");
                json_.object("by_rank", [&] { write_block(encode(counter.by_rank)); });
            });
        });
    }

    void write_side(std::string_view side, const compare::PhaseSide& of) {
        const std::string prefix(side);
        const bool any = of.steps > 0;
        json_.members(prefix + "_ms", any ? std::optional(of.mean_ms) : std::nullopt, prefix + "_low_ms",
                      any ? of.mean_interval_ms.low : NAN, prefix + "_high_ms", any ? of.mean_interval_ms.high : NAN);
    }

    void write_comparison(const compare::Comparison& comparison) {
        std::vector<const compare::Change*> rows;
        if (comparison.step) rows.push_back(&*comparison.step);
        for (std::size_t i = 0; i < std::min<std::size_t>(200, comparison.phases.size()); ++i)
            rows.push_back(&comparison.phases[i]);
        json_.object("compare", [&] {
            json_.members("a", printable(comparison.a.name), "b", printable(comparison.b.name));
            json_.objects("rows", rows, [&](const compare::Change* change) {
                json_.members("name", printable(change->name), "kind", schema::kind_name(change->kind));
                write_side("a", change->a);
                write_side("b", change->b);
                const double low = change->change_interval ? change->change_interval->low : NAN;
                const double high = change->change_interval ? change->change_interval->high : NAN;
                json_.members("change", change->change, "change_low", low, "change_high", high, "outcome",
                              compare::outcome_names[static_cast<std::size_t>(change->outcome)]);
            });
        });
    }

    const PageParts& parts_;
    const FittedHeat& fitted_;
    JsonWriter json_;
};

}  // namespace

std::string write_data(const PageParts& parts, const FittedHeat& heat) {
    const std::string json = Writer(parts, heat).write();
    std::string safe;
    safe.reserve(json.size());
    for (const char& c : json) safe += c == '<' ? "\\u003c" : std::string_view(&c, 1);
    return safe;
}

}  // namespace cep::report
