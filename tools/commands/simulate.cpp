// SPDX-License-Identifier: Apache-2.0
//
// cep simulate
#include <filesystem>
#include <utility>

#include <fmt/core.h>

#include "base/output.hpp"
#include "base/say.hpp"
#include "base/units.hpp"
#include "commands/commands.hpp"
#include "commands/help.hpp"
#include "commands/options.hpp"
#include "read/read_run.hpp"
#include "simulate/settings.hpp"
#include "simulate/simulator.hpp"

namespace cep::cli {
namespace {

using tool::Status;

struct SimulateCommand {
    std::string directory;
    std::string scenario;
    std::vector<std::pair<const simulation::Setting*, std::string>> settings;
    std::vector<std::string> faults;
    std::vector<std::string> events;
    std::uint64_t threads = 0;  // 0: as many as there are usable cores
    bool force = false;

    // The command line overrides the scenario.
    [[nodiscard]] simulation::Job job() const {
        simulation::Job job;
        if (!scenario.empty()) simulation::read_scenario(job, scenario);
        for (const auto& [setting, text] : settings)
            simulation::set_from_text(job, *setting, text, simulation::option_name(*setting));
        for (const std::string& text : faults) simulation::add_fault(job, text);
        for (const std::string& text : events) simulation::add_event(job, text);
        job.complete();
        return job;
    }

    Status run() const {
        const simulation::Job complete_job = job();
        simulation::prepare_directory(directory, force);
        const simulation::Outcome outcome =
            simulation::simulate(complete_job, directory, threads > 0 ? threads : tool::usable_cores());
        tool::write_output((std::filesystem::path(directory) / simulation::truth_file_name).native(),
                           simulation::truth_json(complete_job, outcome));
        tool::say("cep simulate: wrote {} with {} to {}, and the truth to {}\n",
                  tool::format_plural(outcome.files, "file"),
                  tool::format_plural(outcome.rows.written(), "span, counter and mark row"), directory,
                  simulation::truth_file_name);
        return Status::done;
    }

    void add_settings(Arguments& simulate) {
        for (const simulation::Setting& setting : simulation::all_settings()) {
            const std::string name = simulation::option_name(setting);
            const auto take = [this, &setting](const std::string& text) { settings.emplace_back(&setting, text); };
            const auto refuse = [name, key = setting.key] {
                throw tool::UsageError(
                    fmt::format("{}: not an option; write \"{}\" into a scenario (--scenario FILE)", name, key));
            };
            if (setting.is_option())
                simulate.add(take, {name, simulation::option_help(setting), std::string(setting.value_name)});
            else if (std::holds_alternative<simulation::FlagMember>(setting.member))
                simulate.add(refuse, {.names = name, .is_hidden = true});
            else
                simulate.add([refuse](const std::string&) { refuse(); }, {.names = name, .is_hidden = true});
        }
    }

    void add_to(Arguments& simulate) {
        simulate.add(
            &directory,
            {.names = "-o,--output", .help = "Write into this directory", .value = "DIR", .is_required = true});
        simulate.add(&scenario, {"--scenario",
                                 "Read the job, its faults, its events and further settings from a JSON file", "FILE"});
        simulate.add(&faults, {.names = "--fault",
                               .help = fmt::format("Add a fault, a JSON object (may be given again), with {}",
                                                   simulation::fault_keys),
                               .value = "JSON",
                               .is_repeated = true});
        simulate.add(&events, {.names = "--event",
                               .help = fmt::format("Add an event, a JSON object (may be given again), with {}",
                                                   simulation::event_keys),
                               .value = "JSON",
                               .is_repeated = true});
        simulate.add(&force, {"--force", "Replace the rank files that the directory has"});
        simulate.add(&threads, {"-j,--threads", "Simulate with N threads (default: the usable cores, at most 16)", "N",
                                whole_number_from(std::uint64_t{1}, std::uint64_t{4096})});
        add_settings(simulate);
        simulate.set_examples(
            "  cep simulate -o job --ranks 64 --steps 2000\n"
            "  cep simulate -o job --ranks 64 \\\n"
            "      --fault '{\"rank\": 5, \"phase\": \"forward\", \"slowdown\": 1.3}'\n"
            "  cep simulate -o job --ranks 4096 --tp 8 --pp 8 --scenario slow_host.json");
    }
};

}  // namespace

const CommandFacts simulate_command{"Rank files of a simulated job, with its truth in truth.json",
                                    add_options<SimulateCommand>};

}  // namespace cep::cli
