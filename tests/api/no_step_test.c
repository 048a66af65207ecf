// SPDX-License-Identifier: Apache-2.0
//
// A trainer that begins no step records nothing, and is told so when the profiler closes.
#include <fcntl.h>
#include <unistd.h>

#include "trainer.h"

static cep_profiler* profiler;
static int32_t rank;
static int32_t regions;
static int steps;

static void train(void) {
    cep_options options = host_options();
    options.rank = rank;
    options.world_size = 2;
    profiler = open_with(&options);
    for (int step = 0; step < steps; ++step) CHECK_EQ(cep_step(profiler, step), CEP_OK);
    for (int32_t i = 0; i < regions; ++i) {
        const char name[] = {(char)('a' + i), '\0'};
        cep_region* region = cep_region_get(profiler, name, CEP_KIND_AUTO);
        CHECK(region != NULL);
        cep_end(region, cep_begin(region, CEP_HOST), CEP_HOST);
    }
}

static void train_and_close(void) {
    train();
    close_now(profiler);
    close_now(profiler);
}

// What a process that runs `body` writes to standard error.
static const char* messages_of(void (*body)(void)) {
    static char text[4096];
    const int usual = dup(STDERR_FILENO);
    check_report_to(usual);
    const int file = open("messages", O_CREAT | O_RDWR | O_TRUNC, 0600);
    CHECK(file >= 0 && dup2(file, STDERR_FILENO) >= 0);
    CHECK_CHILD_PASSES(body);
    dup2(usual, STDERR_FILENO);
    const ssize_t length = pread(file, text, sizeof text - 1, 0);
    CHECK(length >= 0);
    text[length] = '\0';
    close(file);
    return text;
}

static const char told[] =
    "cep: rank 0: cep_step() was never called; nothing was recorded for a, b: call it, in Python prof.step(n), at the "
    "start of each step\n";

TEST(no_step_is_told_once_at_close) {
    regions = 2;
    CHECK_TEXT(messages_of(train_and_close), told);
}

TEST(no_step_is_told_at_the_exit_of_a_process_that_does_not_close) {
    regions = 2;
    CHECK_TEXT(messages_of(train), told);
}

TEST(of_many_regions_the_first_are_named) {
    regions = 6;
    CHECK_CONTAINS(messages_of(train_and_close), "nothing was recorded for a, b, c and 3 more: ");
}

TEST(another_rank_does_not_repeat_it) {
    regions = 2;
    rank = 1;
    CHECK_TEXT(messages_of(train_and_close), "");
}

TEST_THAT(a_trainer_without_regions_is_told_nothing, CHECK_TEXT(messages_of(train_and_close), ""))

TEST(a_trainer_that_begins_a_step_is_told_nothing) {
    regions = 2;
    steps = 1;
    CHECK_TEXT(messages_of(train_and_close), "");
}
