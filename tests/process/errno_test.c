// SPDX-License-Identifier: Apache-2.0
//
// No call changes the trainer's errno.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "faulty_io.h"
#include "trainer.h"

#define KEEPS_ERRNO(call)                                                                         \
    do {                                                                                          \
        errno = EXDEV;                                                                            \
        (void)(call);                                                                             \
        const int left = errno;                                                                   \
        if (left != EXDEV) check_fail(__FILE__, __LINE__, "%s has set errno to %d", #call, left); \
    } while (0)

#define KEEPS_ERRNO_VOID(call)                                                                    \
    do {                                                                                          \
        errno = EXDEV;                                                                            \
        call;                                                                                     \
        const int left = errno;                                                                   \
        if (left != EXDEV) check_fail(__FILE__, __LINE__, "%s has set errno to %d", #call, left); \
    } while (0)

TEST(calls_about_options_leave_errno) {
    cep_options options;
    KEEPS_ERRNO(cep_version());
    KEEPS_ERRNO(cep_strerror(CEP_EIO));
    KEEPS_ERRNO(cep_last_error());
    KEEPS_ERRNO(cep_options_init(&options, sizeof options));
    KEEPS_ERRNO(cep_options_load_json(&options, "{\"enable\":true,\"rank\":3}"));
    KEEPS_ERRNO(cep_options_load_json(&options, "{\"rank\":1e400}"));
    KEEPS_ERRNO(cep_options_load_json(&options, "{\"record_every_n_steps\":99999999999999999999}"));
    KEEPS_ERRNO(cep_options_load_json(&options, "no/such/file.json"));
    KEEPS_ERRNO(cep_options_load_json(&options, "/"));
    CHECK_EQ(setenv("CEP_RANKS", "0,99999999999999999999", 1), 0);
    KEEPS_ERRNO(cep_options_load_env(&options));
    CHECK_EQ(setenv("CEP_RANKS", "0,8-9", 1), 0);
    KEEPS_ERRNO(cep_options_load_env(&options));
    KEEPS_ERRNO_VOID(cep_options_clear(&options));
}

TEST(an_open_that_works_leaves_errno) {
    const cep_options options = host_options();
    cep_profiler* profiler = NULL;
    for (int start = 0; start < 2; ++start) {  // without and with the directory and the file there
        KEEPS_ERRNO(cep_open(&options, &profiler));
        CHECK(profiler != NULL);
        record_step(profiler, 0, "forward");
        KEEPS_ERRNO(cep_close(profiler, close_timeout_ms));
        KEEPS_ERRNO(cep_close(profiler, close_timeout_ms));
    }
}

TEST(an_open_of_a_profiler_that_is_off_leaves_errno) {
    cep_options options = host_options();
    options.enable = 0;
    cep_profiler* profiler = NULL;
    KEEPS_ERRNO(cep_open(&options, &profiler));
    KEEPS_ERRNO(cep_flush(profiler, 10));
    KEEPS_ERRNO(cep_close(profiler, 10));
}

TEST(an_open_that_fails_leaves_errno) {
    cep_options options = host_options();
    cep_profiler* profiler = NULL;
    const int file = open("out", O_CREAT | O_WRONLY, 0600);
    CHECK(file >= 0);
    close(file);
    KEEPS_ERRNO(cep_open(&options, &profiler));
    CHECK(profiler == NULL);
    options.directory = "/proc/no/such/place";
    KEEPS_ERRNO(cep_open(&options, &profiler));
    CHECK(profiler == NULL);
    KEEPS_ERRNO(cep_open(NULL, NULL));
}

TEST(an_open_of_a_file_that_is_locked_leaves_errno) {
    const cep_options options = host_options();
    cep_profiler *first = open_here(), *second = NULL;
    KEEPS_ERRNO(cep_open(&options, &second));
    KEEPS_ERRNO(cep_close(second, 10));
    close_now(first);
}

// A thread's first span allocates its ring. The first span of all starts the library's threads.
static void* call_everything(void* profiler) {
    cep_region* region = NULL;
    cep_attrs attrs = CEP_ATTRS_INIT, invalid = CEP_ATTRS_INIT;
    attrs.group = "dp";
    attrs.meta = "{\"a\":[1,2]}";
    invalid.meta = "[1";
    cep_span span = 0;
    KEEPS_ERRNO(cep_step(profiler, 0));
    KEEPS_ERRNO(cep_step(profiler, -1));
    KEEPS_ERRNO(cep_recording(profiler));
    KEEPS_ERRNO(region = cep_region_get(profiler, "forward", CEP_KIND_AUTO));
    KEEPS_ERRNO(cep_region_get(profiler, "", CEP_KIND_AUTO));
    KEEPS_ERRNO(span = cep_begin(region, CEP_HOST));
    KEEPS_ERRNO_VOID(cep_end(region, span, CEP_HOST));
    KEEPS_ERRNO(span = cep_begin(region, NULL));
    KEEPS_ERRNO(span = cep_switch(span, region, NULL));
    KEEPS_ERRNO_VOID(cep_end(region, CEP_SPAN_INNERMOST, NULL));
    KEEPS_ERRNO(cep_phase(profiler, region, NULL));
    KEEPS_ERRNO(cep_phase(profiler, NULL, NULL));
    KEEPS_ERRNO(span = cep_begin_with(region, CEP_HOST, &attrs));
    KEEPS_ERRNO(cep_end_with(region, span, CEP_HOST, &attrs));
    KEEPS_ERRNO(span = cep_begin_with(region, CEP_HOST, &invalid));
    KEEPS_ERRNO(cep_end_with(region, span, CEP_HOST, &invalid));
    KEEPS_ERRNO(cep_record(region, 0, 1000, &attrs));
    KEEPS_ERRNO(cep_record(region, -1, 1000, &attrs));
    KEEPS_ERRNO(cep_counter(profiler, "a new name", 1));
    KEEPS_ERRNO(cep_counter(profiler, "a new name", 1));
    KEEPS_ERRNO(cep_counter(profiler, NULL, 1));
    KEEPS_ERRNO(cep_mark(profiler, "checkpoint", "{\"a\":1}"));
    KEEPS_ERRNO(cep_mark(profiler, "checkpoint", "{"));
    KEEPS_ERRNO(cep_set_meta(profiler, "{\"dp\":1,\"peak_flops\":1e15}"));
    KEEPS_ERRNO(cep_set_meta(profiler, "{\"dp\":1e999}"));
    KEEPS_ERRNO(cep_flush(profiler, 0));
    KEEPS_ERRNO(cep_flush(profiler, close_timeout_ms));
    KEEPS_ERRNO(cep_flush(profiler, -1));
    cep_stats stats = {.struct_size = sizeof stats};
    KEEPS_ERRNO(cep_get_stats(profiler, &stats));
    return NULL;
}

static void check_everything_leaves_errno(int32_t backend) {
    PROFILER_WITH(open_with, host_options, backend = backend);
    (void)call_everything(profiler);
    check_on_a_thread(call_everything, profiler);
    KEEPS_ERRNO(cep_close(profiler, close_timeout_ms));
    (void)call_everything(profiler);
}

TEST_THAT(every_call_on_the_host_clock_leaves_errno, check_everything_leaves_errno(CEP_BACKEND_HOST))
TEST_THAT(every_call_on_any_device_leaves_errno, check_everything_leaves_errno(CEP_BACKEND_AUTO))

TEST(calls_while_a_disk_fails_leave_errno) {
    cep_profiler* profiler = open_and_record();
    io_fail_writes(ENOSPC, IO_FOR_EVER);
    KEEPS_ERRNO(cep_flush(profiler, close_timeout_ms));
    cep_region* region = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    for (int i = 0; i < 10000; ++i) {
        errno = EXDEV;
        cep_end(region, cep_begin(region, CEP_HOST), CEP_HOST);
        CHECK_EQ(errno, EXDEV);
    }
    KEEPS_ERRNO(cep_step(profiler, 10));
    KEEPS_ERRNO(cep_flush(profiler, 0));
    KEEPS_ERRNO(cep_flush(profiler, close_timeout_ms));
    KEEPS_ERRNO(cep_close(profiler, close_timeout_ms));
}

TEST(calls_that_time_out_leave_errno) {
    cep_profiler* profiler = open_and_record();
    io_stall_writes();
    KEEPS_ERRNO(cep_flush(profiler, 50));
    KEEPS_ERRNO(cep_close(profiler, 50));
    io_release_writes();
}
