// SPDX-License-Identifier: Apache-2.0
#include "simulate/row_text.hpp"

#include <charconv>
#include <cstring>

#include <fmt/format.h>

namespace cep::simulation {
namespace {

constexpr std::int64_t one_ms_ns = 1'000'000;
constexpr std::int64_t clock_error_ns = 2'000;
// An NVIDIA H100 SXM in BF16 without sparsity: NVIDIA's data sheet.
constexpr double peak_flops = 989.4e12;
constexpr double parameters = 8e9;
constexpr double flops_per_parameter_and_token = 6.0;

char* append(char* out, std::string_view text) {
    std::memcpy(out, text.data(), text.size());
    return out + text.size();
}

template <class Number>
char* append_number(char* out, Number value) {
    constexpr std::size_t max_digits = 24;
    return std::to_chars(out, out + max_digits, value).ptr;
}

char* append_ms(char* out, std::int64_t ns) {
    if (ns < 0) {
        *out++ = '-';
        ns = -ns;
    }
    out = append_number(out, ns / one_ms_ns);
    auto rest = static_cast<std::uint32_t>(ns % one_ms_ns);
    *out = '.';
    for (int i = 6; i > 0; --i, rest /= 10) out[i] = static_cast<char>('0' + rest % 10);
    return out + 7;
}

std::string head_of(const NameFacts& name) {
    if (name.type == ItemType::mark || name.type == ItemType::counter)
        return fmt::format(R"({{"type":"{}","name":"{}","step":)",
                           name.type == ItemType::mark ? schema::row::mark : schema::row::counter, name.text);
    return fmt::format(R"({{"name":"{}","step":)", name.text);
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

RowTexts::RowTexts(const Job& job, const Layout& layout) {
    for (std::size_t i = 0; i < name_count; ++i) {
        const NameFacts& name = name_facts[i];
        heads_[i] = head_of(name);
        kinds_[i] = fmt::format(R"(,"kind":"{}","clock":"{}","seq":)", schema::kind_name(schema::infer_kind(name.text)),
                                name.type == ItemType::host_span ? schema::clock::host : schema::clock::gpu);
    }
    if (job.hidden_collectives) return;
    for (std::size_t i = 0; i < layout.groups(); ++i)
        groups_.push_back(fmt::format(R"(,"group":"{}","coll":)", layout.group_name(i)));
}

RankRows::RankRows(const Layout& layout, std::size_t rank, const HostClock& clock)
    : rank_(rank),
      clock_(clock),
      rank_text_(fmt::format(R"(,"rank":{})", rank)),
      device_text_(fmt::format(R"(,"device":{},"stream":)", rank % layout.ranks_per_host)) {}

std::string RankRows::run(const Job& job, const Layout& layout) const {
    const Place place = layout.place_of(rank_);
    return fmt::format(
        R"({{"type":"run","schema":{},"run_id":"simulated-{}","attempt":1,"rank":{},"world_size":{},"local_rank":{},)"
        R"("host":"node{}","pid":{},"backend":"cuda","device_name":"NVIDIA H100 80GB HBM3",)"
        R"("device_uuid":"GPU-{:08x}-0000-0000-0000-{:012x}","driver_version":13000,"library_version":"{}",)"
        R"("start_unix_ns":{},"clock_error_ns":{},"config":{},"dp":{},"tp":{},"pp":{},{},"meta":{{"simulated":true}}}})"
        "\n",
        schema::version, job.seed, rank_, job.ranks, rank_ % layout.ranks_per_host, layout.host_of(rank_), 1000 + rank_,
        layout.host_of(rank_), rank_, CEP_VERSION, clock_.unix_ns(0), clock_error_ns, config_text(job), place.dp,
        place.tp, place.pp, efficiency_text(job));
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

char* RankRows::write(char* out, const Item& item, const RowTexts& texts) const {
    out = append_number(append(out, texts.head(item.name)), item.step);
    out = append(out, rank_text_);
    if (item.is_span()) return write_span(out, item, texts);
    if (item.type() == ItemType::counter) out = append_number(append(out, R"(,"value":)"), item.value);
    out = append_number(append(out, R"(,"start_ns":)"), clock_.unix_ns(item.start_ns));
    return append(out, "}\n");
}

char* RankRows::write_span(char* out, const Item& item, const RowTexts& texts) const {
    out = append_ms(append(out, R"(,"duration_ms":)"), item.duration_ns);
    out = append_number(append(out, R"(,"start_ns":)"), clock_.unix_ns(item.start_ns));
    out = append_ms(append(out, R"(,"host_ms":)"), item.host_ns);
    const bool on_gpu = item.type() == ItemType::gpu_span;
    if (on_gpu) out = append_ms(append(out, R"(,"lag_ms":)"), item.lag_ns);
    out = append_number(append(out, texts.kind(item.name)), item.seq);
    out = append_number(append(out, R"(,"depth":)"), static_cast<unsigned>(item.depth));
    if (on_gpu) out = append_number(append(out, device_text_), static_cast<unsigned>(item.stream));
    if (item.value > 0) out = append_number(append(out, R"(,"bytes":)"), item.value);
    if (item.group != no_group) out = append_number(append(out, texts.group(item.group)), item.coll);
    return append(out, "}\n");
}

}  // namespace cep::simulation
