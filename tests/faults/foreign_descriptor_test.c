// SPDX-License-Identifier: Apache-2.0
//
// A program that closes descriptors that it does not know, as daemons do, and opens a file of its own: it gets the rank
// file's number.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "faulty_io.h"
#include "scene.h"

static const char checkpoint_path[] = "checkpoint";
static const char own_text[] = "the trainer's own bytes\n";

static cep_profiler* profiler;
static int checkpoint = -1;

static void start_and_close_its_descriptor(void) {
    profiler = start_with_messages(100);
    const int number = rank_file_descriptor();
    CHECK(number > 2);
    CHECK_EQ(close(number), 0);
    checkpoint = number;
}

static void take_its_number(void) {
    start_and_close_its_descriptor();
    const int opened = open(checkpoint_path, O_RDWR | O_CREAT | O_EXCL, S_IRWXU);
    CHECK_EQ(opened, checkpoint);
}

static void check_checkpoint_is_untouched(void) {
    CHECK_EQ(write(checkpoint, own_text, strlen(own_text)), strlen(own_text));
    check_text_is(checkpoint_path, own_text);
}

static void check_rank_file(void) {
    check_exactly_once(profiler, RANK_FILE);
    check_has_numbers(RANK_FILE, 1, 200);
    CHECK_EQ(stats_of(profiler).written, 200);
    CHECK_EQ(count_messages(RANK_FILE, "has closed its descriptor"), 1);
    CHECK_EQ(count_all_messages(), 1);
}

TEST(rows_go_to_the_rank_file_and_not_to_a_file_that_got_its_number) {
    take_its_number();
    record_numbers(profiler, 101, 100);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    check_has_numbers(RANK_FILE, 1, 200);
    CHECK_EQ(file_size(checkpoint_path), 0);
    close_now(profiler);
    check_checkpoint_is_untouched();
    check_rank_file();
}

TEST(a_close_leaves_a_file_open_that_got_the_rank_files_number) {
    take_its_number();
    record_numbers(profiler, 101, 100);
    close_now(profiler);
    check_checkpoint_is_untouched();
    check_rank_file();
}

TEST(a_descriptor_that_the_program_has_closed_is_opened_again) {
    start_and_close_its_descriptor();
    record_numbers(profiler, 101, 100);
    close_now(profiler);
    check_rank_file();
}

TEST(rows_of_a_partial_write_are_whole_in_the_file_that_is_opened_again) {
    profiler = start_with_messages(100);
    io_leave_room(ENOSPC, 1000);
    record_numbers(profiler, 101, 100);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_EIO);
    checkpoint = rank_file_descriptor();
    CHECK_EQ(close(checkpoint), 0);
    CHECK_EQ(open(checkpoint_path, O_RDWR | O_CREAT | O_EXCL, S_IRWXU), checkpoint);
    io_heal_writes();
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    close_now(profiler);
    check_checkpoint_is_untouched();
    const rows all = rows_read_leniently(RANK_FILE);  // the cut row is followed by the whole one
    CHECK_EQ(rows_count(&all, SPAN), 200);
    CHECK_EQ(stats_of(profiler).written, 200);
}

static void check_child_has_it(void) {
    CHECK(fcntl(checkpoint, F_GETFD) >= 0);
    check_checkpoint_is_untouched();
}

TEST(a_forked_child_keeps_a_file_that_got_the_rank_files_number) {
    if (CHECK_SANITIZED) check_skip("sanitizers do not support a fork while other threads run");
    take_its_number();
    CHECK_CHILD_PASSES(check_child_has_it);
    record_numbers(profiler, 101, 100);
    close_now(profiler);
    check_text_is(checkpoint_path, own_text);
    check_rank_file();
}
