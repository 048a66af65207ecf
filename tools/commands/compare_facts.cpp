// SPDX-License-Identifier: Apache-2.0
#include "commands/compare_facts.hpp"

#include <utility>

#include "base/freed_memory.hpp"
#include "base/say.hpp"
#include "base/units.hpp"
#include "verdict/verdict_document.hpp"

namespace cep::cli {

using namespace tool;

compare::JobFacts compare_facts(std::string_view command, const std::string& side, const std::string& name,
                                const Job& job, Verdict verdict) {
    compare::JobFacts facts;
    facts.name = name;
    facts.inputs = job.inputs;
    facts.coverage = job.coverage;
    facts.steps = compare::collect_steps(job, verdict.ledger);
    if (facts.steps.folded_phases > 0)
        say("cep {}: {}: the {} with the least time are compared as one, \"other phases\"\n", command, side,
            format_plural(facts.steps.folded_phases, "phase"));
    if (verdict.folded_phases > 0) say("cep {}: {}: {}\n", command, side, describe_folded_phases(verdict));
    facts.verdict = std::move(verdict);
    facts.settings = find_settings(job.ranks).usual;
    return_freed_memory();      // of the verdict
    facts.verdict.ledger = {};  // what is compared of it is in the steps
    return facts;
}

}  // namespace cep::cli
