// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "replay/role_template.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr double present_share = 0.5;     // a piece belongs to a role if so many of its steps have it
constexpr double most_violations = 0.02;  // of the steps, in which what is waited for was not over
constexpr double least_waits = 0.01;      // of the steps, in which it was what kept the other waiting
constexpr double least_together = 0.3;    // of the steps, in which both are there
constexpr double near_tolerances = 5;     // between an end and the start that waited for it

/// How often pieces of one phase waited for pieces of another, over all roles.
struct WaitCount {
    std::uint32_t waited = 0;
    std::uint32_t seen = 0;
};
using NamedSegment = std::pair<std::uint16_t, std::uint32_t>;
using WaitCounts = std::map<std::tuple<NamedSegment, NamedSegment, std::uint16_t>, WaitCount>;

NamedSegment named_segment(const TemplateSlot& slot) {
    return {PieceKey::name(slot.key), slot.segment};
}

/// Finds the slots of a role and their order.
class SlotFinder {
  public:
    SlotFinder(const RoleSample& sample, double tolerance_ms) : sample_(sample), tolerance_ms_(tolerance_ms) {}

    void find(RoleTemplate& role) {
        collect();
        std::vector<std::uint64_t> keys;
        for (auto& [key, seen] : seen_)
            if (static_cast<double>(seen.offsets_ms.size()) >= present_share * static_cast<double>(sample_.size()))
                keys.push_back(key);
        std::unordered_map<std::uint64_t, double> offsets_ms;
        for (const std::uint64_t key : keys) offsets_ms[key] = median_of(seen_[key].offsets_ms);
        std::sort(keys.begin(), keys.end(), [&](std::uint64_t a, std::uint64_t b) {
            if (PieceKey::stream(a) != PieceKey::stream(b)) return PieceKey::stream(a) < PieceKey::stream(b);
            return offsets_ms[a] != offsets_ms[b] ? offsets_ms[a] < offsets_ms[b] : a < b;
        });
        put_in_order(keys);
        fill(role, keys, offsets_ms);
        find_now_and_then(role);
    }

  private:
    struct Seen {
        std::vector<double> offsets_ms;
        std::vector<double> own_ms;
        std::set<std::uint32_t> ranks;
        std::size_t nested = 0;
        bool is_comm = false;
    };

    void collect() {
        constexpr std::uint32_t reach = 6;
        for (const RankPieces& pieces : sample_) {
            for (std::uint32_t i = 0; i < pieces.all.size(); ++i) {
                const Piece& piece = pieces.all[i];
                Seen& seen = seen_[piece.key];
                seen.offsets_ms.push_back(piece.start_ms - pieces.first_ms);
                if (!piece.is_typical) seen.own_ms.push_back(piece.own_ms);
                seen.is_comm = piece.is_comm;
                seen.nested += piece.is_nested;
                seen.ranks.insert(pieces.rank);
                for (std::uint32_t j = i + 1; j < std::min<std::size_t>(i + 1 + reach, pieces.all.size()); ++j) {
                    if (pieces.all[j].stream() != piece.stream()) break;
                    const Piece& later = pieces.all[j];
                    if (later.start_ms > piece.start_ms + tolerance_ms_ || piece.end_ms <= later.start_ms)
                        ++before_[{piece.key, later.key}];
                }
            }
        }
    }

    [[nodiscard]] std::uint32_t times_before(std::uint64_t a, std::uint64_t b) const {
        const auto found = before_.find({a, b});
        return found == before_.end() ? 0 : found->second;
    }

    // Medians over different steps misplace neighbours; where both are there, most steps show who comes first.
    void put_in_order(std::vector<std::uint64_t>& keys) const {
        constexpr int most_passes = 20;
        bool swapped = true;
        for (int pass = 0; pass < most_passes && swapped; ++pass) {
            swapped = false;
            for (std::size_t i = 1; i < keys.size(); ++i) {
                if (PieceKey::stream(keys[i - 1]) != PieceKey::stream(keys[i]) ||
                    times_before(keys[i], keys[i - 1]) <= times_before(keys[i - 1], keys[i]))
                    continue;
                std::swap(keys[i - 1], keys[i]);
                swapped = true;
            }
        }
    }

    void fill(RoleTemplate& role, const std::vector<std::uint64_t>& keys,
              const std::unordered_map<std::uint64_t, double>& offsets_ms) {
        std::unordered_map<std::uint64_t, std::uint32_t> segments;
        for (const std::uint64_t key : keys) {
            const bool is_first =
                role.slots.empty() || PieceKey::stream(role.slots.back().key) != PieceKey::stream(key);
            const auto index = static_cast<std::uint32_t>(role.slots.size());
            if (is_first) role.streams.push_back(index);
            role.slot_of[key] = index;
            TemplateSlot& slot = role.slots.emplace_back();
            slot.key = key;
            slot.stream = static_cast<std::uint32_t>(role.streams.size() - 1);
            slot.position = index - role.streams.back();
            slot.is_comm = seen_[key].is_comm;
            slot.is_nested = 2 * seen_[key].nested >= seen_[key].offsets_ms.size() && seen_[key].nested > 0;
            slot.offset_ms = offsets_ms.at(key);
            if (!seen_[key].own_ms.empty()) slot.typical_ms = median_of(seen_[key].own_ms);
            slot.segment = segments[PieceKey::span_of(key)]++;
        }
        role.by_offset.resize(role.slots.size());
        std::iota(role.by_offset.begin(), role.by_offset.end(), 0U);
        std::stable_sort(role.by_offset.begin(), role.by_offset.end(), [&role](std::uint32_t a, std::uint32_t b) {
            return role.slots[a].offset_ms < role.slots[b].offset_ms;
        });
    }

    void find_now_and_then(RoleTemplate& role) const {
        std::set<std::uint32_t> ranks;
        for (const RankPieces& pieces : sample_) ranks.insert(pieces.rank);
        std::map<std::uint16_t, std::set<std::uint32_t>> ranks_of;
        for (const auto& [key, seen] : seen_)
            if (!seen.is_comm && !role.slot_of.contains(key)) ranks_of[PieceKey::name(key)].merge(std::set(seen.ranks));
        for (const auto& [name, of_name] : ranks_of)
            if (2 * of_name.size() > ranks.size()) role.now_and_then.insert(name);
    }

    const RoleSample& sample_;
    const double tolerance_ms_;
    std::unordered_map<std::uint64_t, Seen> seen_;
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t> before_;
};

/// Finds what the slots of a role wait for.
class WaitFinder {
  public:
    WaitFinder(const RoleSample& sample, double tolerance_ms, RoleTemplate& role)
        : count_(sample.size()), tolerance_ms_(tolerance_ms), role_(role) {
        seen_.resize(count_ * role.slots.size());
        order_.resize(count_ * role.streams.size());
        for (std::size_t i = 0; i < count_; ++i) enter(i, sample[i]);
        for (std::size_t i = 0; i < order_.size(); ++i)
            for (std::uint32_t on_stream = 0; on_stream < order_[i].size(); ++on_stream)
                seen_[i / role.streams.size() * role.slots.size() + order_[i][on_stream]].on_stream = on_stream;
        by_end_ = order_;
        for (std::size_t i = 0; i < by_end_.size(); ++i) {
            const std::size_t instance = i / role.streams.size();
            std::erase_if(by_end_[i], [&](std::uint32_t slot) { return std::isnan(end(instance, slot)); });
            std::stable_sort(by_end_[i].begin(), by_end_[i].end(),
                             [&](std::uint32_t a, std::uint32_t b) { return end(instance, a) < end(instance, b); });
        }
    }

    void find_candidates(WaitCounts& counts) {
        find_followers();
        for (std::uint32_t slot = 0; slot < role_.slots.size(); ++slot)
            for (std::uint32_t stream = 0; stream < role_.streams.size(); ++stream)
                if (stream != role_.slots[slot].stream) find_candidate(slot, stream, counts);
    }

    void accept(const WaitCounts& counts) {
        for (const Candidate& candidate : candidates_) {
            const WaitCount& count = counts.at(names_of(candidate));
            const bool is_first = role_.slots[candidate.slot].position == 0;
            if (!is_first && count.waited < std::max(1.0, least_waits * count.seen)) continue;
            add_wait(candidate.slot, candidate.before);
            if (candidate.begins) role_.slots[candidate.slot].begun_by.push_back(candidate.before);
        }
        for (std::uint32_t slot = 0; slot < role_.slots.size(); ++slot)
            for (std::uint32_t stream = 0; role_.slots[slot].is_comm && stream < role_.streams.size(); ++stream)
                if (stream != role_.slots[slot].stream) find_launch(slot, stream);
    }

  private:
    struct Candidate {
        std::uint32_t slot;
        std::uint32_t before;
        bool begins;
    };
    using Names = WaitCounts::key_type;

    /// What one instance has in a slot; NaN where that is not known.
    struct Seen {
        double start_ms = NAN;
        double end_ms = NAN;
        double own_ms = NAN;
        double stopped_ms = 0;
        std::uint32_t on_stream = 0;  // on its stream, among the pieces that are there
    };

    void enter(std::size_t instance, const RankPieces& pieces) {
        for (const Piece& piece : pieces.all) {
            const auto found = role_.slot_of.find(piece.key);
            if (found == role_.slot_of.end()) continue;
            Seen& seen = seen_[instance * role_.slots.size() + found->second];
            seen.start_ms = piece.start_ms;
            seen.stopped_ms = piece.stopped_ms;
            if (!piece.is_typical) {
                seen.end_ms = piece.end_ms;
                seen.own_ms = piece.own_ms;
            }
            order_[instance * role_.streams.size() + role_.slots[found->second].stream].push_back(found->second);
        }
    }
    [[nodiscard]] const Seen& at(std::size_t instance, std::uint32_t slot) const {
        return seen_[instance * role_.slots.size() + slot];
    }
    [[nodiscard]] double start(std::size_t instance, std::uint32_t slot) const { return at(instance, slot).start_ms; }
    [[nodiscard]] double end(std::size_t instance, std::uint32_t slot) const { return at(instance, slot).end_ms; }
    [[nodiscard]] const std::vector<std::uint32_t>& on(std::size_t instance, std::uint32_t stream) const {
        return order_[instance * role_.streams.size() + stream];
    }

    /// When the work before it on its stream had ended.
    [[nodiscard]] double stream_was_busy_until(std::size_t instance, std::uint32_t slot) const {
        const std::vector<std::uint32_t>& order = on(instance, role_.slots[slot].stream);
        for (std::uint32_t i = at(instance, slot).on_stream; i-- > 0;)
            if (end(instance, order[i]) <= start(instance, slot) + tolerance_ms_) return end(instance, order[i]);
        return -INFINITY;
    }

    void find_followers() {
        for (std::uint32_t slot = 0; slot < role_.slots.size(); ++slot) {
            if (role_.slots[slot].position == 0) continue;
            std::size_t both = 0;
            std::size_t near = 0;
            for (std::size_t i = 0; i < count_; ++i) {
                if (std::isnan(start(i, slot)) || std::isnan(end(i, slot - 1))) continue;
                ++both;
                near += start(i, slot) - end(i, slot - 1) <= 2 * tolerance_ms_;
            }
            role_.slots[slot].follows = both > 0 && 2 * near >= both;
        }
    }

    /// By instance: the last slot of the stream that had ended when the other began; no_index for none.
    void find_last_ended(std::uint32_t slot, std::uint32_t stream) {
        last_ended_.assign(count_, no_index);
        for (std::size_t i = 0; i < count_; ++i) {
            if (std::isnan(start(i, slot))) continue;
            const std::vector<std::uint32_t>& ends = by_end_[i * role_.streams.size() + stream];
            const double until_ms = start(i, slot) + tolerance_ms_;
            const auto behind = std::upper_bound(ends.begin(), ends.end(), until_ms,
                                                 [&](double ms, std::uint32_t other) { return ms < end(i, other); });
            if (behind != ends.begin()) last_ended_[i] = *(behind - 1);
        }
    }

    [[nodiscard]] bool is_over_before(std::uint32_t before, std::uint32_t slot) const {
        std::size_t seen = 0;
        std::size_t both = 0;
        std::size_t violations = 0;
        for (std::size_t i = 0; i < count_; ++i) {
            if (std::isnan(start(i, slot))) continue;
            ++seen;
            if (std::isnan(end(i, before))) continue;
            ++both;
            violations += end(i, before) > start(i, slot) + tolerance_ms_;
        }
        return static_cast<double>(both) >= least_together * static_cast<double>(seen) &&
               static_cast<double>(violations) <= most_violations * static_cast<double>(both);
    }

    void find_candidate(std::uint32_t slot, std::uint32_t stream, WaitCounts& counts) {
        find_last_ended(slot, stream);
        std::vector<std::uint32_t> last = last_ended_;
        std::sort(last.begin(), last.end(), std::greater<>());
        last.erase(std::unique(last.begin(), last.end()), last.end());
        for (const std::uint32_t before : last) {
            if (before == no_index || !is_over_before(before, slot)) continue;
            Candidate candidate{slot, before, false};
            count_waits(candidate, counts[names_of(candidate)]);
            candidates_.push_back(candidate);
            return;
        }
    }

    [[nodiscard]] Names names_of(const Candidate& candidate) const {
        const TemplateSlot& before = role_.slots[candidate.before];
        return {named_segment(role_.slots[candidate.slot]), named_segment(before), PieceKey::stream(before.key)};
    }

    void count_waits(Candidate& candidate, WaitCount& count) {
        std::size_t both = 0;
        std::size_t near = 0;
        for (std::size_t i = 0; i < count_; ++i) {
            const double start_ms = start(i, candidate.slot);
            const double end_ms = end(i, candidate.before);
            if (std::isnan(start_ms) || std::isnan(end_ms)) continue;
            ++both;
            near += end_ms > start_ms - near_tolerances * tolerance_ms_;
            if (last_ended_[i] != candidate.before) continue;
            ++count.seen;
            // Its own stream was idle, and it began nearer to that end than that end is to its stream's last work.
            const double idle_ms = end_ms - stream_was_busy_until(i, candidate.slot);
            count.waited +=
                idle_ms > tolerance_ms_ && start_ms - end_ms < std::max(near_tolerances * tolerance_ms_, idle_ms);
        }
        candidate.begins = 2 * near >= both;
    }

    void add_wait(std::uint32_t slot, std::uint32_t before) {
        std::vector<std::uint32_t>& waits = role_.slots[slot].waits_for;
        if (std::find(waits.begin(), waits.end(), before) != waits.end()) return;
        waits.push_back(before);
        role_.slots[before].awaited_by.push_back(slot);
    }

    /// Whether its stream, or a lost piece before it, may have kept it from beginning earlier.
    [[nodiscard]] bool is_held_up(std::size_t instance, std::uint32_t slot) const {
        const TemplateSlot& of = role_.slots[slot];
        if (of.position > 0 && std::isnan(start(instance, slot - 1))) return true;
        constexpr std::uint32_t reach = 16;
        const std::vector<std::uint32_t>& order = on(instance, of.stream);
        const std::uint32_t last = at(instance, slot).on_stream;
        for (std::uint32_t i = last; i-- > 0 && last - i <= reach;) {
            const double within_ms = held_up_within_ms(at(instance, order[i]).own_ms, tolerance_ms_);
            if (end(instance, order[i]) > start(instance, slot) - within_ms) return true;
        }
        return false;
    }

    struct Progress {
        std::uint32_t in;
        double share;
        bool held_up;
    };

    void find_launch(std::uint32_t slot, std::uint32_t stream) {
        std::vector<Progress> all;
        std::size_t seen = 0;
        std::size_t free = 0;
        for (std::size_t i = 0; i < count_; ++i) {
            if (std::isnan(start(i, slot)) || on(i, stream).empty()) continue;
            ++seen;
            const bool held_up = is_held_up(i, slot);
            free += !held_up;
            const std::vector<std::uint32_t>& order = on(i, stream);
            const auto behind = std::lower_bound(order.begin(), order.end(), start(i, slot) - tolerance_ms_,
                                                 [&](std::uint32_t other, double ms) { return start(i, other) < ms; });
            if (behind == order.begin()) continue;
            const std::uint32_t in = *(behind - 1);
            const double at_ms = start(i, slot) - at(i, slot).stopped_ms;
            if (role_.slots[in].is_comm || std::isnan(at(i, in).own_ms) || end(i, in) <= at_ms + tolerance_ms_)
                continue;
            all.push_back({in, (at_ms - start(i, in)) / std::max(at(i, in).own_ms, 1e-9), held_up});
        }
        choose_launch(slot, all, seen, free);
    }

    // If it was held up in every step, these are all that there is to go by.
    void choose_launch(std::uint32_t slot, const std::vector<Progress>& all, std::size_t seen, std::size_t free) {
        const bool has_free = std::any_of(all.begin(), all.end(), [](const Progress& p) { return !p.held_up; });
        std::map<std::uint32_t, std::vector<double>> shares;
        for (const Progress& progress : all)
            if (!has_free || !progress.held_up) shares[progress.in].push_back(progress.share);
        if (shares.empty()) return;
        const auto most = std::max_element(shares.begin(), shares.end(), [](const auto& a, const auto& b) {
            return a.second.size() < b.second.size();
        });
        const auto needed = present_share * static_cast<double>(has_free ? free : seen);
        if (static_cast<double>(most->second.size()) < needed) return;
        const double share = quantile_of(most->second, has_free ? 0.1 : 0.0);
        role_.slots[slot].launched_in = most->first;
        role_.slots[slot].launch_share = std::min(1.0, share);
    }

    const std::size_t count_;
    const double tolerance_ms_;
    RoleTemplate& role_;
    std::vector<Seen> seen_;                          // by instance and slot
    std::vector<std::vector<std::uint32_t>> order_;   // by instance and stream: slots in the order of their starts
    std::vector<std::vector<std::uint32_t>> by_end_;  // the same, of their ends
    std::vector<std::uint32_t> last_ended_;
    std::vector<Candidate> candidates_;
};

}  // namespace

std::vector<RoleTemplate> find_templates(std::vector<RoleSample>& samples, double tolerance_ms) {
    std::vector<RoleTemplate> roles(samples.size());
    std::vector<WaitFinder> finders;
    finders.reserve(samples.size());
    WaitCounts counts;
    for (std::size_t i = 0; i < samples.size(); ++i) {
        roles[i].stops = find_inner_stops(samples[i], tolerance_ms);
        for (RankPieces& pieces : samples[i]) mark_stops(pieces, roles[i].stops, tolerance_ms);
        roles[i].blocked = find_blocked_ends(samples[i], tolerance_ms);
        for (RankPieces& pieces : samples[i])
            split_blocked_ends(pieces, roles[i].blocked, roles[i].stops, tolerance_ms);
        SlotFinder(samples[i], tolerance_ms).find(roles[i]);
        finders.emplace_back(samples[i], tolerance_ms, roles[i]).find_candidates(counts);
    }
    for (WaitFinder& finder : finders) finder.accept(counts);
    return roles;
}

}  // namespace cep::tool
