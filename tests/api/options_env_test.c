// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "option_variables.h"
#include "trainer.h"

static cep_options from_environment(void) {
    cep_options options = fresh_options();
    const int32_t code = cep_options_load_env(&options);
    if (code != CEP_OK) check_fail(__FILE__, __LINE__, "cep_options_load_env: %d: %s", code, cep_last_error());
    return options;
}

static void check_variable_refused(const char* variable, const char* value, const char* part) {
    setenv(variable, value, 1);
    cep_options options = fresh_options();
    const cep_options before = options;
    CHECK_EQ(cep_options_load_env(&options), CEP_EOPTION);
    CHECK_CONTAINS(cep_last_error(), variable);
    CHECK_CONTAINS(cep_last_error(), value);
    CHECK_CONTAINS(cep_last_error(), part);
    CHECK(memcmp(&options, &before, sizeof options) == 0);
    cep_profiler* profiler = (cep_profiler*)(intptr_t)1;
    CHECK_EQ(cep_open(NULL, &profiler), CEP_EOPTION);
    CHECK(profiler == NULL);
    CHECK(!path_exists("cuda_event_profiler"));
    unsetenv(variable);
}

TEST_THAT(an_empty_environment_is_off, CHECK_OPTIONS(from_environment(), CHECK_EQ(options.enable, 0)))

TEST_THAT(load_env_refuses_null, CHECK_EQ(cep_options_load_env(NULL), CEP_EINVAL))

TEST(each_option_has_a_variable) {
    for (size_t i = 0; i < sizeof option_variables / sizeof *option_variables; ++i)
        setenv(option_variables[i][0], option_variables[i][1], 1);
    cep_options options = from_environment();
    check_each_option_is_given(&options);
    cep_options_clear(&options);
}

TEST(enable_takes_true_and_false_too) {
    setenv("CEP_ENABLE", "true", 1);
    CHECK_OPTIONS(from_environment(), CHECK_EQ(options.enable, 1));
    setenv("CEP_ENABLE", "false", 1);
    CHECK_OPTIONS(from_environment(), CHECK_EQ(options.enable, 0));
}

TEST(ranks_take_single_numbers_and_ranges) {
    static const int32_t expected[] = {0, 8, 16, 17, 18, 19, 20, 21, 22, 23};
    setenv("CEP_RANKS", "0,8,16-23", 1);
    cep_options options = from_environment();
    CHECK_EQ(options.ranks_count, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; ++i) CHECK_EQ(options.ranks[i], expected[i]);
    cep_options_clear(&options);
}

TEST(a_value_that_its_option_cannot_have_is_refused_and_named_once) {
    static const char* const refused[][3] = {
        {"CEP_RANKS", "0,x", ""},
        {"CEP_RANKS", "9-3", ""},
        {"CEP_RANKS", "0-99999999999", ""},
        {"CEP_RANKS", "0-65536", "65536 ranks"},
        {"CEP_RANKS", "0-16777216", "65536 ranks"},
        {"CEP_RANKS", "0-40000,0-40000", ""},
        {"CEP_START_STEP", "soon", "CEP_START_STEP: start_step: \"soon\" is not an integer"},
        {"CEP_END_STEP", "100k", ""},
        {"CEP_END_STEP", "99999999999999999999", ""},
        {"CEP_RANK", "2147483648", "2147483648 is greater than 2147483647"},
        {"CEP_WORLD_SIZE", "2147483648", "2147483648 is greater than 2147483647"},
        {"CEP_RANK", "-2", "-2 is less than -1"},
        {"CEP_MAX_OVERHEAD_PERCENT", "0.1%", ""},
        {"CEP_MAX_OVERHEAD_PERCENT", "little", ""},
        {"CEP_MAX_OVERHEAD_PERCENT", "-1", ""},
        {"CEP_MAX_OVERHEAD_PERCENT", "nan", ""},
        {"CEP_MAX_OVERHEAD_PERCENT", "100.1", ""},
        {"CEP_LAYOUT", "wide", ""},
        {"CEP_BACKEND", "tpu", ""},
        {"CEP_ENABLE", "perhaps", ""},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i)
        check_variable_refused(refused[i][0], refused[i][1], refused[i][2]);
    setenv("CEP_START_STEP", "soon", 1);
    cep_options options = fresh_options();
    CHECK_EQ(cep_options_load_env(&options), CEP_EOPTION);
    CHECK_TEXT(cep_last_error(), "CEP_START_STEP: start_step: \"soon\" is not an integer");
}

TEST(as_many_ranks_as_can_be_listed_are_accepted) {
    setenv("CEP_RANKS", "0-65534,7", 1);
    CHECK_OPTIONS(from_environment(), CHECK_EQ(options.ranks_count, 65536));
}

TEST(a_launchers_rank_beyond_32_bits_is_refused_with_the_largest) {
    setenv("RANK", "2147483648", 1);
    setenv("CEP_ENABLE", "1", 1);
    cep_profiler* profiler = NULL;
    CHECK_EQ(cep_open(NULL, &profiler), CEP_EOPTION);
    CHECK_CONTAINS(cep_last_error(), "\"2147483648\" in RANK is not an integer in 0..2147483647");
}

TEST(an_unknown_key_in_the_configuration_is_named_with_its_variable) {
    setenv("CEP_CONFIG", "{\"enable\":true,\"stepp\":1}", 1);
    cep_options options = fresh_options();
    CHECK_EQ(cep_options_load_env(&options), CEP_EOPTION);
    CHECK_CONTAINS(cep_last_error(), "CEP_CONFIG");
    CHECK_CONTAINS(cep_last_error(), "stepp");
    cep_options_clear(&options);
}

TEST(a_configuration_path_of_any_length_leaves_room_for_the_reason) {
    char path[3000];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    setenv("CEP_CONFIG", path, 1);
    cep_profiler* profiler = (cep_profiler*)(intptr_t)1;
    CHECK_EQ(cep_open(NULL, &profiler), CEP_EIO);
    CHECK(profiler == NULL);
    CHECK_CONTAINS(cep_last_error(), "CEP_CONFIG");
    CHECK_CONTAINS(cep_last_error(), "too long");
}

TEST(a_configuration_file_is_read) {
    write_text("cep.json", "{\"enable\":true,\"start_step\":8}");
    setenv("CEP_CONFIG", "cep.json", 1);
    CHECK_OPTIONS(from_environment(), CHECK_EQ(options.start_step, 8));
}

TEST(a_variable_overrides_the_configuration) {
    setenv("CEP_CONFIG", "{\"enable\":true,\"start_step\":7,\"end_step\":9}", 1);
    setenv("CEP_START_STEP", "3", 1);
    cep_options options = from_environment();
    CHECK_EQ(options.start_step, 3);
    CHECK_EQ(options.end_step, 9);
    cep_options_clear(&options);
}

TEST(a_variable_can_switch_off_what_the_configuration_enables) {
    setenv("CEP_CONFIG", "{\"enable\":true}", 1);
    setenv("CEP_ENABLE", "0", 1);
    CHECK_OPTIONS(from_environment(), CHECK_EQ(options.enable, 0));
}

TEST(explicit_options_ignore_the_environment) {
    setenv("CEP_ENABLE", "0", 1);
    setenv("CEP_DIRECTORY", "elsewhere", 1);
    setenv("CEP_START_STEP", "soon", 1);
    cep_profiler* profiler = open_and_record();
    close_now(profiler);
    CHECK(path_exists(RANK_FILE));
    CHECK(!path_exists("elsewhere"));
}

TEST(open_without_options_is_off_by_default) {
    cep_profiler* profiler = open_with(NULL);
    record_step(profiler, 0, "forward");
    close_now(profiler);
    CHECK(!path_exists("cuda_event_profiler"));
}

TEST(open_without_options_follows_the_environment) {
    setenv("CEP_ENABLE", "1", 1);
    setenv("CEP_DIRECTORY", "out", 1);
    cep_profiler* profiler = open_with(NULL);
    record_step(profiler, 10, "forward");
    record_step(profiler, 11, "forward");
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_spans_named(&all, "forward"), 1);
}

typedef struct place {
    const char* variables[3];  // rank, world size, local rank
} place;

static const place launchers[] = {
    {{"RANK", "WORLD_SIZE", "LOCAL_RANK"}},
    {{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}},
    {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"}},
    {{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"}},
};

static void set_place(const place* launcher, int rank) {
    for (int i = 0; i < 3; ++i) {
        char value[16];
        snprintf(value, sizeof value, "%d", i == 0 ? rank : i == 1 ? 100 + rank : rank % 8);
        setenv(launcher->variables[i], value, 1);
    }
}

// Opens a profiler without setting the rank, and checks the file's name and the run row.
static void check_discovered(int rank, int world_size, int local_rank) {
    cep_options options = fresh_options();
    options.directory = "out";
    options.record_every_n_steps = 1;
    cep_profiler* profiler = open_with(&options);
    record_step(profiler, 0, "forward");
    close_now(profiler);
    char path[64];
    snprintf(path, sizeof path, "out/cuda_events_rank_%d.jsonl", rank);
    const rows all = rows_read(path);
    const row* run = rows_nth(&all, "run", 0);
    CHECK_EQ(row_int(run, "rank"), rank);
    CHECK_EQ(row_int(run, "world_size"), world_size);
    CHECK_EQ(row_int(run, "local_rank"), local_rank);
    CHECK_EQ(row_int(rows_nth(&all, SPAN, 0), "rank"), rank);
}

TEST_THAT(rank_is_0_of_1_without_a_launcher, check_discovered(0, 1, 0))

TEST(torchrun_precedes_slurm_precedes_open_mpi_precedes_pmi) {
    for (int i = 3; i >= 0; --i) {
        set_place(&launchers[i], 20 + i);
        check_discovered(20 + i, 120 + i, (20 + i) % 8);
    }
}

TEST(an_explicit_rank_overrides_the_launcher) {
    set_place(&launchers[0], 11);
    cep_options options = host_options();
    options.rank = 2;
    options.world_size = 4;
    close_now(open_with(&options));
    CHECK(path_exists("out/cuda_events_rank_2.jsonl"));
}

TEST(cep_rank_overrides_the_launcher) {
    set_place(&launchers[0], 11);
    setenv("CEP_ENABLE", "1", 1);
    setenv("CEP_DIRECTORY", "out", 1);
    setenv("CEP_RANK", "5", 1);
    close_now(open_with(NULL));
    CHECK(path_exists("out/cuda_events_rank_5.jsonl"));
}

static void check_launcher_refused(const char* rank, const char* named) {
    setenv("RANK", rank, 1);
    setenv("WORLD_SIZE", "4", 1);
    cep_options options = fresh_options();
    options.directory = "out";
    check_refused(&options, CEP_EOPTION, named, rank);
}

TEST_THAT(a_launcher_whose_rank_is_outside_its_world_is_refused, check_launcher_refused("4", "rank"))
TEST_THAT(a_launcher_rank_that_is_not_a_number_is_refused_and_named, check_launcher_refused("first", "RANK"))

static size_t messages_of_loading(char* text, size_t size) {
    const int usual = dup(STDERR_FILENO);
    check_report_to(usual);
    const int file = open("messages", O_CREAT | O_RDWR | O_TRUNC, 0600);
    dup2(file, STDERR_FILENO);
    for (int i = 0; i < 2; ++i) {
        cep_options options = from_environment();
        cep_options_clear(&options);
    }
    dup2(usual, STDERR_FILENO);
    const ssize_t length = pread(file, text, size - 1, 0);
    CHECK(length >= 0);
    text[length] = '\0';
    close(file);
    size_t lines = 0;
    for (const char* at = text; (at = strchr(at, '\n')) != NULL; ++at) ++lines;
    return lines;
}

TEST(a_typing_error_in_a_variable_is_told_once) {
    char text[4096];
    setenv("CEP_RECORD_EVERY_N_STEP", "3", 1);
    setenv("CEP_HOME", "/home/cep", 1);  // another program's
    setenv("CEP_BINDING", "ctypes", 1);
    setenv("CEP_LIBRARY", "/somewhere/libcep.so", 1);
    CHECK_EQ(messages_of_loading(text, sizeof text), 1);
    CHECK_CONTAINS(text, "CEP_RECORD_EVERY_N_STEP is no variable");
    CHECK_CONTAINS(text, "did you mean CEP_RECORD_EVERY_N_STEPS?");
}

TEST(a_typing_error_in_a_variable_is_told_by_the_first_rank_only) {
    char text[4096];
    setenv("CEP_ENABEL", "1", 1);
    setenv("RANK", "1", 1);
    setenv("WORLD_SIZE", "4", 1);
    CHECK_EQ(messages_of_loading(text, sizeof text), 0);
}
