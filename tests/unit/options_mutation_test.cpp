// SPDX-License-Identifier: Apache-2.0
//
// Any configuration is either read, or refused with a code that fits its mistake.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "../api/option_variables.h"
#include "base/error.hpp"
#include "base/json_text.hpp"
#include "options/options.hpp"
#include "text_mutator.hpp"

namespace {

using cep::test::TextMutator;

constexpr std::array<std::string_view, 28> pieces = {
    "\\u0000", "\\ud800",  "\\",    "\"",   "{",       "}",  "[",    "]",       ":",  ",",
    "-",       "99999999", "1e999", "e5",   "-1",      "0",  "none", "null",    "on", " ",
    "'",       "true",     "full",  "auto", "0-65535", "\n", "\xff", "\xc3\xa9"};

std::int64_t integer(TextMutator& mutator) {
    static constexpr std::array<std::int64_t, 14> edges = {
        0, 1, -1, -2, 2, 15, 16, 1 << 20, (1 << 20) + 1, 65536, 65537, INT32_MAX, INT64_MAX, INT64_MIN};
    return mutator.below(4) == 0 ? static_cast<std::int64_t>(mutator.any_bits()) : edges[mutator.below(edges.size())];
}

bool is_callers_mistake(std::int32_t code) {
    return code == CEP_EINVAL || code == CEP_EOPTION || code == CEP_EJSON || code == CEP_EIO;
}

void expect_sound(const cep::Config& config) {
    EXPECT_TRUE(config.rank >= 0 && config.rank < config.world_size);
    EXPECT_GE(config.local_rank, 0);
    EXPECT_FALSE(config.directory.empty());
    EXPECT_GE(config.sampling.start_step, 0);
    EXPECT_LE(config.sampling.start_step, config.sampling.end_step);
    EXPECT_GE(config.sampling.record_every_n_steps, 1);
    EXPECT_GE(config.sampling.flush_every_n_steps, 1);
    EXPECT_LE(config.ranks.size(), 65536U);
    EXPECT_TRUE(config.ring_capacity >= 16 && config.ring_capacity <= 1 << 20);
    EXPECT_TRUE(config.pool_limit >= 2 && config.pool_limit <= 1 << 20);
    EXPECT_GE(config.max_file_bytes, 0);
    EXPECT_TRUE(config.max_overhead_percent >= 0 && config.max_overhead_percent <= 100);
    EXPECT_TRUE(config.meta.empty() || cep::json::check_object(config.meta).valid);
}

/// Returns whether the options were accepted.
bool expect_read_or_refused(const cep_options* options, const std::string& input) {
    cep::Config config;
    const std::int32_t code = cep::make_config(options, config);
    if (code == CEP_OK) {
        expect_sound(config);
    } else {
        EXPECT_TRUE(is_callers_mistake(code)) << code << ": " << cep::last_error() << "\n" << input;
        EXPECT_STRNE(cep::last_error(), "");
    }
    return code == CEP_OK;
}

class OptionsMutation : public testing::Test {
  protected:
    OptionsMutation() {
        for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID",
                                 "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                                 "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"})
            unsetenv(name);
    }

    static constexpr int rounds = 100000;
    [[nodiscard]] std::string mutated(const char* text) { return mutator_.mutated(text, mutator_.below(4)); }

    TextMutator mutator_{pieces};
    int good_ = 0;
};

TEST_F(OptionsMutation, OfJsonIsReadOrRefused) {
    static constexpr std::array<const char*, 4> seeds = {
        R"({"enable":true,"directory":"d","rank":3,"world_size":8,"local_rank":1,"layout":"flat","run_id":"r"})",
        R"({"start_step":5,"end_step":null,"record_every_n_steps":2,"flush_every_n_steps":4,"ranks":[0,3,7]})",
        R"({"max_file_bytes":1000000,"ring_capacity":64,"pool_limit":128,"backend":"host","max_overhead_percent":0.1,"capture_range":"7-9"})",
        R"( {"meta":{"model":"m","layers":[1,2],"lr":1e-4},"run_id":"r\u00e9\"\\u0000"} )"};
    for (int i = 0; i < rounds && !HasFailure(); ++i) {
        const std::string json = mutated(seeds[mutator_.below(seeds.size())]);
        cep_options options = cep::default_options();
        cep::OptionStorage storage;
        const std::int32_t code = cep::load_options_json(options, json.c_str(), storage);
        if (code != CEP_OK)
            EXPECT_TRUE(is_callers_mistake(code)) << code << ": " << cep::last_error() << "\n" << json;
        else
            good_ += expect_read_or_refused(&options, json) ? 1 : 0;
    }
    EXPECT_GT(good_, rounds / 10);
}

TEST_F(OptionsMutation, OfTheEnvironmentIsReadOrRefused) {
    std::vector<std::array<const char*, 2>> variables = {
        {"RANK", "5"},
        {"WORLD_SIZE", "16"},
        {"LOCAL_RANK", "2"},
        {"TORCHELASTIC_RUN_ID", "job"},
        {"CEP_RANKS", "0,3,8-16"},
        {"CEP_CONFIG", "{\"enable\":true,\"ranks\":[1,2],\"start_step\":7}"},
    };
    for (const auto& [name, value] : option_variables) variables.push_back({name, value});
    for (int i = 0; i < rounds && !HasFailure(); ++i) {
        std::string input;
        for (int count = 0; count < 2; ++count) {
            const auto& [name, value] = variables[mutator_.below(variables.size())];
            const std::string changed = mutated(value);
            setenv(name, changed.c_str(), 1);
            input.append(name).append("=").append(changed).append("\n");
        }
        good_ += expect_read_or_refused(nullptr, input) ? 1 : 0;
        for (const auto& variable : variables) unsetenv(variable[0]);
    }
    EXPECT_GT(good_, rounds / 10);
}

TEST_F(OptionsMutation, OfTheStructIsReadOrRefused) {
    const std::vector<std::int32_t> ranks(65536, 1);
    for (int i = 0; i < rounds && !HasFailure(); ++i) {
        cep_options options = cep::default_options();
        for (std::size_t changes = 1 + mutator_.below(3); changes > 0; --changes) {
            const cep::OptionField& field = cep::option_fields()[mutator_.below(cep::option_count)];
            const std::int64_t value = integer(mutator_);
            char* at = reinterpret_cast<char*>(&options) + field.offset;
            if (field.type == cep::OptionType::integer64)
                *reinterpret_cast<std::int64_t*>(at) = value;
            else if (field.type == cep::OptionType::real)
                *reinterpret_cast<double*>(at) = std::bit_cast<double>(mutator_.any_bits());
            else if (field.type != cep::OptionType::text && field.type != cep::OptionType::object &&
                     field.type != cep::OptionType::ranks)
                *reinterpret_cast<std::int32_t*>(at) = static_cast<std::int32_t>(value);
            else if (field.type == cep::OptionType::ranks)
                options.ranks_count = static_cast<std::uint64_t>(value);
            if (mutator_.below(4) == 0) options.ranks = ranks.data();
        }
        good_ += expect_read_or_refused(&options, "a struct") ? 1 : 0;
    }
    EXPECT_GT(good_, rounds / 100);
}

}  // namespace
