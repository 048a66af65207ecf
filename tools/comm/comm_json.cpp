// SPDX-License-Identifier: Apache-2.0
#include "comm/comm_text.hpp"
#include "show/json_writer.hpp"

namespace cep::comm {
namespace {

using tool::JsonWriter;

void write_inputs(JsonWriter& json, const CommReport& report) {
    const tool::InputCounts& inputs = report.inputs;
    json.key("inputs").begin_object();
    json.key("files").count(inputs.files);
    json.key("bytes").count(inputs.bytes);
    json.key("rows").count(inputs.rows);
    json.key("ranks_seen").count(report.coverage.ranks_seen);
    json.key("missing_ranks").integers(report.coverage.missing_ranks);
    json.key("truncated_files").count(inputs.truncated_files);
    json.key("unreadable_files").count(inputs.unreadable_files);
    json.key("skipped_rows").count(inputs.skipped_rows);
    json.end_object();
}

void write_string_or_null(JsonWriter& json, const char* key, const std::string& text) {
    json.key(key);
    if (text.empty()) {
        json.null();
    } else {
        json.string(text);
    }
}

void write_fit(JsonWriter& json, const CommModel& model) {
    json.key("fit");
    if (!model.fit) {
        json.null();
        return;
    }
    const TransferFit& fit = *model.fit;
    json.begin_object();
    json.key("alpha_us").number(fit.alpha_us);
    json.key("alpha_error_us").number(fit.alpha_error_us);
    json.key("beta_gb_per_s").number_or_null(fit.beta_gb_per_s);
    json.key("beta_error_gb_per_s").number_or_null(fit.beta_error_gb_per_s);
    json.key("r_squared").number(fit.r_squared);
    json.key("mean_relative_error").number(fit.mean_relative_error);
    json.key("max_relative_error").number(fit.max_relative_error);
    json.key("half_bytes").number_or_null(fit.half_bytes());
    json.key("bus_gb_per_s").number_or_null(model.bus_gb_per_s);
    json.key("link_efficiency").number_or_null(model.link_efficiency);
    json.end_object();
}

void write_size(JsonWriter& json, const SizeReport& size) {
    json.begin_object();
    json.key("bytes").integer(size.point.bytes);
    json.key("collectives").count(size.point.collectives);
    json.key("transfer_ms").number(size.point.transfer_ms);
    json.key("wait_ms").number(size.wait_ms);
    json.key("algorithm_gb_per_s").number(size.algorithm_gb_per_s);
    json.key("bus_gb_per_s").number_or_null(size.bus_gb_per_s);
    json.key("link_efficiency").number_or_null(size.link_efficiency);
    json.end_object();
}

void write_predictions(JsonWriter& json, const CommModel& model) {
    json.key("predictions").begin_array();
    for (const Prediction& one : model.predictions) {
        json.begin_object();
        json.key("bytes").integer(one.bytes);
        json.key("ranks").count(one.world);
        json.key("ring_ms").number_or_null(one.ring_ms);
        json.key("tree_ms").number_or_null(one.tree_ms);
        json.key("beyond_sizes").boolean(one.beyond_sizes);
        json.end_object();
    }
    json.end_array();
}

void write_model(JsonWriter& json, const CommModel& model) {
    json.begin_object();
    json.key("operation").string(operation_name(model.operation));
    json.key("name").string(model.name);
    write_string_or_null(json, "group", model.group);
    json.key("groups").count(model.groups);
    json.key("ranks").count(model.ranks);
    json.key("spans").count(model.spans);
    json.key("spans_without_bytes").count(model.spans_without_bytes);
    json.key("total_ms").number(model.total_ms);
    json.key("collectives").count(model.collectives);
    json.key("one_in").count(model.one_in);
    json.key("incomplete_collectives").count(model.lone_spans);
    json.key("wait_fraction").number_or_null(model.wait_fraction);
    write_fit(json, model);
    write_string_or_null(json, "refused", model.refused);
    json.key("sizes").begin_array();
    for (const SizeReport& size : model.sizes) write_size(json, size);
    json.end_array();
    write_predictions(json, model);
    json.end_object();
}

}  // namespace

std::string report_json(const CommReport& report) {
    JsonWriter json;
    json.begin_object();
    json.key("schema").string("cep.comm/1");
    json.key("headline").string(report.headline);
    write_inputs(json, report);
    json.key("by").string(report.options.by_group ? "group" : "kind");
    json.key("link_gb_per_s").number_or_null(report.options.link_gb_per_s);
    json.key("wait_fraction").number_or_null(report.wait_fraction);
    json.key("models").begin_array();
    for (const CommModel& model : report.models) write_model(json, model);
    json.end_array();
    json.end_object();
    return json.finish();
}

}  // namespace cep::comm
