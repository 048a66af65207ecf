// SPDX-License-Identifier: Apache-2.0
#include "report/breakdown.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace cep::report {
namespace {

using tool::TimeKind;

constexpr double least_part = 0.005;  // of one of the bars; less is one part with the rest
constexpr std::string_view small_ones = "all the rest";

struct PieceLook {
    TimeKind piece;
    std::string_view style;  // "c0" to "c7" are colours
};
// A piece looks the same on every page, unless two with the same colour are on it.
constexpr std::array<PieceLook, tool::piece_count> looks = {{
    {TimeKind::compute, "c0"},      {TimeKind::transfer, "comm"},  {TimeKind::waiting, "wait"},
    {TimeKind::bubble, "c6"},       {TimeKind::memory, "c4"},      {TimeKind::host_to_device, "c4"},
    {TimeKind::data, "c1"},         {TimeKind::host, "c3"},        {TimeKind::checkpoint, "c2"},
    {TimeKind::evaluation, "c2"},   {TimeKind::logging, "c7"},     {TimeKind::other, "others"},
    {TimeKind::host_late, "c5"},    {TimeKind::uncovered, "rest"}, {TimeKind::startup, "c7"},
    {TimeKind::between, "rest"},    {TimeKind::restart, "c5"},     {TimeKind::redone, "c5"},
    {TimeKind::unrecorded, "rest"},
}};

/// With the next colour, if one of `parts` has that of the piece already.
BreakdownPart breakdown_part(const PieceLook& look, const std::vector<BreakdownPart>& parts) {
    BreakdownPart part{std::string(tool::facts_of(look.piece).meaning), std::nullopt, std::string(look.style)};
    if (look.style.size() != 2) return part;
    part.color = look.style.back() - '0';
    const auto is_taken = [&](int color) {
        return std::any_of(parts.begin(), parts.end(), [=](const BreakdownPart& one) { return one.color == color; });
    };
    for (int tries = 0; tries < colors && is_taken(*part.color); ++tries) part.color = (*part.color + 1) % colors;
    part.style = "c" + std::to_string(*part.color);
    return part;
}

/// A label, and the index of a rank.
using Chosen = std::pair<std::string, std::size_t>;

std::vector<Chosen> choose_ranks(const JobView& view) {
    const std::vector<std::size_t> ranks = order_known(view.slowness_ms);
    if (ranks.empty()) return {{"one of the ranks", 0}};
    std::vector<Chosen> chosen = {{"most own work", ranks.back()}};
    if (ranks.size() > 2) chosen.emplace_back("median", ranks[ranks.size() / 2]);
    if (ranks.size() > 1) chosen.emplace_back("least own work", ranks.front());
    return chosen;
}

double ms_a_step(std::int64_t ns, const tool::RankLedger& rank) {
    return static_cast<double>(ns) * 1e-6 / static_cast<double>(rank.steps);
}

bool is_large(const std::vector<const tool::RankLedger*>& ranks, TimeKind piece) {
    return std::any_of(ranks.begin(), ranks.end(), [&](const tool::RankLedger* rank) {
        return static_cast<double>(rank->pieces[piece]) > least_part * static_cast<double>(rank->elapsed_ns);
    });
}

}  // namespace

Breakdown find_breakdown(const JobView& view, const tool::Ledger& ledger) {
    Breakdown found;
    std::vector<const tool::RankLedger*> ranks;
    for (const auto& [label, index] : choose_ranks(view)) {
        if (index >= view.ranks.size()) continue;
        const tool::RankLedger* const rank = ledger.find_rank(view.ranks[index]);
        if (rank == nullptr || rank->steps == 0 || rank->elapsed_ns == 0) continue;
        ranks.push_back(rank);
        found.bars.push_back({label, index, ms_a_step(rank->elapsed_ns, *rank), {}});
    }
    if (ranks.empty()) return {"No rank has a step whose time is known.", {}, {}};
    for (const PieceLook& look : looks) {
        if (!is_large(ranks, look.piece)) continue;
        found.parts.push_back(breakdown_part(look, found.parts));
        for (std::size_t i = 0; i < ranks.size(); ++i)
            found.bars[i].ms.push_back(ms_a_step(ranks[i]->pieces[look.piece], *ranks[i]));
    }
    found.parts.push_back({std::string(small_ones), std::nullopt, "others"});
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        std::int64_t rest_ns = 0;
        for (const PieceLook& look : looks)
            if (!is_large(ranks, look.piece)) rest_ns += ranks[i]->pieces[look.piece];
        found.bars[i].ms.push_back(ms_a_step(rest_ns, *ranks[i]));
    }
    return found;
}

}  // namespace cep::report
