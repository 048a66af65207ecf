// SPDX-License-Identifier: Apache-2.0
//
// Binary segmentation (Scott and Knott, Biometrics 1974) on logarithms, with contrasts that may be a cut, a burst
// (Levin and Kline, "The CUSUM test of homogeneity with an application in spontaneous abortion epidemiology",
// Statistics in Medicine 4, 1985) or a ramp, and with the long-run variance of what a contrast leaves, so that values
// that resemble their neighbours look like no change. Two scales: with outliers cut off, on which one stall is no
// change, and as they are, on which more and more stalls are.
#include "stats/change_points.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "stats/contrast.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr double tail_share = 0.1;     // of the values, on either side
constexpr double tails_kept = 3;       // beyond so many distances of the median from a tail, values are cut off
constexpr double startup_share = 0.1;  // of the values, at most
constexpr std::size_t startup_steps = 32;
constexpr double most_of_change = 0.5;  // of the mean's, that of the typical value at least
constexpr double nearly_back = 0.25;    // of a burst, the level behind it differs by no more from that before it

/// One accepted contrast, in positions of the whole series.
struct Stretch {
    ContrastKind kind = ContrastKind::cut;
    std::size_t first = 0;
    std::size_t last = 0;  // of a cut the same as `first`; of a ramp its end
    double from = 0;       // logarithms: the levels that were fitted
    double to = 0;

    [[nodiscard]] double change() const { return to - from; }
};

std::vector<double> logs_of(std::span<const double> values) {
    std::vector<double> logs;
    for (const double value : values) logs.push_back(std::log(value));
    return logs;
}

std::vector<double> without_outliers(const std::vector<double>& logs) {
    const std::vector<double> q = quantiles_of(logs, {tail_share, 0.5, 1 - tail_share});
    std::vector<double> kept;
    for (const double value : logs)
        kept.push_back(std::clamp(value, q[1] - tails_kept * (q[1] - q[0]), q[1] + tails_kept * (q[2] - q[1])));
    return kept;
}

double squares_of(std::span<const double> values) {
    const double mean = mean_of(values);
    double sum = 0;
    for (const double value : values) sum += (value - mean) * (value - mean);
    return sum;
}

class Segmentation {
  public:
    Segmentation(std::span<const double> values, const ChangeRules& rules)
        : rules_(rules), logs_(logs_of(values)), usual_(without_outliers(logs_)) {}

    std::vector<Stretch> find() {
        split(0, logs_.size());
        std::sort(pieces_.begin(), pieces_.end(), [](const Stretch& a, const Stretch& b) { return a.first < b.first; });
        return std::move(pieces_);
    }

    /// The stairs of a ramp, if these explain the values between two positions better than its line; else none.
    /// Schwarz's criterion, "Estimating the dimension of a model", Annals of Statistics 6, 1978.
    [[nodiscard]] std::vector<Stretch> find_stairs(const Stretch& ramp, std::size_t begin, std::size_t end) const {
        const std::span<const double> segment = std::span(usual_).subspan(begin, end - begin);
        std::vector<std::size_t> cuts;
        cut_by_criterion(segment, 0, segment.size(), cuts);
        std::sort(cuts.begin(), cuts.end());
        if (cuts.size() < 2) return {};
        cuts.push_back(segment.size());
        double of_stairs = 0;
        std::size_t first = 0;
        std::vector<double> levels;
        for (const std::size_t cut : cuts) {
            of_stairs += squares_of(segment.subspan(first, cut - first));
            levels.push_back(mean_of(segment.subspan(first, cut - first)));
            first = cut;
        }
        if (criterion(of_stairs, 2 * (cuts.size() - 1), segment.size()) >=
            criterion(squares_of_ramp(ramp, begin, end), 3, segment.size()))
            return {};
        std::vector<Stretch> stairs;
        for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
            if ((levels[i + 1] - levels[i]) * ramp.change() <= 0) return {};
            stairs.push_back({ContrastKind::cut, begin + cuts[i], begin + cuts[i], levels[i], levels[i + 1]});
        }
        return stairs;
    }

  private:
    [[nodiscard]] static double criterion(double squares, std::size_t parameters, std::size_t size) {
        const auto count = static_cast<double>(size);
        return count * std::log(std::max(squares / count, 1e-18)) + static_cast<double>(parameters) * std::log(count);
    }

    [[nodiscard]] double squares_of_ramp(const Stretch& ramp, std::size_t begin, std::size_t end) const {
        const Contrast contrast{ContrastKind::ramp, ramp.first, ramp.last};
        std::vector<double> rest;
        for (std::size_t i = begin; i < end; ++i) rest.push_back(usual_[i] - ramp.change() * contrast.share(i));
        return squares_of(rest);
    }

    void cut_by_criterion(std::span<const double> segment, std::size_t first, std::size_t last,
                          std::vector<std::size_t>& cuts) const {
        const std::span<const double> here = segment.subspan(first, last - first);
        const std::vector<FittedContrast> found = find_contrasts(here, rules_.least_steps);
        if (found.empty()) return;
        const double squares = squares_of(here);
        if (criterion(squares - found.front().explained, 2, here.size()) >= criterion(squares, 0, here.size())) return;
        const std::size_t cut = first + found.front().contrast.first;
        cuts.push_back(cut);
        cut_by_criterion(segment, first, cut, cuts);
        cut_by_criterion(segment, cut, last, cuts);
    }

    /// Finds the contrast that explains [first, last) best, and those of the segments that it leaves.
    void split(std::size_t first, std::size_t last) {
        const auto found = find_best(first, last);
        if (!found) return;
        const Contrast& contrast = found->contrast;
        const std::size_t from = first + contrast.first;
        const std::size_t to = contrast.kind == ContrastKind::cut ? from : first + contrast.last;
        const double mean = mean_of(std::span(logs_).subspan(first, last - first));
        const double before = mean - found->change * found->mean_share;
        const double after = before + found->change;
        if (contrast.kind == ContrastKind::burst) {
            pieces_.push_back({ContrastKind::cut, from, from, before, after});
            pieces_.push_back({ContrastKind::cut, to, to, after, before});
            split(from, to);
        } else {
            pieces_.push_back({contrast.kind, from, to, before, after});
        }
        split(first, from);
        split(to, last);
    }

    [[nodiscard]] std::optional<FittedContrast> find_best(std::size_t first, std::size_t last) const {
        const std::span<const double> usual = std::span(usual_).subspan(first, last - first);
        std::optional<FittedContrast> best;
        double least = 0;
        for (const FittedContrast& one : find_contrasts(usual, rules_.least_steps)) {
            if (significance(usual, one, rules_.false_alarms) < 1) continue;
            const std::size_t parameters = one.contrast.kind == ContrastKind::cut ? 2 : 3;
            const double of_one = criterion(squares_of(usual) - one.explained, parameters, usual.size());
            if (!best || of_one < least) best = one;
            least = std::min(best ? least : of_one, of_one);
        }
        if (best) return best;
        const std::span<const double> all = std::span(logs_).subspan(first, last - first);
        const std::vector<FittedContrast> found = find_contrasts(all, rules_.least_steps);
        if (!found.empty() && significance(all, found.front(), rules_.false_alarms) >= 1) return found.front();
        return std::nullopt;
    }

    const ChangeRules& rules_;
    const std::vector<double> logs_;
    const std::vector<double> usual_;
    std::vector<Stretch> pieces_;
};

/// Makes changes of pieces.
class Description {
  public:
    Description(std::span<const double> values, const ChangeRules& rules, std::vector<Stretch> pieces)
        : values_(values), rules_(rules), pieces_(std::move(pieces)) {}

    std::vector<ChangePoint> describe(const Segmentation& segmentation) {
        resolve_stairs(segmentation);
        while (next_ < pieces_.size()) add_run();
        return std::move(points_);
    }

  private:
    [[nodiscard]] std::size_t begin_of(std::size_t i) const { return i == 0 ? 0 : pieces_[i - 1].last; }
    [[nodiscard]] std::size_t end_of(std::size_t i) const {
        return i + 1 < pieces_.size() ? pieces_[i + 1].first : values_.size();
    }

    void resolve_stairs(const Segmentation& segmentation) {
        std::vector<Stretch> resolved;
        for (std::size_t i = 0; i < pieces_.size(); ++i) {
            std::vector<Stretch> stairs;
            if (pieces_[i].kind == ContrastKind::ramp)
                stairs = segmentation.find_stairs(pieces_[i], begin_of(i), end_of(i));
            if (stairs.empty()) stairs.push_back(pieces_[i]);
            resolved.insert(resolved.end(), stairs.begin(), stairs.end());
        }
        pieces_ = std::move(resolved);
    }

    /// All pieces from the next one on that go in its direction.
    void add_run() {
        const std::size_t first = next_;
        const bool rises = pieces_[first].change() > 0;
        while (next_ < pieces_.size() && (pieces_[next_].change() > 0) == rises) ++next_;
        if (!rises && is_startup(first)) return;
        ChangePoint point{ChangeShape::step,       begin_of(first),   pieces_[first].first,
                          pieces_[next_ - 1].last, end_of(next_ - 1), next_ - first};
        const auto is_ramp = [](const Stretch& piece) { return piece.kind == ContrastKind::ramp; };
        const bool has_ramp = std::any_of(pieces_.begin() + static_cast<std::ptrdiff_t>(first),
                                          pieces_.begin() + static_cast<std::ptrdiff_t>(next_), is_ramp);
        if (has_ramp)
            point.shape = ChangeShape::ramp;
        else if (point.stairs > 1)
            point.shape = ChangeShape::stair;
        else if (returns(first)) {
            point.shape = ChangeShape::burst;
            point.last = pieces_[next_].first;
            point.end = end_of(next_);
            ++next_;
        }
        add_figures(point, pieces_[first], pieces_[first + point.stairs - 1]);
        if (is_worth_saying(point)) points_.push_back(point);
    }

    [[nodiscard]] bool is_startup(std::size_t piece) const {
        const auto most = static_cast<std::size_t>(startup_share * static_cast<double>(values_.size()));
        return piece == 0 && (pieces_[piece].first + pieces_[piece].last) / 2 <= std::max(startup_steps, most);
    }

    /// Whether one cut undoes another, and nothing follows in its direction.
    [[nodiscard]] bool returns(std::size_t i) const {
        if (i + 1 >= pieces_.size() || pieces_[i + 1].kind != ContrastKind::cut) return false;
        if (i + 2 < pieces_.size() && (pieces_[i + 2].change() > 0) == (pieces_[i + 1].change() > 0)) return false;
        const double change = pieces_[i].change();
        return std::abs(change + pieces_[i + 1].change()) <= nearly_back * std::abs(change);
    }

    [[nodiscard]] LevelFigures figures_of(std::size_t first, std::size_t last, double long_from) const {
        const std::span<const double> segment = values_.subspan(first, last - first);
        const auto longs =
            std::count_if(segment.begin(), segment.end(), [&](double value) { return value > long_from; });
        return {median_of(segment), mean_of(segment), static_cast<double>(longs) / static_cast<double>(segment.size())};
    }

    void add_figures(ChangePoint& point, const Stretch& first, const Stretch& last) const {
        const auto has = [&](std::size_t from, std::size_t to) { return to >= from + rules_.least_steps; };
        if (has(point.begin, point.first))
            point.before = figures_of(point.begin, point.first, INFINITY);
        else
            point.before = {std::exp(first.from), std::exp(first.from), 0};
        const double long_from = rules_.long_ratio * point.before.typical;
        if (has(point.begin, point.first)) point.before = figures_of(point.begin, point.first, long_from);
        if (has(point.after_first(), point.after_last()))
            point.after = figures_of(point.after_first(), point.after_last(), long_from);
        else
            point.after = {std::exp(last.to), std::exp(last.to), 0};
        point.is_typical =
            !has(point.begin, point.first) || !has(point.after_first(), point.after_last()) || moves_quartiles(point);
    }

    // Steps that are long now and then may be most of a level. Where the typical step changes, the short ones do too.
    [[nodiscard]] bool moves_quartiles(const ChangePoint& point) const {
        const auto quartiles = [&](std::size_t from, std::size_t to) {
            return quantiles_of(values_.subspan(from, to - from), {0.25, 0.75});
        };
        const std::vector<double> before = quartiles(point.begin, point.first);
        const std::vector<double> after = quartiles(point.after_first(), point.after_last());
        const double change = point.after.typical - point.before.typical;
        if (!(change / (point.after.mean - point.before.mean) >= most_of_change)) return false;
        return std::min((after[0] - before[0]) / change, (after[1] - before[1]) / change) >= most_of_change;
    }

    /// Large enough; and of long values there are as many as a level needs.
    [[nodiscard]] bool is_worth_saying(const ChangePoint& point) const {
        if (!(std::abs(point.relative()) >= rules_.least_change)) return false;
        const double before = point.before.long_share * static_cast<double>(point.first - point.begin);
        const double after = point.after.long_share * static_cast<double>(point.after_last() - point.after_first());
        return point.is_typical || std::max(before, after) >= static_cast<double>(rules_.least_steps);
    }

    const std::span<const double> values_;
    const ChangeRules& rules_;
    std::vector<Stretch> pieces_;
    std::size_t next_ = 0;
    std::vector<ChangePoint> points_;
};

}  // namespace

std::vector<ChangePoint> find_change_points(std::span<const double> values, const ChangeRules& rules) {
    if (values.size() < 2 * rules.least_steps) return {};
    Segmentation segmentation(values, rules);
    std::vector<Stretch> pieces = segmentation.find();
    return Description(values, rules, std::move(pieces)).describe(segmentation);
}

}  // namespace cep::tool
