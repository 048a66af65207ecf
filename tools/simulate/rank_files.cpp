// SPDX-License-Identifier: Apache-2.0
#include "simulate/rank_files.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <tuple>

#include "base/descriptors.hpp"
#include "base/encoder.hpp"
#include "base/failure.hpp"
#include "read/inputs.hpp"
#include "row_writer.hpp"
#include "simulate/random.hpp"

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

std::string coordinate(const char* name, std::size_t value, std::size_t size) {
    return size > 1 ? std::string(".") + name + std::to_string(value) : std::string();
}

/// Unique in the job, unless plain names are asked for.
std::string group_name(const Layout& layout, std::size_t group) {
    const auto [tp, dp, pp] = std::tuple(layout.tp, layout.dp, layout.pp);
    const bool of_dp = group < tp * pp;
    const bool of_tp = !of_dp && group < tp * pp + dp * pp;
    if (layout.plain_groups) return of_dp ? "dp" : (of_tp ? "tp" : "pp");
    if (of_dp) return "dp" + coordinate("tp", group % tp, tp) + coordinate("pp", group / tp, pp);
    if (of_tp) {
        const std::size_t index = group - tp * pp;
        return "tp" + coordinate("dp", index % dp, dp) + coordinate("pp", index / dp, pp);
    }
    const Coordinates at = layout.coordinates_of(group - tp * pp - dp * pp);
    return "pp" + std::to_string(at.pp) + "-" + std::to_string(at.pp + 1) + coordinate("dp", at.dp, dp) +
           coordinate("tp", at.tp, tp);
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
    for (std::size_t i = 0; i < layout.groups(); ++i) groups_.push_back(in_quotes(group_name(layout, i)));
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

namespace {

using tool::UsageError;
using tool::WriteError;
namespace fs = std::filesystem;

constexpr std::size_t all_buffers_bytes = std::size_t{256} << 20;
constexpr std::size_t min_buffer_bytes = std::size_t{16} << 10;
constexpr std::size_t max_buffer_bytes = std::size_t{1} << 20;

std::vector<fs::path> find_rank_files(const fs::path& directory) {
    std::vector<fs::path> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory))
        if (tool::rank_of_file_name(entry.path().native())) found.push_back(entry.path());
    return found;
}

void append_to_file(const std::string& path, std::string_view bytes) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) throw WriteError(path + ": cannot open: " + std::strerror(errno));
    const int error = tool::write_all(fd, bytes) ? 0 : errno;
    ::close(fd);
    if (error != 0) throw WriteError(path + ": cannot write: " + std::strerror(error));
}

std::string path_of(const Job& job, const std::string& directory, std::size_t rank) {
    const std::string_view ending = job.gzip ? ".gz" : (job.zstd ? ".zst" : "");
    const std::string name = fmt::format("{}{}{}{}", schema::file_prefix, rank, schema::file_suffix, ending);
    return (fs::path(directory) / name).native();
}

}  // namespace

void prepare_directory(const std::string& directory, bool force) {
    std::error_code error;
    fs::create_directories(directory, error);
    if (error) throw WriteError(directory + ": cannot create: " + error.message());
    const std::vector<fs::path> old = find_rank_files(directory);
    if (!old.empty() && !force)
        throw UsageError(directory + ": already has rank files, such as " + old.front().filename().native() +
                         "; --force replaces them");
    // If writing fails, the new files must not lie beside the old truth.
    fs::remove(fs::path(directory) / truth_file_name, error);
    for (const fs::path& path : old)
        if (!fs::remove(path, error)) throw WriteError(path.native() + ": cannot remove: " + error.message());
}

RankFiles::RankFiles(const Job& job, const Layout& layout, const std::vector<HostClock>& clocks,
                     const std::string& directory)
    : job_(job),
      layout_(layout),
      texts_(layout),
      buffer_bytes_(std::clamp(all_buffers_bytes / layout.ranks, min_buffer_bytes, max_buffer_bytes)),
      files_(layout.ranks) {
    for (std::size_t rank = 0; rank < layout.ranks; ++rank) {
        const auto number = static_cast<std::int64_t>(rank);
        if (std::binary_search(job.missing_ranks.begin(), job.missing_ranks.end(), number)) continue;
        files_[rank].rows = std::make_unique<RankRows>(layout, rank, clocks[layout.host_of(rank)]);
        files_[rank].path = path_of(job, directory, rank);
    }
}

bool RankFiles::is_dropped(std::size_t rank, const Item& item) const {
    if (job_.drop_fraction <= 0 || !item.is_span()) return false;
    const Random random(job_.seed);
    const std::uint64_t which = static_cast<std::uint64_t>(item.name) << 32 | item.seq;
    return random.uniform(Stream::drop, rank, static_cast<std::uint64_t>(item.step), which) < job_.drop_fraction;
}

// Each flush is a gzip member or a zstd frame of its own, so that any number of them make a file.
void RankFiles::flush(File& file) const {
    if (const auto encoder = tool::make_encoder(file.path, tool::Effort::least)) {
        std::vector<char> encoded;
        encoder->encode(file.text, true, encoded);
        append_to_file(file.path, {encoded.data(), encoded.size()});
    } else {
        append_to_file(file.path, file.text);
    }
    file.text_bytes += file.text.size();
    file.text.clear();
}

void RankFiles::begin(std::size_t rank) {
    if (files_[rank].rows) files_[rank].text = files_[rank].rows->run(job_, layout_);
}

void RankFiles::write(std::size_t rank, const std::vector<Item>& items) {
    File& file = files_[rank];
    if (!file.rows) return;
    for (const Item& item : items) {
        if (is_dropped(rank, item)) {
            ++file.counts.dropped_spans;
            continue;
        }
        file.rows->write(file.text, item, texts_);
        if (file.text.size() >= buffer_bytes_) flush(file);
        ++(item.is_span() ? file.counts.spans
                          : (item.type() == ItemType::mark ? file.counts.marks : file.counts.counters));
    }
}

void RankFiles::end(std::size_t rank, std::int64_t now_ns) {
    File& file = files_[rank];
    if (!file.rows) return;
    file.text += file.rows->stats(file.counts, job_.last_step(), now_ns);
    flush(file);
    file.text.shrink_to_fit();
}

RowCounts RankFiles::total() const {
    RowCounts counts;
    for (const File& file : files_) counts.add(file.counts);
    return counts;
}

std::uint64_t RankFiles::files() const {
    return static_cast<std::uint64_t>(
        std::count_if(files_.begin(), files_.end(), [](const File& file) { return file.rows != nullptr; }));
}

}  // namespace cep::simulation
