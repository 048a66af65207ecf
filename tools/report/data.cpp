// SPDX-License-Identifier: Apache-2.0
#include "report/data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/text.hpp"
#include "report/heat_picture.hpp"
#include "report/memory.hpp"
#include "report/what_if.hpp"
#include "show/json_writer.hpp"

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
    Writer(const DataParts& parts, const FittedHeat& heat)
        : inputs_(*parts.inputs),
          view_(*parts.view),
          heat_(*parts.heat),
          breakdown_(*parts.breakdown),
          timeline_(*parts.timeline),
          fitted_(heat) {}

    std::string write() {
        json_.begin_object();
        json_.members("schema", "cep.report/1");
        json_.object("colors", [&] {
            json_.key("sequential").begin_array();
            for (const std::string_view color : heat_colors) json_.string(color);
            json_.end_array();
        });
        json_.members("left_out", fitted_.left_out);
        write_job();
        write_grids();
        json_.key("layers").begin_array();
        for (const FittedLayer& layer : fitted_.layers) write_layer(layer);
        json_.end_array();
        write_bands();
        write_breakdown();
        write_waits();
        write_timeline();
        write_what_if();
        write_comm();
        write_memory();
        if (inputs_.comparison != nullptr) write_comparison(*inputs_.comparison);
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

    void write_job() {
        json_.object("ranks", [&] {
            json_.members("rank", view_.ranks, "host", as_integers(view_.host), "role", as_integers(view_.role));
            numbers("slowness", view_.slowness_ms);
        });
        json_.members("hosts", as_printable(view_.hosts), "roles", as_printable(view_.roles));
        const std::size_t count = std::min(most_listed, view_.blamed.size());
        json_.objects("blamed", std::span(view_.blamed).first(count), [&](const Blamed& one) {
            json_.members("rank", one.rank, "phase", printable(one.phase), "first_step", one.first_step, "last_step",
                          one.last_step);
        });
        json_.objects("phases", view_.phases, [&](const PhaseView& phase) {
            json_.members("name", printable(phase.name), "kind", schema::kind_name(phase.kind), "color",
                          std::int64_t{phase.color});
        });
    }

    void write_bins(const Bins& bins) {
        json_.begin_object();
        json_.members("first", bins.first, "last", bins.last);
        json_.end_object();
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
        json_.key("step_bins").begin_array();
        write_bins(fitted_.step_bins);
        write_bins(heat_.band_steps);
        if (has_full || any(&FittedLayer::has_chosen)) write_bins(view_.steps);
        json_.end_array();
        json_.key("rank_bins").begin_array();
        write_bins(fitted_.rank_bins);
        write_bins(single_bins(as_integers(heat_.chosen)));
        if (has_full) {
            std::vector<std::int64_t> all(view_.ranks.size());
            std::iota(all.begin(), all.end(), 0);
            write_bins(single_bins(all));
        }
        json_.end_array();
    }

    void write_level(std::int64_t ranks, std::int64_t steps, const Block& block) {
        json_.begin_object();
        json_.members("ranks", ranks, "steps", steps);
        json_.key("block");
        write_block(json_, block);
        json_.end_object();
    }

    void write_layer(const FittedLayer& fitted) {
        const Layer& layer = *fitted.layer;
        json_.begin_object();
        json_.members("phase", layer.phase, "measure", measure_names[static_cast<std::size_t>(layer.measure)], "unit",
                      layer.unit());
        json_.object("scale", [&] {
            json_.members("kind", layer.scale.is_log ? "log" : "linear", "low", layer.scale.low, "high",
                          layer.scale.high);
        });
        json_.key("by_rank");
        if (fitted.by_rank) {
            write_block(json_, *fitted.by_rank);
        } else {
            json_.null();
        }
        json_.key("levels").begin_array();
        write_level(overview_grid, overview_grid, fitted.overview);
        if (fitted.has_chosen) write_level(chosen_ranks, fine_steps, *layer.of_chosen);
        if (fitted.has_full) write_level(all_ranks, fine_steps, *layer.full);
        json_.end_array();
        json_.end_object();
    }

    void write_bands() {
        section("bands", heat_.bands.empty() ? "No durations by step are known." : "", [&] {
            json_.objects("phases", heat_.bands, [&](const Band& band) {
                json_.members("phase", band.phase, "steps", band_grid);
                numbers("p10", band.p10_ms);
                numbers("p50", band.p50_ms);
                numbers("p90", band.p90_ms);
                numbers("max", band.max_ms);
                json_.members("max_rank", as_integers(band.max_rank));
            });
            json_.objects("changes", inputs_.verdict->changes, [&](const tool::ChangeFact& change) {
                json_.members("step", change.step, "before_ms", change.before_ms, "after_ms", change.after_ms, "phase",
                              printable(change.phase));
            });
            json_.objects("marks", inputs_.job->marks, [&](const auto& named) {
                const auto& [name, mark] = named;
                std::vector<std::int64_t> steps;
                for (const auto& [first, last] : mark.steps.ranges())
                    for (std::int64_t step = first; step <= last && steps.size() < most_listed; ++step)
                        steps.push_back(step);
                json_.members("name", printable(name), "steps", steps);
            });
            json_.members("long_steps", inputs_.verdict->events.unmarked_steps);
        });
    }

    void write_breakdown() {
        section("breakdown", breakdown_.empty, [&] {
            json_.objects("parts", breakdown_.parts, [&](const BreakdownPart& part) {
                json_.members("name", printable(part.name), "color",
                              part.color ? std::optional<std::int64_t>(*part.color) : std::nullopt);
            });
            json_.objects("bars", breakdown_.bars, [&](const BreakdownBar& bar) {
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

    void write_timeline() {
        section("timeline", timeline_.empty, [&] {
            json_.objects("steps", timeline_.steps, [&](const TimelineStep& step) {
                json_.members("step", step.step, "start_ns", std::to_string(step.start_ns), "length_ms",
                              step.length_ms);
            });
            json_.objects("ranks", timeline_.ranks, [&](const TimelineRank& rank) {
                json_.members("rank", rank.rank, "why", printable(rank.why));
            });
            json_.objects("lanes", timeline_.lanes, [&](const Lane& lane) {
                json_.members("rank", timeline_.ranks[lane.rank].rank, "name", lane.name);
            });
            json_.members("each_from_zero", timeline_.each_from_zero);
            json_.object("spans", [&] { write_spans(); });
        });
    }

    void write_spans() {
        const auto column = [this](auto member) {
            std::vector<std::int64_t> values;
            for (const TimelineSpan& span : timeline_.spans) values.push_back(static_cast<std::int64_t>(span.*member));
            return values;
        };
        const auto times = [this](double TimelineSpan::*member) {
            std::vector<double> values;
            for (const TimelineSpan& span : timeline_.spans) values.push_back(span.*member);
            return values;
        };
        json_.members("lane", column(&TimelineSpan::lane), "step", column(&TimelineSpan::step), "phase",
                      column(&TimelineSpan::phase));
        numbers("start_ms", times(&TimelineSpan::start_ms), 9);
        numbers("duration_ms", times(&TimelineSpan::duration_ms), 9);
        json_.members("depth", column(&TimelineSpan::depth), "join", column(&TimelineSpan::join));
    }

    void write_what_if() {
        const tool::Replay& replay = inputs_.verdict->replay;
        section("whatif", why_no_replay(replay), [&] {
            json_.members("observed_ms", replay.observed_ms, "replayed_ms", replay.replayed_ms, "ideal_ms",
                          replay.ideal_ms, "holds", replay.holds());
            json_.objects("losses", losses_of(replay),
                          [&](const Loss& loss) { json_.members("label", loss.label, "ms", loss.ms); });
            json_.objects("causes", replay.causes, [&](const tool::Cause& cause) {
                json_.members("label", printable(name_cause(cause)), "kind", tool::cause_name(cause.kind), "phase",
                              printable(cause.phase), "ms", cause.cost_ms, "slowdown", cause.slowdown);
            });
        });
    }

    void write_comm() {
        const bool any = inputs_.comm != nullptr && !inputs_.comm->models.empty();
        section("comm",
                any                       ? ""
                : inputs_.comm != nullptr ? "There are no spans of communication."
                                          : inputs_.why_no_comm,
                [&] {
                    const std::size_t count = std::min<std::size_t>(64, inputs_.comm->models.size());
                    json_.objects("models", std::span(inputs_.comm->models).first(count),
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
        const std::vector<CounterOfRanks> counters = find_memory(*inputs_.job, view_);
        section("memory", counters.empty() ? "No memory was counted." : "", [&] {
            json_.objects("counters", counters, [&](const CounterOfRanks& counter) {
                json_.members("name", printable(counter.name), "unit", "bytes");
                json_.key("by_rank");
                write_block(json_, encode(counter.by_rank));
            });
        });
    }

    void write_side(std::string_view side, const compare::PhaseSide& of) {
        const std::string prefix(side);
        const bool any = of.steps > 0;
        const double low = of.interval_ms ? of.interval_ms->low : NAN;
        const double high = of.interval_ms ? of.interval_ms->high : NAN;
        json_.members(prefix + "_ms", any ? std::optional(of.median_ms) : std::nullopt, prefix + "_low_ms", low,
                      prefix + "_high_ms", high);
    }

    void write_comparison(const compare::Comparison& comparison) {
        json_.object("compare", [&] {
            json_.members("a", printable(comparison.a.name), "b", printable(comparison.b.name));
            json_.key("rows").begin_array();
            const auto write = [&](const compare::Change& change) {
                json_.begin_object();
                json_.members("name", printable(change.name), "kind", schema::kind_name(change.kind));
                write_side("a", change.a);
                write_side("b", change.b);
                const double low = change.change_interval ? change.change_interval->low : NAN;
                const double high = change.change_interval ? change.change_interval->high : NAN;
                json_.members("change", change.change, "change_low", low, "change_high", high, "outcome",
                              compare::outcome_names[static_cast<std::size_t>(change.outcome)]);
                json_.end_object();
            };
            if (comparison.step) write(*comparison.step);
            for (std::size_t i = 0; i < std::min<std::size_t>(200, comparison.phases.size()); ++i)
                write(comparison.phases[i]);
            json_.end_array();
        });
    }

    const ReportInputs& inputs_;
    const JobView& view_;
    const HeatMap& heat_;
    const Breakdown& breakdown_;
    const Timeline& timeline_;
    const FittedHeat& fitted_;
    JsonWriter json_;
};

}  // namespace

std::string write_data(const DataParts& parts, const FittedHeat& heat) {
    const std::string json = Writer(parts, heat).write();
    std::string safe;
    safe.reserve(json.size());
    for (const char& c : json) safe += c == '<' ? "\\u003c" : std::string_view(&c, 1);
    return safe;
}

}  // namespace cep::report
