// SPDX-License-Identifier: Apache-2.0
#include "commands/compare_facts.hpp"

#include <fmt/format.h>

#include "base/say.hpp"
#include "base/units.hpp"
#include "verdict/verdict_document.hpp"

namespace cep::cli {
namespace {

using namespace tool;

compare::VerdictFacts facts_of(const Verdict& verdict) {
    compare::VerdictFacts facts;
    facts.bound = bound_name(verdict.bound);
    if (verdict.abstained && verdict.stragglers.empty()) return facts;
    facts.stragglers.emplace();
    for (const StragglerFact& straggler : verdict.stragglers)
        facts.stragglers->push_back(fmt::format("rank {} in {}", straggler.rank, straggler.phase));
    for (const GroupFact& group : verdict.groups)
        facts.stragglers->push_back(
            fmt::format("ranks {} in {}", format_ranges(group.slow_ranks, 4), group.typical.phase));
    return facts;
}

}  // namespace

compare::JobFacts compare_facts(std::string_view command, const std::string& side, const std::string& name,
                                const Job& job, const Verdict& verdict) {
    compare::JobFacts facts;
    facts.name = name;
    facts.inputs = job.inputs;
    facts.coverage = job.coverage;
    facts.steps = compare::collect_steps(job);
    if (facts.steps.folded_phases > 0)
        say("cep {}: {}: the {} with the least time are compared as one, \"other phases\"\n", command, side,
            format_plural(facts.steps.folded_phases, "phase"));
    if (verdict.folded_phases > 0) say("cep {}: {}: {}\n", command, side, describe_folded_phases(verdict));
    facts.verdict = facts_of(verdict);
    return facts;
}

}  // namespace cep::cli
