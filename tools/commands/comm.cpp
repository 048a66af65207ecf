// SPDX-License-Identifier: Apache-2.0
//
// cep comm
#include <fmt/core.h>
#include <charconv>
#include <utility>

#include "base/say.hpp"
#include "base/text.hpp"
#include "comm/comm_report.hpp"
#include "commands/commands.hpp"
#include "commands/help.hpp"
#include "commands/options.hpp"
#include "model/load.hpp"
#include "read/read_run.hpp"

namespace cep::cli {
namespace {

using namespace tool;

std::uint64_t unit_of(std::string_view suffix) {
    static constexpr std::pair<std::string_view, std::uint64_t> units[] = {
        {"", 1},
        {"B", 1},
        {"k", 1'000},
        {"kB", 1'000},
        {"M", 1'000'000},
        {"MB", 1'000'000},
        {"G", 1'000'000'000},
        {"GB", 1'000'000'000},
        {"KiB", std::uint64_t{1} << 10},
        {"MiB", std::uint64_t{1} << 20},
        {"GiB", std::uint64_t{1} << 30},
    };
    for (const auto& [name, unit] : units)
        if (name == suffix) return unit;
    return 0;
}

/// "8,1M,2GiB" as numbers above zero.
std::vector<std::uint64_t> parse_sizes(std::string_view option, std::string_view text) {
    constexpr std::uint64_t max_size = std::uint64_t{1} << 50;
    std::vector<std::uint64_t> sizes;
    for (const std::string_view word : split(text, ',')) {
        std::uint64_t size = 0;
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), size);
        const std::uint64_t unit = unit_of({end, static_cast<std::size_t>(word.data() + word.size() - end)});
        if (error != std::errc() || unit == 0 || size == 0 || size > max_size / unit)
            throw UsageError(fmt::format("{}: '{}' is not a number above 0 such as 8, 1M or 2GiB", option, word));
        sizes.push_back(size * unit);
    }
    return sizes;
}

struct CommCommand {
    static constexpr std::uint64_t default_max_samples = 4'000'000;  // 192 MB at most

    InputOptions input;
    FilterOptions filter;
    RunOptions run_options;
    OutputOptions output;
    std::string by = "kind";
    std::string predicted_bytes;
    std::string worlds;
    double link_gb_per_s = 0;
    double link_gbps = 0;
    bool shard_bytes = false;
    JobOptions job_options;

    [[nodiscard]] comm::CommOptions options() const {
        if (link_gb_per_s > 0 && link_gbps > 0) throw UsageError("only one of --link-gb-per-s and --link-gbps");
        comm::CommOptions options;
        options.by_group = by == "group";
        options.shard_bytes = shard_bytes;
        if (link_gb_per_s > 0) options.link_gb_per_s = link_gb_per_s;
        if (link_gbps > 0) options.link_gb_per_s = link_gbps / 8;
        if (!predicted_bytes.empty())
            for (const std::uint64_t bytes : parse_sizes("--predict", predicted_bytes))
                options.predicted_bytes.push_back(static_cast<std::int64_t>(bytes));
        if (!worlds.empty()) options.worlds = parse_sizes("--world", worlds);
        for (const std::uint64_t world : options.worlds)
            if (world < 2) throw UsageError("--world: fewer than two ranks have no collectives");
        options.predicts = !predicted_bytes.empty() || !worlds.empty();
        return options;
    }

    [[nodiscard]] LoadOptions load_options() const {
        LoadOptions options = job_options.load_options(filter, input, run_options);
        options.keeps_messages = options.only_comm = true;
        return options;
    }

    Status run() const {
        output.check();
        const comm::CommOptions chosen = options();
        const InputSet set = input.find(output.path);
        comm::CommReport report = comm::make_report(load(set, load_options()), chosen);
        const Status status = report_status("comm", report.inputs, report.coverage, input.strict);
        if (status == Status::nothing_readable) return status;
        if (report.models.empty()) say("cep comm: no spans of communication among the rows\n");
        if (report.left_out.any()) say("cep comm: {}\n", comm::describe_left_out(report));
        output.write(comm::make_document(std::move(report), output.rendering(input).format), input);
        return status;
    }

    void add_model_options(Arguments& app) {
        app.add(&by,
                {"--by",
                 "A line for each kind of group and its number of ranks, or for each group: kind, group (default kind)",
                 "WHAT", one_of({"kind", "group"})});
        app.add(&link_gb_per_s,
                {"--link-gb-per-s", "Compare with a link of this many gigabytes a second in one direction", "GB",
                 positive_number});
        app.add(&link_gbps, {.names = "--link-gbps", .check = positive_number, .is_hidden = true});  // in gigabits
        app.add(&predicted_bytes,
                {"--predict", "What these sizes would take, such as 64k,1M,2GiB (default: those that were measured)",
                 "BYTES,..."});
        app.add(&worlds,
                {"--world", "What it would take with these numbers of ranks (default: the one that was measured)",
                 "N,..."});
        app.add(&shard_bytes,
                {"--shard-bytes",
                 "The bytes of all_gather and reduce_scatter are those of one rank's shard, not of the whole"});
    }

    void add_to(Arguments& comm) {
        input.add_to(comm);
        output.add_to(comm, "cep.comm/1", "A line for each size, times in milliseconds,");
        add_model_options(comm);
        run_options.add_to(comm);
        filter.add_to(comm);
        job_options.max_samples = default_max_samples;
        job_options.add_to(comm, "Durations that may be kept; of more, those of some steps");
        comm.set_examples(
            "  cep comm output/cuda_event_profiler\n"
            "  cep comm --link-gb-per-s 50 output\n"
            "  cep comm --predict 1M,64M,1G --world 64,512 output\n"
            "  cep comm --by group --limit 0 output\n"
            "  cep comm --json output | jq '.models[] | {name, group, ranks, fit}'");
    }
};

}  // namespace

const CommandFacts comm_command{"Latency and bandwidth of collectives, and how much of them is waiting",
                                add_options<CommCommand>};

}  // namespace cep::cli
