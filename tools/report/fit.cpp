// SPDX-License-Identifier: Apache-2.0
#include "report/fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/units.hpp"

namespace cep::report {
namespace {

constexpr double share_of_all = 0.9;        // of the room, for layers in full
constexpr double overview_share = 0.6;      // of the room: the rest is for finer levels
constexpr std::size_t bytes_of_keys = 260;  // of a block, and what stands round it

struct Fineness {
    std::size_t rows;
    std::size_t columns;
    int bits;
};
// From fine to coarse.
constexpr std::array<Fineness, 8> finenesses = {{{512, 1000, 16},
                                                 {512, 1000, 8},
                                                 {256, 1000, 8},
                                                 {256, 500, 8},
                                                 {128, 500, 8},
                                                 {64, 250, 8},
                                                 {32, 125, 8},
                                                 {16, 64, 8}}};

std::size_t size_of(const Block& block) {
    return block.data.size() + bytes_of_keys;
}

class Fitter {
  public:
    Fitter(const HeatMap& heat, const JobView& view, std::size_t max_bytes)
        : heat_(heat), view_(view), room_(max_bytes) {}

    FittedHeat fit() {
        for (const Fineness& fineness : finenesses)
            if (fit_overviews(fineness)) break;
        add_by_rank();
        add_levels();
        describe();
        return std::move(fitted_);
    }

  private:
    /// Whether all of them fit. With the coarsest, as many as do.
    bool fit_overviews(const Fineness& fineness) {
        const bool is_last = &fineness == &finenesses.back();
        const bool is_all = fineness.rows >= view_.ranks.size() && fineness.columns >= view_.steps.size();
        const auto room =
            static_cast<std::size_t>((is_all ? share_of_all : overview_share) * static_cast<double>(room_));
        fitted_ = {};
        used_ = 0;
        for (const Layer& layer : heat_.layers) {
            FittedLayer fitted{&layer,
                               encode(reduce(layer.overview, fineness.rows, fineness.columns), fineness.bits),
                               {},
                               false,
                               false};
            if (used_ + size_of(fitted.overview) > room) {
                if (is_last) break;
                return false;
            }
            used_ += size_of(fitted.overview);
            fitted_.layers.push_back(std::move(fitted));
        }
        fitted_.rank_bins = merge_bins(heat_.rank_bins, fineness.rows);
        fitted_.step_bins = merge_bins(heat_.step_bins, fineness.columns);
        bits_ = fineness.bits;
        return true;
    }

    bool take(std::size_t bytes) {
        if (used_ + bytes > room_) return false;
        used_ += bytes;
        return true;
    }

    void add_by_rank() {
        for (FittedLayer& fitted : fitted_.layers) {
            Block block = encode(fitted.layer->by_rank);
            if (take(size_of(block))) fitted.by_rank = std::move(block);
        }
    }

    void add_levels() {
        if (fitted_.rank_bins.size() == view_.ranks.size() && fitted_.step_bins.size() == view_.steps.size()) return;
        for (FittedLayer& fitted : fitted_.layers)
            if (fitted.layer->of_chosen && take(size_of(*fitted.layer->of_chosen))) fitted.has_chosen = true;
        for (FittedLayer& fitted : fitted_.layers)
            if (fitted.layer->full && take(size_of(*fitted.layer->full))) fitted.has_full = true;
    }

    void describe() {
        const std::size_t layers = heat_.layers.size();
        const bool is_binned = !heat_.is_whole || fitted_.rank_bins.size() < view_.ranks.size() ||
                               fitted_.step_bins.size() < view_.recorded_steps;
        const auto full =
            std::count_if(fitted_.layers.begin(), fitted_.layers.end(), [](const auto& one) { return one.has_full; });
        if (fitted_.layers.size() < layers)
            fitted_.left_out.push_back(fmt::format("{} of the heat map left out for size",
                                                   tool::format_plural(layers - fitted_.layers.size(), "layer")));
        if (!is_binned) {
            if (bits_ == 8) fitted_.left_out.emplace_back("the values of the heat map are rounded, to 8 bits each");
            return;
        }
        std::string text = fmt::format("heat map: {} ranks × {} steps in {} × {} cells, each with its largest value",
                                       tool::format_count(view_.ranks.size()), tool::format_count(view_.recorded_steps),
                                       fitted_.rank_bins.size(), fitted_.step_bins.size());
        if (full > 0) {
            text += fmt::format("; {} of {} layers {}", full, fitted_.layers.size(),
                                view_.steps.size() < view_.recorded_steps
                                    ? fmt::format("in {} × {} too", view_.ranks.size(), view_.steps.size())
                                    : "in full too");
        } else if (std::any_of(fitted_.layers.begin(), fitted_.layers.end(),
                               [](const auto& one) { return one.has_chosen; })) {
            text +=
                fmt::format("; in full for the {} that matter most", tool::format_plural(heat_.chosen.size(), "rank"));
        }
        fitted_.left_out.push_back(text);
    }

    const HeatMap& heat_;
    const JobView& view_;
    const std::size_t room_;
    std::size_t used_ = 0;
    int bits_ = 16;  // of overviews
    FittedHeat fitted_;
};

}  // namespace

FittedHeat fit_heat(const HeatMap& heat, const JobView& view, std::size_t max_bytes) {
    return Fitter(heat, view, max_bytes).fit();
}

}  // namespace cep::report
