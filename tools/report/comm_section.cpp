// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/units.hpp"
#include "comm/comm_report.hpp"
#include "report/sections.hpp"

namespace cep::report {
namespace {

using comm::CommModel;
using comm::SizeReport;
using tool::format_bytes;
using tool::format_duration_ms;

std::string name_of(const CommModel& model) {
    return fmt::format("{}{}, {}", model.name, model.group.empty() ? "" : " in " + model.group_label(),
                       tool::format_plural(model.ranks, "rank"));
}

bool is_drawn(const SizeReport& size) {
    return size.point.bytes > 0 && size.point.transfer_ms > 0;
}

std::vector<const CommModel*> drawn_models(const comm::CommReport& report) {
    constexpr std::size_t most = 7;
    std::vector<const CommModel*> models;
    for (const CommModel& model : report.models)
        if (models.size() < most && std::any_of(model.sizes.begin(), model.sizes.end(), is_drawn))
            models.push_back(&model);
    return models;
}

/// The shade of its name, or the next one that no other operation of the picture has.
std::string free_color_of(const CommModel& model, std::set<std::string>& taken) {
    const std::string name = model.name + model.group_label();
    std::uint32_t shift = 0;
    while (!taken.insert(color_of(schema::Kind::comm, name, shift)).second) ++shift;
    return color_of(schema::Kind::comm, name, shift);
}

void draw_model(Svg& svg, const CommModel& model, const std::string& color, const Axis& x, const Axis& y) {
    if (model.fit) {
        std::vector<Point> line;
        for (int i = 0; i <= 40; ++i) {
            const double bytes =
                static_cast<double>(model.fit->min_bytes) *
                std::pow(static_cast<double>(model.fit->max_bytes) / static_cast<double>(model.fit->min_bytes),
                         i / 40.0);
            const double ms = model.fit->time_ms(bytes);
            line.emplace_back(x(bytes), y.clip(ms) <= ms ? y(y.clip(ms)) : NAN);
        }
        svg.path("median " + color, line);
    }
    constexpr std::size_t most = 64;
    const std::size_t every = std::max<std::size_t>(1, model.sizes.size() / most);
    for (std::size_t i = 0; i < model.sizes.size(); i += every) {
        const SizeReport& size = model.sizes[i];
        if (!is_drawn(size)) continue;
        svg.circle("part " + color, {x(static_cast<double>(size.point.bytes)), y(size.point.transfer_ms)}, 4.5,
                   fmt::format("{}: {} in {}", name_of(model), format_bytes(static_cast<double>(size.point.bytes)),
                               format_duration_ms(size.point.transfer_ms)));
    }
}

Figure draw(const std::vector<const CommModel*>& models) {
    Range bytes;
    Range ms;
    for (const CommModel* model : models)
        for (const SizeReport& size : model->sizes) {
            if (!is_drawn(size)) continue;
            bytes.add(static_cast<double>(size.point.bytes));
            ms.add(size.point.transfer_ms);
        }
    const Plot plot{.left = 90, .right = picture_width - 250, .top = 30, .bottom = 330};
    const Axis x(bytes.low / 1.5, bytes.high * 1.5, plot.left, plot.right, true);
    const Axis y(ms.low / 1.6, ms.high * 1.6, plot.bottom, plot.top, true);
    Svg svg("comm-fit", plot, "Time of a transfer against its size",
            "Sizes from left to right and times from bottom to top, both on logarithmic scales; a dot for each size, a "
            "line for each fit of latency and bandwidth.");
    draw_values_below(svg, plot, x, 6, tick_bytes);
    draw_values_at_left(svg, plot, y, 5, tick_ms);
    svg.rect("frame", plot.left, plot.top, plot.width(), plot.bottom - plot.top);
    svg.text("axis", {plot.left, 18}, Anchor::start, "transfer, without waiting");
    draw_axis_name(svg, plot, "bytes");
    std::set<std::string> taken;
    for (std::size_t i = 0; i < models.size(); ++i) {
        const std::string color = free_color_of(*models[i], taken);
        draw_model(svg, *models[i], color, x, y);
        const double at = 40 + 44 * static_cast<double>(i);
        svg.rect("part " + color, plot.right + 16, at, 12, 12);
        svg.text("label", {plot.right + 34, at + 10}, Anchor::start, shorten(name_of(*models[i]), 30));
        if (const auto& fit = models[i]->fit)
            svg.text("tick", {plot.right + 34, at + 26}, Anchor::start,
                     fmt::format("α {:.1f} µs{}", fit->alpha_us,
                                 fit->beta_gb_per_s ? fmt::format(", β {:.3g} GB/s", *fit->beta_gb_per_s) : ""));
    }
    return {svg.html()};
}

}  // namespace

Section comm_section(const Page& page) {
    const comm::CommReport* const report = page.inputs.comm;
    Section section{"comm", "Communication: latency and bandwidth"};
    if (report == nullptr) return section.without("No communication is timed.");
    if (report->models.empty()) return section.without("There are no spans of communication.");
    const std::vector<const CommModel*> models = drawn_models(*report);
    section.details = comm::model_table(*report,
                                        "name group ranks wait_fraction alpha_us beta_gb_per_s paid_gb_per_s "
                                        "mean_relative_error bus_gb_per_s refused")
                          .html(40);
    std::size_t dots = 0;
    for (const CommModel* const model : models) dots += model->sizes.size();
    if (dots == 1) {
        section.look = "All messages have the same size, so that latency and bandwidth cannot be told apart.";
    } else if (models.empty()) {
        section.look =
            "The rows do not say how many bytes a collective moves, so that latency and bandwidth are not known; "
            "the table has the waiting.";
    } else {
        section.look =
            "Small messages are bound by latency α, large ones by bandwidth β. Dots above their line took longer than "
            "the fit says.";
        section.figures.push_back(draw(models));
    }
    return section;
}

}  // namespace cep::report
