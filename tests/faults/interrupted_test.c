// SPDX-License-Identifier: Apache-2.0
//
// System calls that signals interrupt are made again. Interrupted writes are in write_fault_test.c.
#include <errno.h>
#include <unistd.h>

#include "faulty_io.h"
#include "scene.h"

static int64_t last_attempt(void) {
    const rows all = rows_read(RANK_FILE);
    return row_int(rows_last(&all, "run"), "attempt");
}

TEST(the_attempt_is_found_though_reads_are_interrupted) {
    for (int i = 0; i < 3; ++i) close_now(start());
    CHECK_EQ(last_attempt(), 3);
    io_interrupt_every_second_read();
    for (int i = 0; i < 3; ++i) close_now(start());
    CHECK(io_reads_interrupted() > 0);
    CHECK_EQ(last_attempt(), 6);
}

TEST(the_attempt_is_found_though_reads_are_interrupted_and_short) {
    for (int i = 0; i < 3; ++i) close_now(start());
    io_interrupt_every_second_read();
    io_cut_reads_short(7);
    close_now(start());
    CHECK(io_reads_interrupted() > 10);
    CHECK_EQ(last_attempt(), 4);
}

static void load_configuration(int64_t longest_read_bytes) {
    write_text("config.json",
               "{\"start_step\":1234567,\"directory\":\"elsewhere\",\"run_id\":\"the last of the keys\"}");
    io_interrupt_every_second_read();
    io_cut_reads_short(longest_read_bytes);
    cep_options options;
    CHECK_EQ(cep_options_init(&options, sizeof options), CEP_OK);
    const int32_t code = cep_options_load_json(&options, "config.json");
    if (code != CEP_OK) check_fail(__FILE__, __LINE__, "cep_options_load_json: %s", cep_last_error());
    CHECK(io_reads_interrupted() > 0);
    CHECK_EQ(options.start_step, 1234567);
    CHECK_TEXT(options.run_id, "the last of the keys");
    cep_options_clear(&options);
}

TEST_THAT(a_configuration_is_read_though_reads_are_interrupted, load_configuration(0))
TEST_THAT(a_configuration_is_read_though_reads_are_interrupted_and_short, load_configuration(5))

TEST(a_file_is_opened_though_its_open_is_interrupted) {
    io_fail_opens(EINTR, 3);
    cep_profiler* profiler = start();
    CHECK_EQ(io_opens_failed(), 3);
    record_and_flush(profiler, 1, 100);
    close_and_check(profiler);
    check_has_numbers(RANK_FILE, 1, 100);
}

TEST(a_configuration_is_opened_though_its_open_is_interrupted) {
    write_text("of_cuda_events_rank_0.json", "{\"start_step\":7}");
    io_fail_opens(EINTR, 3);
    cep_options options;
    CHECK_EQ(cep_options_init(&options, sizeof options), CEP_OK);
    CHECK_EQ(cep_options_load_json(&options, "of_cuda_events_rank_0.json"), CEP_OK);
    CHECK_EQ(io_opens_failed(), 3);
    CHECK_EQ(options.start_step, 7);
    cep_options_clear(&options);
}

TEST(a_removed_file_is_made_again_though_opens_are_interrupted) {
    cep_profiler* profiler = start_with_messages(100);
    CHECK_EQ(unlink(RANK_FILE), 0);
    io_fail_opens(EINTR, 3);
    record_numbers(profiler, 101, 100);
    close_now(profiler);
    CHECK_EQ(io_opens_failed(), 3);
    CHECK_EQ(count_all_messages(), 1);  // of the file that was removed
    check_has_numbers(RANK_FILE, 101, 100);
}
