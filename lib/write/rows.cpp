// SPDX-License-Identifier: Apache-2.0
#include "write/rows.hpp"

#include <unistd.h>

#include <vector>

#include "base/json_text.hpp"
#include "cep/cep.h"
#include "row_writer.hpp"

namespace cep {
namespace {

using schema::append_member;
using schema::append_ms;
using schema::append_number;

void append_text_or_null(std::string& out, std::string_view key, std::string_view text) {
    out += key;
    if (text.empty())
        out += "null";
    else
        json::append_string(out, text);
}

/// Appends the caller's JSON text on one line.
void append_json(std::string& out, std::string_view json) {
    const std::size_t at = out.size();
    out += json;
    for (std::size_t i = at; i < out.size(); ++i)
        if (out[i] == '\n' || out[i] == '\r') out[i] = ' ';
}

void append_attributes(std::string& out, const Attributes& attributes, std::string_view meta) {
    if (attributes.bytes != 0) append_member(out, ",\"bytes\":", attributes.bytes);
    if (attributes.flops != 0) append_member(out, ",\"flops\":", attributes.flops);
    if (attributes.group != nullptr) {
        out.append(",\"group\":").append(attributes.group->quoted);
        if (attributes.coll >= 0) append_member(out, ",\"coll\":", attributes.coll);
    }
    if (attributes.error != nullptr) out.append(",\"error\":").append(attributes.error->quoted);
    if (meta.empty()) return;
    out += ",\"meta\":";
    append_json(out, meta);
}

void append_config(std::string& out, const Config& config) {
    append_member(out, R"({"start_step":)", config.sampling.start_step);
    out += ",\"end_step\":";
    if (config.sampling.end_step == CEP_NO_END_STEP)
        out += "null";
    else
        append_number(out, config.sampling.end_step);
    append_member(out, ",\"record_every_n_steps\":", config.sampling.record_every_n_steps);
    append_member(out, ",\"flush_every_n_steps\":", config.sampling.flush_every_n_steps);
    out += ",\"ranks\":";
    if (config.ranks.empty()) {
        out += "null";
    } else {
        char separator = '[';
        for (std::int32_t rank : config.ranks) {
            out += separator;
            append_number(out, rank);
            separator = ',';
        }
        out += ']';
    }
    out += ",\"layout\":\"full\"";  // the others have no row for it
    append_member(out, ",\"max_file_bytes\":", config.max_file_bytes);
    append_member(out, ",\"ring_capacity\":", config.ring_capacity);
    append_member(out, ",\"pool_limit\":", config.pool_limit);
    append_text_or_null(out, ",\"backend\":", config.backend == CEP_BACKEND_HOST ? "host" : "auto");
    append_member(out, ",\"max_overhead_percent\":", config.max_overhead_percent);
    if (config.capture_range.any()) {
        append_member(out, ",\"capture_range\":[", config.capture_range.first_step);
        append_member(out, ",", config.capture_range.last_step);
        out += ']';
    }
    out += '}';
}

schema::SpanText text_of(const ResolvedSpan& span) {
    const Record& record = span.measurement->record;
    return {record.region->quoted, record.step, span.duration_ns, span.start_ns, span.host_ns, span.lag_ns,
            record.region->kind,   span.clock,  record.seq,       record.depth,  span.device,  record.begin_stream};
}

void end_row(RowBlock& block, RowKind kind) {
    block.text += "}\n";
    block.finish_row(kind);
}

/// Adds members to a row, except core keys. Of repeated keys it takes the first.
class TopLevelMembers {
  public:
    explicit TopLevelMembers(std::string& out) : out_(out) {}

    void add_object(std::string_view object) {
        if (object.empty()) return;
        json::for_each_member(object, [&](std::string_view key, std::string_view value) { add(key, value); });
    }

  private:
    void add(std::string_view key, std::string_view value) {
        if (key.find('\\') != std::string_view::npos) return;  // an escape could spell a core key
        for (std::string_view taken : taken_)
            if (taken == key) return;
        taken_.push_back(key);
        out_ += ',';
        append_json(out_, key);
        out_ += ':';
        append_json(out_, value);
    }

    std::string& out_;
    std::vector<std::string_view> taken_ = {R"("duration_ms")", R"("name")", R"("rank")", R"("step")"};
};

}  // namespace

RowFormatter::RowFormatter(const Config& config)
    : layout_(config.layout), rank_text_(",\"rank\":" + std::to_string(config.rank)) {}

std::string& RowFormatter::begin_row(RowBlock& block, std::string_view type, std::string_view quoted_name,
                                     std::int64_t step) const {
    std::string& out = block.text;
    schema::begin_row(out, type, quoted_name, step, rank_text_);
    return out;
}

void RowFormatter::top_level_span(RowBlock& block, const ResolvedSpan& span) const {
    std::string& out = block.text;
    append_ms(out, "{\"duration_ms\":", span.duration_ns);
    out.append(",\"name\":").append(span.measurement->record.region->quoted).append(rank_text_);
    append_member(out, ",\"step\":", span.measurement->record.step);
    TopLevelMembers members(out);
    members.add_object(span.measurement->meta);
    members.add_object(run_metadata_);
    std::string rest;
    if (layout_ == CEP_LAYOUT_SPANS) {
        schema::append_times(rest, text_of(span));
        append_attributes(rest, span.measurement->attributes, {});
        rest.front() = '{';  // for the comma
        rest += '}';
        members.add_object(rest);
    }
    end_row(block, RowKind::measurement);
}

void RowFormatter::span(RowBlock& block, const ResolvedSpan& span) const {
    if (only_spans()) return top_level_span(block, span);
    std::string& out = block.text;
    schema::begin_span(out, text_of(span), rank_text_);
    append_attributes(out, span.measurement->attributes, span.measurement->meta);
    end_row(block, RowKind::measurement);
}

void RowFormatter::counter(RowBlock& block, const Record& record) const {
    if (only_spans()) return;
    std::string& out = begin_row(block, schema::row::counter, record.name->quoted, record.step);
    append_member(out, ",\"value\":", record.value);
    append_member(out, ",\"start_ns\":", anchor_.unix_ns(record.begin_ns));
    end_row(block, RowKind::measurement);
}

void RowFormatter::mark(RowBlock& block, const Measurement& measurement) const {
    if (only_spans()) return;
    const Record& record = measurement.record;
    std::string& out = begin_row(block, schema::row::mark, record.name->quoted, record.step);
    append_member(out, ",\"start_ns\":", anchor_.unix_ns(record.begin_ns));
    append_attributes(out, {}, measurement.meta);
    end_row(block, RowKind::measurement);
}

void RowFormatter::stride(RowBlock& block, const StrideChange& change, double max_percent) const {
    if (only_spans()) return;
    std::string& out = begin_row(block, schema::row::mark, '"' + std::string(schema::stride_mark) + '"', change.step);
    append_member(out, ",\"start_ns\":", anchor_.unix_ns(change.decided_ns));
    append_member(out, ",\"from\":", change.from);
    append_member(out, ",\"to\":", change.to);
    append_member(out, ",\"cost_percent\":", change.cost_percent);
    append_member(out, ",\"max_overhead_percent\":", max_percent);
    end_row(block, RowKind::bookkeeping);
}

void RowFormatter::open(RowBlock& block, const OpenSpan& span, std::int64_t now_ns) const {
    if (only_spans()) return;
    std::string& out = begin_row(block, schema::row::open, span.region->quoted, span.step);
    append_member(out, ",\"start_ns\":", anchor_.unix_ns(span.begin_host_ns));
    append_ms(out, ",\"elapsed_ms\":", now_ns - span.begin_host_ns);
    out.append(",\"kind\":\"").append(schema::kind_name(span.region->kind));
    out.append("\",\"clock\":\"").append(span.on_device ? schema::clock::gpu : schema::clock::host).append(1, '"');
    append_member(out, ",\"seq\":", span.seq);
    append_member(out, ",\"depth\":", span.depth);
    end_row(block, RowKind::bookkeeping);
}

void RowFormatter::stats(RowBlock& block, const Totals& totals, std::int64_t attempt, std::int64_t step,
                         RowKind kind) const {
    if (only_spans()) return;
    std::string& out = block.text;
    out.append("{\"type\":\"stats\"").append(rank_text_);
    append_member(out, ",\"step\":", step);
    append_member(out, ",\"attempt\":", attempt);
    append_member(out, ",\"start_ns\":", anchor_.unix_ns(monotonic_ns()));
    append_member(out, ",\"recorded\":", totals.recorded);
    append_member(out, ",\"written\":", totals.written);
    append_member(out, ",\"dropped\":{\"ring\":", totals.dropped_ring);
    append_member(out, ",\"slots\":", totals.dropped_slots);
    append_member(out, ",\"pool\":", totals.dropped_pool);
    append_member(out, ",\"file\":", totals.dropped_file);
    append_member(out, ",\"io\":", totals.dropped_io);
    append_member(out, ",\"meta\":", totals.dropped_meta);
    append_member(out, "},\"capture_skipped\":", totals.capture_skipped);
    append_member(out, ",\"cuda_errors\":", totals.cuda_errors);
    append_member(out, ",\"abandoned\":", totals.abandoned);
    append_member(out, ",\"open\":", totals.open_spans);
    append_member(out, ",\"threads\":", totals.threads);
    if (totals.clock_error_ns > 0) append_member(out, ",\"clock_error_ns\":", totals.clock_error_ns + anchor_.error_ns);
    append_ms(out, ",\"self_ms\":", static_cast<std::int64_t>(totals.self_ns));
    append_ms(out, ",\"trainer_ms\":", static_cast<std::int64_t>(totals.trainer_ns));
    end_row(block, kind);
}

void RowFormatter::run(RowBlock& block, const RunFacts& facts, const Config& config) const {
    if (only_spans()) return;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    std::string& out = block.text;
    append_member(out, R"({"type":"run","schema":)", schema::version);
    append_text_or_null(out, ",\"run_id\":", config.run_id);
    append_member(out, ",\"attempt\":", facts.attempt);
    out += rank_text_;
    append_member(out, ",\"world_size\":", config.world_size);
    append_member(out, ",\"local_rank\":", config.local_rank);
    append_text_or_null(out, ",\"host\":", host);
    append_member(out, ",\"pid\":", getpid());
    append_text_or_null(out, ",\"backend\":", facts.device.name.empty() ? "host" : "cuda");
    append_text_or_null(out, ",\"device_name\":", facts.device.name);
    append_text_or_null(out, ",\"device_uuid\":", facts.device.uuid);
    out += ",\"driver_version\":";
    if (facts.device.driver_version > 0)
        append_number(out, facts.device.driver_version);
    else
        out += "null";
    append_text_or_null(out, ",\"library_version\":", cep_version());
    append_member(out, ",\"start_unix_ns\":", facts.start_unix_ns);
    append_member(out, ",\"clock_error_ns\":", facts.clock_error_ns + facts.device.clock_error_ns);
    out += ",\"config\":";
    append_config(out, config);
    facts.meta.append_members(out);
    end_row(block, RowKind::bookkeeping);
}

}  // namespace cep
