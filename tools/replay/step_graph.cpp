// SPDX-License-Identifier: Apache-2.0
#include "replay/step_graph.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "replay/host_launches.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

/// A node before the nodes are in order.
struct RawNode {
    double time_ms = 0;  // when it began
    double own_ms = 0;
    std::uint32_t key = 0;
    std::uint32_t rank = no_index;
    Weight weight = Weight::observed;
};

struct RawEdge {
    std::uint32_t from;  // a node, or a rank where of_rank
    std::uint32_t to;
    float behind;
    float delay_ms;
    std::uint32_t key;
    bool of_rank;
    float usual_ms = NAN;
};

/// Puts nodes into an order. Clocks and lost rows may make cycles: edges in them that go back in time are dropped.
class NodeOrder {
  public:
    NodeOrder(const std::vector<RawNode>& nodes, std::vector<RawEdge>& edges) : nodes_(nodes), edges_(edges) {}

    /// Valid until the next call.
    const std::vector<std::uint32_t>& find() {
        constexpr int most_tries = 3;
        for (int i = 0; i < most_tries && !sort(); ++i) drop_edges(i + 1 == most_tries);
        return order_;
    }

  private:
    bool sort() {
        open_.assign(nodes_.size(), 0);
        first_.assign(nodes_.size() + 1, 0);
        for (const RawEdge& edge : edges_) {
            if (edge.of_rank) continue;
            ++open_[edge.to];
            ++first_[edge.from + 1];
        }
        std::partial_sum(first_.begin(), first_.end(), first_.begin());
        to_.resize(first_.back());
        next_.assign(first_.begin(), first_.end() - 1);
        for (const RawEdge& edge : edges_)
            if (!edge.of_rank) to_[next_[edge.from]++] = edge.to;
        order_.clear();
        order_.reserve(nodes_.size());
        for (std::uint32_t node = 0; node < nodes_.size(); ++node)
            if (open_[node] == 0) order_.push_back(node);
        for (std::size_t i = 0; i < order_.size(); ++i)
            for (std::uint32_t j = first_[order_[i]]; j < first_[order_[i] + 1]; ++j)
                if (--open_[to_[j]] == 0) order_.push_back(to_[j]);
        return order_.size() == nodes_.size();
    }

    void drop_edges(bool all) {
        const auto is_back = [&](const RawEdge& edge) {
            return !edge.of_rank && open_[edge.from] > 0 && open_[edge.to] > 0 &&
                   (all || nodes_[edge.from].time_ms >= nodes_[edge.to].time_ms);
        };
        std::erase_if(edges_, is_back);
        if (all) sort();
    }

    const std::vector<RawNode>& nodes_;
    std::vector<RawEdge>& edges_;
    std::vector<std::uint32_t> order_;
    std::vector<std::uint32_t> open_;   // by node: what it still waits for
    std::vector<std::uint32_t> first_;  // by node: the first in to_ of those that wait for it
    std::vector<std::uint32_t> next_;   // the same, while they are put there
    std::vector<std::uint32_t> to_;
};

void set_clocks(StepRows& step, const JobModel& model) {
    if (model.clocks.are_apart) shift_clocks(step, find_clock_offsets_ms(comm_rows(step), *model.rows), *model.rows);
}

std::span<TimedRow> rows_of(StepRows& step, const RankRows& rank) {
    return std::span(step.rows).subspan(rank.first, rank.last - rank.first);
}

class StepBuilder {
  public:
    StepGraph build(StepRows& step, const JobModel& model) {
        step_ = &step;
        model_ = &model;
        graph_ = {};
        graph_.step = step.step;
        set_clocks(step, model);
        ranks_.resize(step.ranks.size());
        for (std::size_t i = 0; i < ranks_.size(); ++i) read_rank(step.ranks[i], ranks_[i]);
        nodes_.clear();
        nodes_.reserve(step.rows.size() + ranks_.size());
        edges_.clear();
        edges_.reserve(2 * nodes_.capacity());
        match();
        for (std::uint32_t i = 0; i < ranks_.size(); ++i) link(i);
        find_usual_launches();
        if (std::all_of(ranks_.begin(), ranks_.end(), [](const OfRank& rank) { return rank.begins_lost; })) observe();
        finish();
        return std::move(graph_);
    }

  private:
    struct OfRank {
        RankPieces pieces;
        PiecesBySlot by_slot;
        std::uint32_t role = 0;
        std::vector<std::uint32_t> of_few;  // pieces that few ranks of the role have
        bool begins_lost = false;           // what it does first was lost
    };
    /// One rank in a collective.
    struct CommMember {
        std::uint64_t id;
        std::uint32_t rank;  // index into ranks_
        std::uint32_t piece;
    };

    void read_rank(const RankRows& rank, OfRank& of) {
        of.of_few.clear();
        of.begins_lost = false;
        of.role = model_->roles.of_rank[rank.rank];
        const RoleTemplate& role = model_->templates[of.role];
        cut_into_pieces(rows_of(*step_, rank), rank, model_->tolerance_ms, of.pieces);
        mark_stops(of.pieces, role.stops, model_->tolerance_ms);
        split_blocked_ends(of.pieces, role.blocked, role.stops, model_->tolerance_ms);
        graph_.recorded_pieces += static_cast<std::uint32_t>(of.pieces.all.size());
        const std::size_t lost = assign_slots(of.pieces, role, of.by_slot);
        if (lost > 0) put_back_lost(of.pieces, role, of.by_slot, model_->tolerance_ms);
        graph_.lost_pieces += static_cast<std::uint32_t>(lost);
    }

    // Without the beginning of any rank.
    void observe() {
        std::vector<double> lengths_ms;
        for (const OfRank& rank : ranks_) lengths_ms.push_back(rank.pieces.last_ms - rank.pieces.first_ms);
        graph_.observed_ms = median_of(lengths_ms);
    }

    [[nodiscard]] std::uint32_t key_of(const OfRank& rank, const Piece& piece) const {
        return piece.slot != no_index ? model_->key_of_slot(rank.role, piece.slot)
                                      : model_->key_of_name(rank.role, PieceKey::name(piece.key));
    }
    [[nodiscard]] Piece& piece_of(const CommMember& member) { return ranks_[member.rank].pieces.all[member.piece]; }

    // Collectives. Lost members go to the collective to which their slots belong in other steps.
    void match() {
        members_.clear();
        std::vector<CommMember> lost;
        for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
            const RankPieces& pieces = ranks_[i].pieces;
            for (std::uint32_t j = 0; j < pieces.all.size(); ++j) {
                const Piece& piece = pieces.all[j];
                if (!piece.is_comm) continue;
                if (piece.is_lost) {
                    lost.push_back({0, i, j});
                } else {
                    members_.push_back({collective_id(piece.collective, PieceKey::name(piece.key),
                                                      PieceKey::seq(piece.key), pieces.rank),
                                        i, j});
                }
            }
        }
        graph_.comm_pieces = static_cast<std::uint32_t>(members_.size());
        if (!lost.empty()) give_ids(members_, lost);
        members_.insert(members_.end(), lost.begin(), lost.end());
        sort_by_collective(members_, [](const CommMember& member) { return member.piece; });
        for_each_collective(members_, [this](std::span<const CommMember> of_one) { add_collective(of_one); });
    }

    [[nodiscard]] std::uint32_t collective_of(const CommMember& member) const {
        const Piece& piece = ranks_[member.rank].pieces.all[member.piece];
        return piece.slot == no_index ? no_index
                                      : model_->collectives.collective(ranks_[member.rank].pieces.rank, piece.slot);
    }

    void give_ids(const std::vector<CommMember>& members, std::vector<CommMember>& lost) {
        constexpr std::uint64_t of_lost = std::uint64_t{1} << 62;
        std::unordered_map<std::uint32_t, std::uint64_t> ids;
        for (const CommMember& member : members)
            if (const std::uint32_t collective = collective_of(member); collective != no_index)
                ids.try_emplace(collective, member.id);
        std::uint64_t next = of_lost;
        for (CommMember& member : lost) {
            const std::uint32_t collective = collective_of(member);
            member.id = next;
            if (collective != no_index) member.id = ids.try_emplace(collective, next).first->second;
            ++next;
        }
    }

    void add_collective(std::span<const CommMember> members) {
        double last_start_ms = -INFINITY;
        double first_end_ms = INFINITY;
        double least_ms = INFINITY;
        std::vector<double> ends_ms;
        for (const CommMember& member : members) {
            const Piece& piece = piece_of(member);
            if (piece.is_lost) continue;
            last_start_ms = std::max(last_start_ms, piece.start_ms);
            first_end_ms = std::min(first_end_ms, piece.end_ms);
            least_ms = std::min(least_ms, piece.own_ms);
            ends_ms.push_back(piece.end_ms);
        }
        const Piece& leader = piece_of(members.front());
        RawNode node;
        node.key = key_of(ranks_[members.front().rank], leader);
        node.rank = ranks_[members.front().rank].pieces.rank;
        node.time_ms = ends_ms.empty() ? leader.start_ms : last_start_ms;
        const std::uint32_t collective = collective_of(members.front());
        const bool is_full = ends_ms.size() == members.size() &&
                             (collective == no_index || members.size() >= model_->collectives.size_of(collective));
        if (ends_ms.size() > 1) graph_.matched_comm += static_cast<std::uint32_t>(ends_ms.size());
        if (ends_ms.empty()) {
            node.weight = Weight::typical;
        } else {
            node.own_ms = std::min(least_ms, std::max(0.0, first_end_ms - last_start_ms));
            if (!is_full) node.weight = Weight::at_most_typical;
            if (ends_ms.size() < members.size()) end_lost_members(members, median_of(ends_ms));
        }
        const auto number = static_cast<std::uint32_t>(nodes_.size());
        for (const CommMember& member : members) {
            Piece& piece = piece_of(member);
            piece.node = number;
            if (!piece.is_lost) piece.late_ms = std::max(0.0, piece.end_ms - (node.time_ms + node.own_ms));
        }
        nodes_.push_back(node);
    }

    void end_lost_members(std::span<const CommMember> members, double end_ms) {
        for (const CommMember& member : members) {
            Piece& piece = piece_of(member);
            if (piece.is_lost) piece.end_ms = std::max(piece.start_ms, std::min(end_ms, piece.limit_ms));
        }
    }

    // Edges of one rank.
    void link(std::uint32_t number) {
        OfRank& rank = ranks_[number];
        std::vector<Piece>& all = rank.pieces.all;
        for (Piece& piece : all) {
            if (piece.is_comm) continue;
            piece.node = static_cast<std::uint32_t>(nodes_.size());
            const std::uint32_t key = key_of(rank, piece);
            nodes_.push_back({piece.start_ms, piece.own_ms, key, rank.pieces.rank,
                              piece.is_typical ? Weight::typical : Weight::observed});
            if (model_->is_of_few(key)) rank.of_few.push_back(static_cast<std::uint32_t>(&piece - all.data()));
        }
        for (std::size_t stream = 0; stream < rank.pieces.stream_ends.size(); ++stream)
            for (std::uint32_t i = rank.pieces.begin_of(stream); i < rank.pieces.stream_ends[stream]; ++i)
                link_piece(rank, i, rank.pieces.begin_of(stream));
        if (model_->templates[rank.role].has_stops()) link_hosts(rank);
        add_end(rank);
    }

    void link_piece(OfRank& rank, std::uint32_t number, std::uint32_t begin) {
        const Piece& piece = rank.pieces.all[number];
        const std::size_t first = edges_.size();
        double ready_ms = -INFINITY;
        bool held_up = false;
        const auto wait_for = [&](const Piece& before) {
            ready_ms = std::max(ready_ms, before.end_ms);
            add_edge(before, piece.node, 0, key_of(rank, piece));
        };
        link_stream(rank.pieces.all, number, begin, [&](const Piece& before) {
            held_up |= before.end_ms > piece.start_ms - held_up_within_ms(before.own_ms, model_->tolerance_ms);
            wait_for(before);
        });
        wait_for_work_of_few(rank, piece, wait_for);
        const bool is_now_and_then = piece.slot == no_index && !piece.is_comm &&
                                     model_->templates[rank.role].now_and_then.contains(PieceKey::name(piece.key));
        if (is_now_and_then && ready_ms < piece.start_ms - model_->tolerance_ms)
            wait_for_what_ended(rank, piece, wait_for);
        if (piece.slot != no_index) {
            const TemplateSlot& slot = model_->templates[rank.role].slots[piece.slot];
            for (const std::uint32_t other : slot.waits_for) {
                const Piece* before = find(rank, other);
                if (before != nullptr &&
                    (before->end_ms <= piece.start_ms + model_->tolerance_ms || !before->is_known() || piece.is_lost))
                    wait_for(*before);
            }
            if (const Piece* in = find(rank, slot.launched_in); in != nullptr && !in->is_comm)
                link_launch(rank, piece, *in, slot.launch_share, held_up, ready_ms);
        }
        if (edges_.size() == first) {
            ready_ms = rank.pieces.first_ms;
            rank.begins_lost |= piece.is_lost;
            edges_.push_back({rank.pieces.rank, piece.node, 0, 0, key_of(rank, piece), true});
        }
        if (piece.is_lost) return;
        const double delay_ms = std::max(0.0, piece.start_ms - ready_ms);
        for (std::size_t i = first; i < edges_.size(); ++i) edges_[i].delay_ms = static_cast<float>(delay_ms);
    }

    void find_usual_launches() {
        std::unordered_map<std::uint32_t, std::vector<double>> of_key;
        for (const RawEdge& edge : edges_)
            if (!std::isnan(edge.usual_ms)) of_key[edge.key].push_back(static_cast<double>(edge.behind));
        for (RawEdge& edge : edges_)
            if (!std::isnan(edge.usual_ms)) edge.usual_ms = static_cast<float>(median_of(of_key[edge.key]));
    }

    void link_hosts(const OfRank& rank) {
        for (const HostLaunch& one : find_host_launches(rank.pieces, model_->tolerance_ms)) {
            const auto behind_ms = static_cast<float>(one.behind_ms);
            const std::uint32_t from = one.after == nullptr ? rank.pieces.rank : one.after->node;
            edges_.push_back(
                {from, one.piece->node, behind_ms, 0, key_of(rank, *one.piece), one.after == nullptr, behind_ms});
        }
    }

    [[nodiscard]] static const Piece* find(const OfRank& rank, std::uint32_t slot) {
        if (slot == no_index || rank.by_slot[slot] == no_index) return nullptr;
        return &rank.pieces.all[rank.by_slot[slot]];
    }

    /// All that ended before on its stream, back to one that overlaps none of them.
    template <typename Wait>
    void link_stream(const std::vector<Piece>& all, std::uint32_t number, std::uint32_t begin, Wait wait) const {
        constexpr std::uint32_t reach = 12;
        const Piece& piece = all[number];
        double overlap_ms = -INFINITY;
        for (std::uint32_t i = number; i > begin && number - i < reach; --i) {
            const Piece& before = all[i - 1];
            const bool lost = before.is_lost || piece.is_lost;
            if (before.end_ms > piece.start_ms + model_->tolerance_ms && !lost) continue;
            if (before.end_ms < overlap_ms) break;
            wait(before);
            overlap_ms = std::max(overlap_ms, before.start_ms + model_->tolerance_ms);
        }
    }

    // No template says what waits for work that few ranks do: what began on another stream as soon as it ended.
    template <typename Wait>
    void wait_for_work_of_few(const OfRank& rank, const Piece& piece, Wait wait) const {
        if (piece.is_lost) return;
        for (const std::uint32_t number : rank.of_few) {
            const Piece& before = rank.pieces.all[number];
            const double gap_ms = piece.start_ms - before.end_ms;
            if (before.stream() != piece.stream() && before.start_ms < piece.start_ms &&
                std::abs(gap_ms) <= model_->tolerance_ms)
                wait(before);
        }
    }

    // Nor does a template have work that is done in few steps: it waits for what ended on another stream as it began.
    template <typename Wait>
    void wait_for_what_ended(const OfRank& rank, const Piece& piece, Wait wait) const {
        for (const Piece& before : rank.pieces.all)
            if (before.is_known() && before.stream() != piece.stream() && before.start_ms < piece.start_ms &&
                std::abs(piece.start_ms - before.end_ms) <= model_->tolerance_ms)
                wait(before);
    }

    // It was in progress, or ended while the other was held up by its own stream.
    void link_launch(const OfRank& rank, const Piece& piece, const Piece& in, double share, bool held_up,
                     double& ready_ms) {
        double at = share;
        if (!piece.is_lost && in.is_known()) {
            if (in.start_ms + model_->tolerance_ms >= piece.start_ms) return;
            const double observed = (piece.start_ms - piece.stopped_ms - in.start_ms) / std::max(in.own_ms, 1e-9);
            at = std::min(held_up ? share : 1.0, observed);
        }
        ready_ms = std::max(ready_ms, in.start_ms + at * in.own_ms + piece.stopped_ms);
        add_edge(in, piece.node, at - 1, key_of(rank, piece));
    }

    void add_edge(const Piece& from, std::uint32_t to, double behind, std::uint32_t key) {
        if (from.node != to)
            edges_.push_back({from.node, to, static_cast<float>(behind + from.late_ms), 0, key, false});
    }

    void add_end(const OfRank& rank) {
        const auto end = static_cast<std::uint32_t>(nodes_.size());
        double last_ms = -INFINITY;
        const std::size_t first = edges_.size();
        for (std::size_t stream = 0; stream < rank.pieces.stream_ends.size(); ++stream) {
            const Piece& last = rank.pieces.all[rank.pieces.stream_ends[stream] - 1];
            last_ms = std::max(last_ms, last.end_ms);
            add_edge(last, end, 0, model_->key_of_end(rank.role));
        }
        const auto delay_ms = static_cast<float>(std::max(0.0, rank.pieces.last_ms - last_ms));
        for (std::size_t i = first; i < edges_.size(); ++i) edges_[i].delay_ms = delay_ms;
        nodes_.push_back({rank.pieces.last_ms, 0, model_->key_of_end(rank.role), rank.pieces.rank, Weight::observed});
        graph_.ends.emplace_back(rank.pieces.rank, end);
        graph_.times_ms.emplace_back(rank.begins_lost ? NAN : rank.pieces.first_ms, rank.pieces.last_ms);
    }

    void finish() {
        const std::vector<std::uint32_t>& order = order_.find();
        index_of_.resize(nodes_.size());
        const auto count = static_cast<std::uint32_t>(order.size());
        graph_.own_ms.resize(count);
        graph_.keys.resize(count);
        graph_.ranks.resize(count);
        graph_.weights.resize(count);
        for (std::uint32_t i = 0; i < count; ++i) {
            const RawNode& node = nodes_[order[i]];
            index_of_[order[i]] = i;
            graph_.own_ms[i] = static_cast<float>(node.own_ms);
            graph_.keys[i] = node.key;
            graph_.ranks[i] = node.rank;
            graph_.weights[i] = node.weight;
        }
        graph_.edge_ends.assign(count, 0);
        for (const RawEdge& edge : edges_) ++graph_.edge_ends[index_of_[edge.to]];
        std::partial_sum(graph_.edge_ends.begin(), graph_.edge_ends.end(), graph_.edge_ends.begin());
        next_.assign(1, 0);
        next_.insert(next_.end(), graph_.edge_ends.begin(), graph_.edge_ends.end());
        graph_.edges.resize(edges_.size());
        const auto ranks = static_cast<std::uint32_t>(model_->rows->ranks().size());
        for (const RawEdge& edge : edges_)
            graph_.edges[next_[index_of_[edge.to]]++] = {edge.of_rank ? edge.from : ranks + index_of_[edge.from],
                                                         edge.behind, edge.delay_ms, edge.key, edge.usual_ms};
        for (auto& [rank, node] : graph_.ends) node = index_of_[node];
    }

    StepRows* step_ = nullptr;
    const JobModel* model_ = nullptr;
    StepGraph graph_;
    // Memory for one step after the other.
    std::vector<OfRank> ranks_;
    std::vector<CommMember> members_;
    std::vector<RawNode> nodes_;
    std::vector<RawEdge> edges_;
    NodeOrder order_{nodes_, edges_};
    std::vector<std::uint32_t> index_of_;  // by node: its place in the order
    std::vector<std::uint32_t> next_;      // by place: where its next edge goes
};

}  // namespace

RankPieces pieces_of(StepRows& step, const RankRows& rank, double tolerance_ms) {
    RankPieces pieces;
    cut_into_pieces(rows_of(step, rank), rank, tolerance_ms, pieces);
    return pieces;
}

StepGraph read_step_ends(StepRows& step, const JobModel& model) {
    set_clocks(step, model);
    StepGraph graph;
    graph.step = step.step;
    for (const RankRows& rank : step.ranks) {
        double end_ms = rank.step_end_ms;
        for (std::uint32_t row = rank.first; row < rank.last; ++row) end_ms = std::fmax(end_ms, step.rows[row].end_ms);
        graph.ends.emplace_back(rank.rank, no_index);
        graph.times_ms.emplace_back(NAN, end_ms);
    }
    return graph;
}

StepGraph build_step_graph(StepRows& step, const JobModel& model) {
    // Threads that take memory step by step wait for each other. It is on the heap, as the compiler would look up again
    // and again where a thread's own object is.
    thread_local const auto builder = std::make_unique<StepBuilder>();
    return builder->build(step, model);
}

}  // namespace cep::tool
