// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "ledger/job_table.hpp"
#include "ledger/table_quantiles.hpp"

namespace cep::tool {
namespace {

constexpr double clear_startup = 2;  // times a typical step: a first step that takes less may be a pause

class UntrainedSteps {
  public:
    explicit UntrainedSteps(const JobTable& table) : table_(table) {}

    void add_startup(const std::vector<std::int64_t>& startup) {
        const double long_ms = clear_startup * typical_ms(table_.median_step_ms);
        for (std::size_t i = 0; i < table_.steps.size(); ++i)
            if (table_.median_step_ms[i] > long_ms &&
                std::binary_search(startup.begin(), startup.end(), table_.steps[i]))
                steps_.insert(table_.steps[i]);
    }

    void add_last(const std::optional<std::int64_t>& step) {
        if (step) steps_.insert(*step);
    }

    void add_phases() {
        for (const LocalPhase& phase : table_.local) {
            const TimeKind piece = piece_of(phase.name, phase.kind);
            if (piece != TimeKind::checkpoint && piece != TimeKind::evaluation) continue;
            const std::vector<std::size_t> ranks = count_ranks(phase.own_ms);
            for (std::size_t step = 0; step < ranks.size(); ++step)
                if (are_most(ranks[step])) steps_.insert(table_.steps[step]);
        }
    }

    // What no phase covers behind a mark lies in front of the next step.
    void add_marked(const std::string& name, const MarkCount& mark) {
        if (named_piece_of(name) == TimeKind::other || !are_most(mark.ranks.size())) return;
        for (std::size_t i = 0; i < table_.steps.size(); ++i) {
            if (!mark.steps.contains(table_.steps[i])) continue;
            steps_.insert(table_.steps[i]);
            if (is_next_recorded(table_.steps, i)) steps_.insert(table_.steps[i + 1]);
        }
    }

    [[nodiscard]] std::vector<std::int64_t> all() const { return {steps_.begin(), steps_.end()}; }

  private:
    [[nodiscard]] bool are_most(std::size_t ranks) const { return 2 * ranks > table_.ranks.size(); }

    const JobTable& table_;
    std::set<std::int64_t> steps_;
};

}  // namespace

std::vector<std::int64_t> steps_without_training(const Job& job, const JobTable& table, const Ledger& ledger) {
    UntrainedSteps steps(table);
    steps.add_startup(ledger.startup_steps);
    steps.add_last(ledger.last_step);
    steps.add_phases();
    for (const auto& [name, mark] : job.marks) steps.add_marked(name, mark);
    return steps.all();
}

}  // namespace cep::tool
