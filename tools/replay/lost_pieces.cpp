// SPDX-License-Identifier: Apache-2.0
#include "replay/lost_pieces.hpp"

#include <algorithm>
#include <cmath>

namespace cep::tool {
namespace {

class LostPieces {
  public:
    LostPieces(RankPieces& pieces, const RoleTemplate& role, PiecesBySlot& by_slot, double tolerance_ms)
        : pieces_(pieces), role_(role), by_slot_(by_slot), tolerance_ms_(tolerance_ms) {}

    void put_back() {
        for (const std::uint32_t slot : role_.by_offset) {
            if (by_slot_[slot] != no_index) continue;
            if (role_.slots[slot].is_nested) free_from(slot);
            Piece lost = locate(slot);
            lost.key = role_.slots[slot].key;
            lost.slot = slot;
            lost.is_comm = role_.slots[slot].is_comm;
            lost.is_lost = true;
            by_slot_[slot] = static_cast<std::uint32_t>(pieces_.all.size());
            pieces_.all.push_back(lost);
        }
    }

  private:
    [[nodiscard]] const Piece* piece(std::uint32_t slot) const {
        return by_slot_[slot] == no_index ? nullptr : &pieces_.all[by_slot_[slot]];
    }

    Piece locate(std::uint32_t slot) {
        if (const std::uint32_t segment = earlier_segment(slot);
            segment != no_index && !pieces_.all[by_slot_[segment]].is_lost)
            return split(slot, segment);
        return locate_behind(slot);
    }

    // Work that seems to last as long as lost communication inside of its span did.
    void free_from(std::uint32_t slot) {
        if (role_.slots[slot].position == 0 || by_slot_[slot - 1] == no_index) return;
        Piece& before = pieces_.all[by_slot_[slot - 1]];
        if (before.is_comm || before.is_lost) return;
        before.own_ms = std::min(before.own_ms, role_.slots[slot - 1].typical_ms);
        before.end_ms = before.start_ms + before.own_ms;
        before.is_typical = true;
    }

    /// The slot of the segment of the same span that comes before.
    [[nodiscard]] std::uint32_t earlier_segment(std::uint32_t slot) const {
        constexpr std::uint32_t reach = 16;
        const TemplateSlot& of = role_.slots[slot];
        if (of.is_comm) return no_index;
        for (std::uint32_t i = 1; i <= std::min(reach, of.position); ++i) {
            const TemplateSlot& other = role_.slots[slot - i];
            if (!other.is_comm && PieceKey::span_of(other.key) == PieceKey::span_of(of.key) &&
                by_slot_[slot - i] != no_index)
                return slot - i;
        }
        return no_index;
    }

    // What was inside of the span is lost, so that two of its segments are seen as one. How long each was is not known:
    // the others of the rank say.
    Piece split(std::uint32_t slot, std::uint32_t segment) {
        Piece& before = pieces_.all[by_slot_[segment]];
        Piece lost;
        lost.end_ms = before.end_ms;
        lost.own_ms = std::min(before.own_ms, role_.slots[slot].typical_ms);
        lost.start_ms = lost.end_ms - lost.own_ms;
        lost.limit_ms = lost.end_ms;
        lost.is_typical = true;
        before.own_ms = std::min(before.own_ms - lost.own_ms, role_.slots[segment].typical_ms);
        before.end_ms = before.start_ms + before.own_ms;
        before.is_typical = true;
        return lost;
    }

    Piece locate_behind(std::uint32_t slot) {
        const TemplateSlot& of = role_.slots[slot];
        Piece lost;
        double start_ms = pieces_.first_ms;
        for (std::uint32_t i = 1; i <= of.position; ++i)
            if (const Piece* before = piece(slot - i)) {
                start_ms = before->end_ms;
                break;
            }
        for (const std::uint32_t before : of.waits_for)
            if (const Piece* other = piece(before)) start_ms = std::max(start_ms, other->end_ms);
        double limit_ms = INFINITY;
        for (std::uint32_t next = slot + 1; next < role_.end_of_stream(of.stream); ++next)
            if (const Piece* behind = piece(next)) {
                limit_ms = behind->start_ms;
                break;
            }
        for (const std::uint32_t next : of.awaited_by)
            if (const Piece* behind = piece(next)) limit_ms = std::min(limit_ms, behind->start_ms);
        lost.start_ms = start_ms;
        if (!of.is_comm) {
            lost.own_ms = own_work_ms(slot, start_ms);
            lost.is_typical = std::isnan(lost.own_ms);
            if (lost.is_typical) lost.own_ms = of.typical_ms;
        }
        lost.end_ms = std::max(start_ms, std::min(start_ms + lost.own_ms, limit_ms));
        lost.limit_ms = std::max(limit_ms, lost.end_ms);
        return lost;
    }

    // What waits for it began as it ended, if nothing else kept that. NaN if nothing of that kind was recorded.
    [[nodiscard]] double own_work_ms(std::uint32_t slot, double start_ms) const {
        const TemplateSlot& of = role_.slots[slot];
        bool has_before = false;
        const auto is_recorded = [&](std::uint32_t before) {
            has_before = true;
            const Piece* other = piece(before);
            return other != nullptr && !other->is_lost;
        };
        for (const std::uint32_t before : of.waits_for)
            if (!is_recorded(before)) return NAN;
        if (of.position > 0 && !is_recorded(slot - 1)) return NAN;
        if (!has_before) return NAN;
        double end_ms = INFINITY;
        for (const std::uint32_t next : of.awaited_by)
            if (began_as_it_ended(slot, next)) end_ms = std::min(end_ms, piece(next)->start_ms);
        if (is_followed(slot)) end_ms = std::min(end_ms, piece(slot + 1)->start_ms);
        return std::isinf(end_ms) ? NAN : std::max(0.0, end_ms - start_ms);
    }

    /// Whether the next piece of its stream began as it ended, and nothing else kept that.
    [[nodiscard]] bool is_followed(std::uint32_t slot) const {
        const std::uint32_t next = slot + 1;
        if (next >= role_.end_of_stream(role_.slots[slot].stream) || !role_.slots[next].follows) return false;
        const Piece* behind = piece(next);
        if (behind == nullptr || behind->is_lost) return false;
        return std::all_of(
            role_.slots[next].waits_for.begin(), role_.slots[next].waits_for.end(), [&](std::uint32_t before) {
                const Piece* other = piece(before);
                return other != nullptr && other->is_known() && other->end_ms < behind->start_ms - 2 * tolerance_ms_;
            });
    }

    [[nodiscard]] bool began_as_it_ended(std::uint32_t slot, std::uint32_t next) const {
        const Piece* behind = piece(next);
        if (behind == nullptr || behind->is_lost) return false;
        const TemplateSlot& of = role_.slots[next];
        if (std::find(of.begun_by.begin(), of.begun_by.end(), slot) == of.begun_by.end()) return false;
        if (of.position > 0 && (piece(next - 1) == nullptr || piece(next - 1)->is_lost)) return false;
        // Its stream was idle.
        for (std::uint32_t i = by_slot_[next]; i-- > 0;) {
            const Piece& before = pieces_.all[i];
            if (before.stream() != behind->stream()) break;
            if (before.end_ms <= behind->start_ms + tolerance_ms_)
                return before.end_ms < behind->start_ms - 2 * tolerance_ms_;
        }
        return true;
    }

    RankPieces& pieces_;
    const RoleTemplate& role_;
    PiecesBySlot& by_slot_;
    const double tolerance_ms_;
};

// By the template, if all pieces of the stream are in it; else by time.
void put_in_order(RankPieces& pieces, const RoleTemplate& role, PiecesBySlot& by_slot) {
    std::stable_sort(pieces.all.begin(), pieces.all.end(),
                     [](const Piece& a, const Piece& b) { return a.stream() < b.stream(); });
    pieces.find_streams();
    for (std::size_t stream = 0; stream < pieces.stream_ends.size(); ++stream) {
        const auto first = pieces.all.begin() + pieces.begin_of(stream);
        const auto last = pieces.all.begin() + pieces.stream_ends[stream];
        const bool by_template = std::all_of(first, last, [](const Piece& piece) { return piece.slot != no_index; });
        std::stable_sort(first, last, [by_template](const Piece& a, const Piece& b) {
            return by_template ? a.slot < b.slot : starts_before(a, b);
        });
    }
    by_slot.assign(role.slots.size(), no_index);
    for (std::uint32_t i = 0; i < pieces.all.size(); ++i)
        if (pieces.all[i].slot != no_index) by_slot[pieces.all[i].slot] = i;
}

}  // namespace

std::size_t assign_slots(RankPieces& pieces, const RoleTemplate& role, PiecesBySlot& by_slot) {
    by_slot.assign(role.slots.size(), no_index);
    std::size_t found = 0;
    std::uint32_t expected = 0;
    for (std::uint32_t i = 0; i < pieces.all.size(); ++i) {
        Piece& piece = pieces.all[i];
        if (expected < role.slots.size() && role.slots[expected].key == piece.key) {
            piece.slot = expected;
        } else if (const auto known = role.slot_of.find(piece.key); known != role.slot_of.end()) {
            piece.slot = known->second;
        } else {
            continue;
        }
        expected = piece.slot + 1;
        found += by_slot[piece.slot] == no_index;
        by_slot[piece.slot] = i;
    }
    return role.slots.size() - found;
}

void put_back_lost(RankPieces& pieces, const RoleTemplate& role, PiecesBySlot& by_slot, double tolerance_ms) {
    LostPieces(pieces, role, by_slot, tolerance_ms).put_back();
    put_in_order(pieces, role, by_slot);
}

}  // namespace cep::tool
