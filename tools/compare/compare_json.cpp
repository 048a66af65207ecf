// SPDX-License-Identifier: Apache-2.0
#include "compare/compare_text.hpp"
#include "compare/headline.hpp"
#include "show/json_writer.hpp"

namespace cep::compare {
namespace {

using tool::JsonWriter;

void write_interval(JsonWriter& json, const char* key, const std::optional<Interval>& interval) {
    json.key(key);
    if (!interval) {
        json.null();
        return;
    }
    json.begin_array().number(interval->low).number(interval->high).end_array();
}

void write_verdict(JsonWriter& json, const std::optional<VerdictFacts>& verdict) {
    json.key("bound");
    if (verdict) {
        json.string(verdict->bound);
    } else {
        json.null();
    }
    json.key("stragglers");
    if (!verdict || !verdict->stragglers) {
        json.null();
        return;
    }
    json.begin_array();
    for (const std::string& straggler : *verdict->stragglers) json.string(straggler);
    json.end_array();
}

void write_job(JsonWriter& json, const char* key, const JobFacts& job) {
    const std::vector<std::int64_t>& steps = job.steps.recorded;
    json.key(key).begin_object();
    json.key("name").string(job.name);
    json.key("files").count(job.inputs.files);
    json.key("bytes").count(job.inputs.bytes);
    json.key("rows").count(job.inputs.rows);
    json.key("ranks_seen").count(job.coverage.ranks_seen);
    json.key("missing_ranks").integers(job.coverage.missing_ranks);
    json.key("truncated_files").count(job.inputs.truncated_files);
    json.key("unreadable_files").count(job.inputs.unreadable_files);
    json.key("skipped_rows").count(job.inputs.skipped_rows);
    json.key("steps").count(steps.size());
    json.key("first_step").integer_or_null(steps.empty() ? std::nullopt : std::optional(steps.front()));
    json.key("last_step").integer_or_null(steps.empty() ? std::nullopt : std::optional(steps.back()));
    json.key("step_is_a_sum").boolean(job.steps.step_is_a_sum);
    write_verdict(json, job.verdict);
    json.end_object();
}

void write_side(JsonWriter& json, const char* key, const PhaseSide& side) {
    json.key(key);
    if (side.steps == 0) {
        json.null();
        return;
    }
    json.begin_object();
    json.key("steps").count(side.steps);
    json.key("blocks").count(side.blocks);
    json.key("median_ms").number(side.median_ms);
    write_interval(json, "median_interval_ms", side.interval_ms);
    json.key("share").number_or_null(side.share);
    json.end_object();
}

void write_test(JsonWriter& json, const Change& change) {
    json.key("test");
    if (!change.test) {
        json.null();
        return;
    }
    json.begin_object();
    json.key("u").number(change.test->u);
    json.key("p").number(change.test->p);
    json.key("corrected_p").number(change.corrected_p);
    json.key("exact").boolean(change.test->exact);
    json.key("rank_biserial").number(change.test->rank_biserial);
    json.key("shift_ms").number(change.test->shift);
    write_interval(json, "shift_interval_ms", change.test->shift_interval);
    json.end_object();
}

void write_change(JsonWriter& json, const Change& change) {
    json.begin_object();
    json.key("name").string(change.name);
    json.key("kind").string(schema::kind_name(change.kind));
    json.key("finding").string(finding_names[static_cast<std::size_t>(change.finding)]);
    json.key("reason");
    if (change.reason.empty()) {
        json.null();
    } else {
        json.string(change.reason);
    }
    json.key("change").number_or_null(change.change);
    write_interval(json, "change_interval", change.change_interval);
    json.key("below_threshold").boolean(change.below_threshold);
    json.key("correlation_steps").number(change.correlation_steps);
    json.key("block_steps").count(change.block_steps);
    write_side(json, "a", change.a);
    write_side(json, "b", change.b);
    write_test(json, change);
    json.end_object();
}

}  // namespace

std::string comparison_json(const Comparison& comparison) {
    JsonWriter json;
    json.begin_object();
    json.key("schema").string("cep.compare/1");
    json.key("headline").string(comparison.headline);
    write_job(json, "a", comparison.a);
    write_job(json, "b", comparison.b);
    json.key("notes").begin_array();
    for (const std::string& note : describe_differences(comparison)) json.string(note);
    json.end_array();
    json.key("alpha").number(CompareOptions::alpha);
    json.key("threshold").number(comparison.options.threshold);
    json.key("step");
    if (comparison.step) {
        write_change(json, *comparison.step);
    } else {
        json.null();
    }
    json.key("phases").begin_array();
    for (const Change& change : comparison.phases) write_change(json, change);
    json.end_array();
    json.end_object();
    return json.finish();
}

}  // namespace cep::compare
