// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <vector>

#include "verdict/causes.hpp"
#include "verdict/verdict_document.hpp"

namespace cep::tool {
namespace {

void write_strings(JsonWriter& json, std::string_view key, const std::vector<std::string>& texts) {
    json.key(key).begin_array();
    for (const std::string& text : texts) json.string(text);
    json.end_array();
}

void write_straggler_keys(JsonWriter& json, const StragglerFact& straggler) {
    json.key("rank").integer(straggler.rank);
    json.key("host").string_or_null(straggler.host);
    json.key("phase").string(straggler.phase);
    json.key("also").begin_array();
    for (const std::string& phase : straggler.also) json.string(phase);
    json.end_array();
    json.key("pattern").string(pattern_name(straggler.pattern));
    json.key("grows").boolean(straggler.grows);
    json.key("first_step").integer(straggler.first_step);
    json.key("last_step").integer(straggler.last_step);
    json.key("slowdown").number(straggler.slowdown);
    json.key("excess_ms").number(straggler.excess_ms);
    json.key("step_fraction").number(straggler.step_fraction);
    json.key("waiters_median_wait_ms").number_or_null(straggler.waiters_median_wait_ms);
    json.key("cost_share").number_or_null(straggler.cost_share);
    json.key("confidence").number(straggler.confidence);
}

void write_group(JsonWriter& json, const GroupFact& group) {
    json.begin_object();
    json.key("slow_ranks").integers(group.slow_ranks);
    json.key("fast_ranks").integers(group.fast_ranks);
    write_strings(json, "slow_hosts", group.slow_hosts);
    write_strings(json, "fast_hosts", group.fast_hosts);
    json.key("pp").value(group.pp);
    json.key("tp").value(group.tp);
    json.key("fast_ms").number(group.fast_ms);
    json.key("typical").begin_object();
    write_straggler_keys(json, group.typical);
    json.end_object();
    json.end_object();
}

void write_stragglers(JsonWriter& json, std::string_view key, const std::vector<StragglerFact>& stragglers) {
    json.key(key).begin_array();
    for (const StragglerFact& straggler : stragglers) {
        json.begin_object();
        write_straggler_keys(json, straggler);
        json.end_object();
    }
    json.end_array();
}

void write_shares(JsonWriter& json, const std::optional<StepShares>& shares) {
    json.key("shares");
    if (!shares) {
        json.null();
        return;
    }
    json.begin_object();
    json.key("compute").number(shares->compute);
    json.key("comm").number(shares->comm);
    json.key("wait").number(shares->wait);
    json.key("data").number(shares->data);
    json.key("host").number(shares->host);
    json.key("rest").number(shares->rest);
    json.end_object();
}

void write_changes(JsonWriter& json, const std::vector<ChangeFact>& changes) {
    json.key("changes").begin_array();
    for (const ChangeFact& change : changes) {
        json.begin_object();
        json.key("step").integer(change.step);
        json.key("before_ms").number(change.before_ms);
        json.key("after_ms").number(change.after_ms);
        json.key("phase").string_or_null(change.phase);
        json.key("phase_change_ms").number(change.phase_change_ms);
        json.end_object();
    }
    json.end_array();
}

void write_events(JsonWriter& json, const EventFacts& events) {
    json.key("events").begin_object();
    json.key("marked_steps").integers(events.marked_steps);
    json.key("unmarked_steps").integers(events.unmarked_steps);
    json.key("marked_excess_ms").number(events.marked_excess_ms);
    json.key("unmarked_excess_ms").number(events.unmarked_excess_ms);
    json.end_object();
}

void write_imbalance(JsonWriter& json, const std::optional<StageImbalance>& imbalance) {
    json.key("stage_imbalance");
    if (!imbalance) {
        json.null();
        return;
    }
    json.begin_object();
    json.key("stage").integer(imbalance->stage);
    json.key("ratio").number(imbalance->ratio);
    json.key("own_ms").number(imbalance->own_ms);
    json.key("typical_ms").number(imbalance->typical_ms);
    json.key("one_rank").boolean(imbalance->one_rank);
    json.end_object();
}

}  // namespace

void write_verdict(JsonWriter& json, const Verdict& verdict) {
    const Document text = verdict_document(verdict);
    json.begin_object();
    json.key("headline").string(text.headline);
    json.key("bound").string(bound_name(verdict.bound));
    write_strings(json, "evidence", text.evidence);
    write_strings(json, "next", text.next);
    write_stragglers(json, "stragglers", verdict.stragglers);
    write_stragglers(json, "harmless", verdict.harmless);
    json.key("slow_hosts").begin_array();
    for (const SlowHost& host : verdict.slow_hosts) {
        json.begin_object();
        json.key("host").string(host.host);
        json.key("ranks").count(host.ranks);
        json.end_object();
    }
    json.end_array();
    write_imbalance(json, verdict.stage_imbalance);
    json.key("step_ms").number_or_null(verdict.step_ms);
    write_shares(json, verdict.shares);
    write_changes(json, verdict.changes);
    write_events(json, verdict.events);
    json.key("job_slowdown").number_or_null(verdict.job_slowdown);
    json.key("slowdown_is_bound").boolean(verdict.slowdown_is_bound);
    json.key("gpu_hours_lost").number_or_null(verdict.gpu_hours_lost);
    json.key("abstained").boolean(verdict.abstained);
    json.key("reason").string_or_null(verdict.reason);
    json.key("groups").begin_array();
    for (const GroupFact& group : verdict.groups) write_group(json, group);
    json.end_array();
    json.key("late_rank");
    if (verdict.late) {
        json.begin_object();
        json.key("rank").integer(verdict.late->rank);
        json.key("host").string_or_null(verdict.late->host);
        json.key("late_ms").number(verdict.late->late_ms);
        json.key("step_fraction").number(verdict.late->step_fraction);
        json.end_object();
    } else {
        json.null();
    }
    json.key("uncovered_ms").number_or_null(verdict.uncovered_ms);
    json.key("steps_used").count(verdict.steps_used);
    json.key("all_steps").count(verdict.all_steps);
    write_strings(json, "impossible", verdict.impossible);
    write_causes(json, verdict);
    json.end_object();
}

void write_efficiency(JsonWriter& json, const Efficiency& efficiency) {
    json.begin_object();
    json.key("mfu").number_or_null(efficiency.mfu);
    json.key("hfu").number_or_null(efficiency.hfu);
    json.key("tokens_per_s").number_or_null(efficiency.tokens_per_s);
    json.key("comm_ms").number_or_null(efficiency.comm_ms);
    json.key("exposed_comm_ms").number_or_null(efficiency.exposed_comm_ms);
    json.key("overlap_efficiency").number_or_null(efficiency.overlap_efficiency);
    json.key("bubble_fraction").number_or_null(efficiency.bubble_fraction);
    json.key("theoretical_bubble_fraction").number_or_null(efficiency.theoretical_bubble_fraction);
    json.end_object();
}

}  // namespace cep::tool
