// SPDX-License-Identifier: Apache-2.0

#include "verdict/causes.hpp"
#include "verdict/verdict_document.hpp"

namespace cep::tool {
namespace {

void write_straggler(JsonWriter& json, const Finding& straggler) {
    json.members("rank", straggler.typical_rank, "host", text_or_null(straggler.typical_host), "phase", straggler.phase,
                 "also", straggler.also, "pattern", pattern_names[static_cast<std::size_t>(straggler.pattern)], "grows",
                 straggler.grows, "first_step", straggler.first_step, "last_step", straggler.last_step, "slowdown",
                 straggler.slowdown, "excess_ms", straggler.excess_ms, "step_fraction", straggler.step_fraction,
                 "every_steps", straggler.every_steps, "waiters_median_wait_ms", straggler.waiters_median_wait_ms,
                 "cost_share", straggler.cost_share, "confidence", straggler.confidence);
}

void write_group(JsonWriter& json, const Finding& group) {
    json.members("slow_ranks", group.ranks, "fast_ranks", group.fast_ranks, "slow_hosts", group.hosts, "fast_hosts",
                 group.fast_hosts, "pp", group.stage, "tp", group.tp, "fast_ms", group.usual_ms);
    json.object("typical", [&] { write_straggler(json, group); });
}

}  // namespace

void write_verdict(JsonWriter& json, const Verdict& verdict) {
    const Document text = verdict_document(verdict);
    const auto straggler = [&json](const Finding* one) { write_straggler(json, *one); };
    json.begin_object();
    json.members("headline", text.headline, "bound", bound_name(verdict.bound), "evidence", text.evidence, "next",
                 text.next);
    json.objects("stragglers", verdict.stragglers(), straggler);
    Findings harmless = verdict.harmless();
    std::erase_if(harmless, [](const Finding* one) { return one->kind != FindingKind::straggler; });
    json.objects("harmless", harmless, straggler);
    json.objects("slow_hosts", verdict.slow_hosts,
                 [&](const SlowHost& host) { json.members("host", host.host, "ranks", host.ranks); });
    json.object_or_null("stage_imbalance", verdict.stage_imbalance(), [&](const Finding& imbalance) {
        json.members("stage", imbalance.stage, "ratio", imbalance.slowdown, "own_ms", imbalance.slow_ms, "typical_ms",
                     imbalance.usual_ms, "one_rank", imbalance.is_alone);
    });
    json.members("step_ms", verdict.step_ms);
    json.object_or_null("shares", verdict.shares, [&](const StepShares& shares) {
        json.members("compute", shares.compute, "comm", shares.comm, "wait", shares.wait, "data", shares.data, "host",
                     shares.host, "rest", shares.rest);
    });
    json.object_or_null("hint", verdict.first_of(FindingKind::hint), [&](const Finding& hint) {
        json.members("rank", hint.ranks.front(), "host", text_or_null(hint.hosts.front()), "phase", hint.phase,
                     "own_ms", *hint.slow_ms, "peers_ms", *hint.usual_ms);
    });
    json.objects("changes", verdict.changes(), [&](const Finding* one) {
        const ChangePoint& change = *one->change;
        json.members("step", one->first_step, "last_step", one->last_step, "shape",
                     change_shape_names[static_cast<std::size_t>(change.shape)], "stairs", change.stairs, "of",
                     change.is_typical ? "median" : "mean", "before_ms", *one->usual_ms, "after_ms", *one->slow_ms,
                     "long_share_before", change.before.long_share, "long_share_after", change.after.long_share,
                     "phase", text_or_null(one->phase), "phase_change_ms", one->excess_ms);
    });
    json.object("events", [&] {
        const EventFacts& events = verdict.events;
        json.members("marked_steps", events.marked_steps, "unmarked_steps", events.unmarked_steps, "marked_excess_ms",
                     events.marked_excess_ms, "unmarked_excess_ms", events.unmarked_excess_ms);
    });
    json.members("job_slowdown", verdict.job_slowdown, "slowdown_is_bound",
                 verdict.saving_precision != Precision::exact, "gpu_hours_lost", verdict.gpu_hours_lost, "abstained",
                 verdict.abstained, "reason", text_or_null(verdict.reason));
    json.objects("groups", verdict.groups(), [&](const Finding* group) { write_group(json, *group); });
    json.object_or_null("late_rank", verdict.first_of(FindingKind::late), [&](const Finding& late) {
        json.members("rank", late.ranks.front(), "host", text_or_null(late.hosts.front()), "late_ms", late.excess_ms,
                     "step_fraction", late.step_fraction);
    });
    json.members("uncovered_ms", verdict.uncovered_ms, "steps_used", verdict.steps_used, "all_steps", verdict.all_steps,
                 "impossible", verdict.impossible);
    write_causes(json, verdict);
    json.end_object();
}

void write_efficiency(JsonWriter& json, const Efficiency& efficiency) {
    json.begin_object();
    json.members("mfu", efficiency.mfu, "hfu", efficiency.hfu, "tokens_per_s", efficiency.tokens_per_s, "comm_ms",
                 efficiency.comm_ms, "exposed_comm_ms", efficiency.exposed_comm_ms, "overlap_efficiency",
                 efficiency.overlap_efficiency, "overlap_of_possible", efficiency.overlap_of_possible,
                 "bubble_fraction", efficiency.bubble_fraction, "theoretical_bubble_fraction",
                 efficiency.theoretical_bubble_fraction);
    json.end_object();
}

}  // namespace cep::tool
