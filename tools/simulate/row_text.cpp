// SPDX-License-Identifier: Apache-2.0
#include "simulate/row_text.hpp"

#include <optional>

#include <fmt/format.h>

#include "row_writer.hpp"

namespace cep::simulation {
namespace {

constexpr std::int64_t clock_error_ns = 2'000;
// An NVIDIA H100 SXM in BF16 without sparsity: NVIDIA's data sheet.
constexpr double peak_flops = 989.4e12;
constexpr double parameters = 8e9;
constexpr double flops_per_parameter_and_token = 6.0;

std::string in_quotes(std::string_view name) {
    return fmt::format("\"{}\"", name);
}

std::string config_text(const Job& job) {
    return fmt::format(
        R"({{"start_step":{},"end_step":null,"record_every_n_steps":{},"flush_every_n_steps":10,"ranks":null,)"
        R"("layout":"full","max_file_bytes":0,"ring_capacity":4096,"pool_limit":16384,"backend":"auto"}})",
        job.start_step, job.record_every);
}

std::string efficiency_text(const Job& job) {
    const double flops = job.mfu * peak_flops * job.step_ms * 1e-3;
    const double tokens = flops / (flops_per_parameter_and_token * parameters);
    return fmt::format(R"("flops_per_step":{},"peak_flops":{},"tokens_per_step":{})", flops, peak_flops,
                       static_cast<std::int64_t>(tokens + 1));
}

}  // namespace

void RowCounts::add(const RowCounts& other) {
    spans += other.spans;
    counters += other.counters;
    marks += other.marks;
    dropped_spans += other.dropped_spans;
}

RowTexts::RowTexts(const Layout& layout) {
    for (std::size_t i = 0; i < name_count; ++i)
        names_[i] = {in_quotes(name_facts[i].text), schema::infer_kind(name_facts[i].text)};
    for (std::size_t i = 0; i < layout.groups(); ++i) groups_.push_back(in_quotes(layout.group_name(i)));
}

RankRows::RankRows(const Layout& layout, std::size_t rank, const HostClock& clock)
    : rank_(rank),
      clock_(clock),
      rank_text_(fmt::format(R"(,"rank":{})", rank)),
      device_(static_cast<std::int32_t>(rank % layout.ranks_per_host)) {}

std::string RankRows::run(const Job& job, const Layout& layout) const {
    const Coordinates at = layout.coordinates_of(rank_);
    return fmt::format(
        R"({{"type":"run","schema":{},"run_id":"simulated-{}","attempt":1,"rank":{},"world_size":{},"local_rank":{},)"
        R"("host":"node{}","pid":{},"backend":"cuda","device_name":"NVIDIA H100 80GB HBM3",)"
        R"("device_uuid":"GPU-{:08x}-0000-0000-0000-{:012x}","driver_version":13000,"library_version":"{}",)"
        R"("start_unix_ns":{},"clock_error_ns":{},"config":{},"dp":{},"tp":{},"pp":{},{},"meta":{{"simulated":true}}}})"
        "\n",
        schema::version, job.seed, rank_, job.ranks, rank_ % layout.ranks_per_host, layout.host_of(rank_), 1000 + rank_,
        layout.host_of(rank_), rank_, CEP_VERSION, clock_.unix_ns(0), clock_error_ns, config_text(job), at.dp, at.tp,
        at.pp, efficiency_text(job));
}

std::string RankRows::stats(const RowCounts& counts, std::int64_t step, std::int64_t now_ns) const {
    return fmt::format(
        R"({{"type":"stats","rank":{},"step":{},"attempt":1,"start_ns":{},"recorded":{},"written":{},)"
        R"("dropped":{{"ring":{},"slots":0,"pool":0,"file":0,"io":0,"meta":0}},"capture_skipped":0,"cuda_errors":0,)"
        R"("abandoned":0,"open":0,"threads":1,"clock_error_ns":{},"self_ms":{:.6f}}})"
        "\n",
        rank_, step, clock_.unix_ns(now_ns), counts.written() + counts.dropped_spans, counts.written(),
        counts.dropped_spans, clock_error_ns, 0.001 * static_cast<double>(counts.written()));
}

void RankRows::write(std::string& out, const Item& item, const RowTexts& texts) const {
    const auto& [name, kind] = texts.name(item.name);
    const std::int64_t start_ns = clock_.unix_ns(item.start_ns);
    if (item.is_span()) {
        const bool on_gpu = item.type() == ItemType::gpu_span;
        schema::begin_span(out,
                           {name, item.step, item.duration_ns, start_ns, item.host_ns,
                            on_gpu ? std::optional(item.lag_ns) : std::nullopt, kind,
                            on_gpu ? schema::clock::gpu : schema::clock::host, item.seq, item.depth,
                            on_gpu ? device_ : -1, item.stream},
                           rank_text_);
        if (item.value > 0) schema::append_member(out, R"(,"bytes":)", item.value);
        if (item.group != no_group) {
            out.append(R"(,"group":)").append(texts.group(item.group));
            schema::append_member(out, R"(,"coll":)", item.coll);
        }
    } else {
        const bool is_counter = item.type() == ItemType::counter;
        schema::begin_row(out, is_counter ? schema::row::counter : schema::row::mark, name, item.step, rank_text_);
        if (is_counter) schema::append_member(out, R"(,"value":)", item.value);
        schema::append_member(out, R"(,"start_ns":)", start_ns);
    }
    out += "}\n";
}

}  // namespace cep::simulation
