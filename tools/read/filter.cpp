// SPDX-License-Identifier: Apache-2.0
#include "read/filter.hpp"

#include <algorithm>
#include <limits>

#include "base/failure.hpp"
#include "base/text.hpp"
#include "read/row.hpp"

namespace cep::tool {
namespace {

std::int64_t parse_integer(std::string_view text, std::string_view option) {
    const auto number = parse_number<std::int64_t>(text);
    if (!number) throw UsageError(std::string(option) + ": '" + std::string(text) + "' is not a whole number");
    return *number;
}

}  // namespace

void Filter::set_steps(std::string_view text) {
    steps_ = {};
    for (const std::string_view range : split(text, ',')) {
        const std::size_t colon = range.find(':');
        const std::string_view begin = range.substr(0, colon);
        const std::string_view end = colon == std::string_view::npos ? begin : range.substr(colon + 1);
        std::int64_t first = std::numeric_limits<std::int64_t>::min();
        std::int64_t last = std::numeric_limits<std::int64_t>::max();
        if (!begin.empty() || colon == std::string_view::npos) first = parse_integer(begin, "--steps");
        if (!end.empty()) last = parse_integer(end, "--steps");
        if (first > last) throw UsageError("--steps: '" + std::string(range) + "' ends before it begins");
        steps_.insert(first, last);
    }
}

void Filter::set_ranks(std::string_view text) {
    for (const std::string_view range : split(text, ',')) {
        const std::size_t dash = range.find('-');
        const std::int64_t first = parse_integer(range.substr(0, dash), "--ranks");
        const std::int64_t last =
            dash == std::string_view::npos ? first : parse_integer(range.substr(dash + 1), "--ranks");
        if (first > last) throw UsageError("--ranks: '" + std::string(range) + "' ends before it begins");
        ranks_.insert(first, last);
    }
}

void Filter::set_phases(std::string_view text) {
    for (const std::string_view name : split(text, ',')) {
        if (name.empty()) throw UsageError("--phases: an empty name in \"" + std::string(text) + "\"");
        phases_.emplace_back(name);
    }
    std::sort(phases_.begin(), phases_.end());
    phases_.erase(std::unique(phases_.begin(), phases_.end()), phases_.end());
}

bool Filter::accepts_among_others(const Row& row) const {
    if (!ranks_.empty() && !(row.rank && accepts_rank(*row.rank))) return false;
    if (row.type == RowType::run || row.type == RowType::stats) return true;
    if (row.step && has_steps() && !steps_.contains(*row.step)) return false;
    if (phases_.empty()) return true;
    if (row.type != RowType::span && row.type != RowType::open) return false;
    return std::find(phases_.begin(), phases_.end(), row.name) != phases_.end();
}

AttemptChoice AttemptChoice::parse(std::string_view text) {
    if (text == "last") return {Mode::last, 0};
    if (text == "all") return {Mode::all, 0};
    const auto number = parse_number<std::int64_t>(text);
    if (!number) throw UsageError("--attempt: '" + std::string(text) + "' is not last, all or a whole number");
    return {Mode::one, *number};
}

}  // namespace cep::tool
