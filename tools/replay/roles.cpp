// SPDX-License-Identifier: Apache-2.0
#include "replay/roles.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace cep::tool {
namespace {

template <typename Value>
std::vector<Value> each_once(std::vector<Value> values) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return values;
}

/// `all`: what tells roles apart, ascending. `its_own`: that of the next rank.
template <typename Value>
void add_rank(Roles& roles, const std::vector<Value>& all, const Value& its_own) {
    const auto role = std::lower_bound(all.begin(), all.end(), its_own) - all.begin();
    roles.members.resize(all.size());
    roles.members[static_cast<std::size_t>(role)].push_back(static_cast<std::uint32_t>(roles.of_rank.size()));
    roles.of_rank.push_back(static_cast<std::uint32_t>(role));
}

/// The first transfer of a rank in a step, and with whom.
struct FirstTransfer {
    double start_ms = INFINITY;
    double end_ms = 0;
    std::uint32_t other = 0;
};

class RoleFinder {
  public:
    RoleFinder(const JobRows& job, double tolerance_ms)
        : job_(job),
          tolerance_ms_(tolerance_ms),
          votes_(job_.ranks().size()),
          steps_(job_.ranks().size()),
          steps_with_(job_.ranks().size()),
          depths_(job_.ranks().size(), unknown) {}

    void look_at(const StepRows& step) {
        const std::vector<FirstTransfer> first = first_transfers(step);
        for (const RankRows& rank : step.ranks) {
            double compute_ms = INFINITY;
            std::vector<std::uint16_t> names;
            for (std::uint32_t i = rank.first; i < rank.last; ++i) {
                const TimedRow& row = step.rows[i];
                names.push_back(row.name);
                if (job_.names()[row.name].kind == schema::Kind::compute)
                    compute_ms = std::min(compute_ms, row.start_ms);
            }
            for (const std::uint16_t name : each_once(std::move(names))) ++steps_with_[rank.rank][name];
            ++steps_[rank.rank];
            const FirstTransfer& transfer = first[rank.rank];
            const bool is_first =
                std::isinf(transfer.start_ms) || std::isinf(compute_ms) || compute_ms < transfer.end_ms - tolerance_ms_;
            ++votes_[rank.rank][is_first ? nobody : std::int64_t{transfer.other}];
        }
    }

    Roles finish() {
        std::vector<Signature> signatures;
        for (std::uint32_t rank = 0; rank < votes_.size(); ++rank) {
            Signature& signature = signatures.emplace_back(depth_of(rank), std::vector<std::uint16_t>());
            for (const auto& [name, steps] : steps_with_[rank])
                if (2 * steps >= steps_[rank]) signature.second.push_back(name);
        }
        join_larger_roles(signatures);
        const std::vector<Signature> sorted = each_once(signatures);
        Roles roles;
        roles.are_inferred = true;
        roles.pipeline_length = static_cast<std::size_t>(sorted.back().first) + 1;
        for (const Signature& signature : signatures) add_rank(roles, sorted, signature);
        for (std::size_t i = 0; i < sorted.size(); ++i) roles.stages.push_back(static_cast<std::int64_t>(i));
        return roles;
    }

  private:
    /// How far from the pipeline's begin, and the names of its rows, ascending.
    using Signature = std::pair<int, std::vector<std::uint16_t>>;

    // A rank that does all that the ranks of a larger role do, and more on its own, is one of them; so is one that has
    // no rows of some of their work.
    void join_larger_roles(std::vector<Signature>& signatures) const {
        std::map<Signature, std::size_t> ranks;
        for (const Signature& signature : signatures) ++ranks[signature];
        std::map<Signature, Signature> larger;
        for (const auto& [signature, count] : ranks) {
            std::size_t most = count;
            for (const auto& [other, of_other] : ranks) {
                if (of_other <= most || !(does_more(signature, other) || does_more(other, signature))) continue;
                most = of_other;
                larger[signature] = other;
            }
        }
        for (Signature& signature : signatures)
            if (const auto found = larger.find(signature); found != larger.end()) signature = found->second;
    }

    [[nodiscard]] bool does_more(const Signature& signature, const Signature& other) const {
        const std::vector<std::uint16_t>& names = signature.second;
        if (signature.first != other.first ||
            !std::includes(names.begin(), names.end(), other.second.begin(), other.second.end()))
            return false;
        return std::all_of(names.begin(), names.end(), [&](std::uint16_t name) {
            return !job_.names()[name].is_comm() || std::binary_search(other.second.begin(), other.second.end(), name);
        });
    }

    static constexpr int unknown = -1;
    static constexpr std::int64_t nobody = -1;

    [[nodiscard]] std::vector<FirstTransfer> first_transfers(const StepRows& step) const {
        std::vector<FirstTransfer> first(job_.ranks().size());
        const std::vector<CommRow> rows = comm_rows(step);
        for_each_collective(rows, [&first](std::span<const CommRow> members) {
            if (members.size() != 2 || members[0].name == members[1].name || members[0].rank == members[1].rank) return;
            for (std::size_t i = 0; i < 2; ++i) {
                FirstTransfer& of = first[members[i].rank];
                if (members[i].start_ms < of.start_ms)
                    of = {members[i].start_ms, members[i].end_ms, members[1 - i].rank};
            }
        });
        return first;
    }

    int depth_of(std::uint32_t rank) {
        if (depths_[rank] != unknown) return depths_[rank];
        depths_[rank] = 0;  // of a rank that comes before itself
        const auto most = std::max_element(votes_[rank].begin(), votes_[rank].end(),
                                           [](const auto& a, const auto& b) { return a.second < b.second; });
        if (most != votes_[rank].end() && most->first != nobody)
            depths_[rank] = 1 + depth_of(static_cast<std::uint32_t>(most->first));
        return depths_[rank];
    }

    const JobRows& job_;
    const double tolerance_ms_;
    std::vector<std::map<std::int64_t, std::size_t>> votes_;  // by rank: who comes before it in the pipeline
    std::vector<std::size_t> steps_;
    std::vector<std::map<std::uint16_t, std::size_t>> steps_with_;  // by rank and name
    std::vector<int> depths_;
};

}  // namespace

Roles find_roles(std::span<const StepRows> steps, const JobRows& job, double tolerance_ms) {
    const std::vector<JobRank>& ranks = job.ranks();
    if (!std::all_of(ranks.begin(), ranks.end(), [](const JobRank& rank) { return rank.coordinates[0].has_value(); })) {
        RoleFinder finder(job, tolerance_ms);
        for (const StepRows& step : steps) finder.look_at(step);
        return finder.finish();
    }
    Roles roles;
    for (const JobRank& rank : ranks) roles.stages.push_back(*rank.coordinates[0]);
    roles.stages = each_once(std::move(roles.stages));
    roles.pipeline_length = roles.stages.size();
    for (const JobRank& rank : ranks) add_rank(roles, roles.stages, *rank.coordinates[0]);
    return roles;
}

}  // namespace cep::tool
