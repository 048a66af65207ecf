// SPDX-License-Identifier: Apache-2.0
//
// Trainers whose standard streams are closed, full or without a reader.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "faulty_io.h"
#include "scene.h"

// Makes the library print, by a disk that is full for a while and a second profiler on the file.
static void make_it_speak(cep_profiler* profiler) {
    io_leave_room(ENOSPC, 300);
    record_and_flush(profiler, 1, 100);
    io_heal_writes();
    record_and_flush(profiler, 101, 100);
    const cep_options options = quiet_options();
    cep_profiler* other = NULL;
    (void)cep_open(&options, &other);
    (void)cep_close(other, 0);
}

static void check_file_has_rows_alone(cep_profiler* profiler) {
    close_and_check(profiler);
    check_has_numbers(RANK_FILE, 1, 200);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_count(&all, "run"), 1);
}

static void run_without(bool input, bool output, bool errors) {
    keep_messages();
    if (input) CHECK_EQ(close(STDIN_FILENO), 0);
    if (output) CHECK_EQ(close(STDOUT_FILENO), 0);
    if (errors) CHECK_EQ(close(STDERR_FILENO), 0);
    cep_profiler* profiler = start();
    CHECK(rank_file_descriptor() > STDERR_FILENO);
    make_it_speak(profiler);
    CHECK(rank_file_descriptor() > STDERR_FILENO);
    check_file_has_rows_alone(profiler);
}

TEST_THAT(the_rank_file_does_not_become_standard_input, run_without(true, false, false))
TEST_THAT(the_rank_file_does_not_become_standard_output, run_without(false, true, false))
TEST_THAT(the_rank_file_does_not_become_standard_error_and_gets_no_message, run_without(false, false, true))
TEST_THAT(the_rank_file_does_not_become_any_of_three_closed_streams, run_without(true, true, true))

TEST(a_file_that_is_made_again_does_not_become_standard_error) {
    cep_profiler* profiler = start_with_messages(10);
    for (int stream = 0; stream < 3; ++stream) CHECK_EQ(close(stream), 0);
    CHECK_EQ(unlink(RANK_FILE), 0);
    if (IO_HAS_THREADS_AND_CLOCKS) {
        io_pass_time(INT64_C(6000000000));
        record_and_flush(profiler, 11, 10);
        CHECK(rank_file_descriptor() > STDERR_FILENO);
    }
    make_it_speak(profiler);
    close_now(profiler);
    (void)rows_read(RANK_FILE);
    (void)accounted_stats_of(profiler);
}

static void speak_to(int descriptor) {
    keep_messages();
    CHECK_EQ(dup2(descriptor, STDERR_FILENO), STDERR_FILENO);
    cep_profiler* profiler = start();
    make_it_speak(profiler);
    check_file_has_rows_alone(profiler);
}

TEST(standard_error_on_a_full_device_is_harmless) {
    const int descriptor = open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) check_skip("no /dev/full");
    speak_to(descriptor);
}

// SIGPIPE keeps its default here, which kills.
TEST(standard_error_without_a_reader_is_harmless) {
    int ends[2];
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    CHECK_EQ(close(ends[0]), 0);
    CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    speak_to(ends[1]);
}

static int full_pipe(void) {
    int ends[2];
    CHECK_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    char byte = 'x';
    while (write(ends[1], &byte, 1) == 1) continue;
    CHECK_EQ(errno, EAGAIN);
    CHECK_EQ(fcntl(ends[1], F_SETFL, 0), 0);
    return ends[1];
}

// This happens when the launcher that collects the messages of the ranks is stopped.
TEST(standard_error_that_blocks_delays_no_call_of_the_trainer) {
    const int descriptor = full_pipe();
    cep_profiler* profiler = start_with_messages(0);
    CHECK_EQ(dup2(descriptor, STDERR_FILENO), STDERR_FILENO);
    io_leave_room(ENOSPC, 300);
    record_numbers(profiler, 1, 100);
    CHECK(cep_flush(profiler, 500) != CEP_OK);
    for (int64_t step = 1; step < 1000; ++step) record_step(profiler, step, "forward");
    (void)accounted_stats_of(profiler);
    CHECK(cep_close(profiler, 500) != CEP_OK);
    (void)accounted_stats_of(profiler);
    _exit(0);  // the thread that prints the message is still inside its write
}
