// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trainer.h"

static void need_exact_threads(void) {
    if (CHECK_SANITIZED) check_skip("the sanitizer has a thread of its own");
}

TEST(no_thread_runs_before_the_first_recorded_span_and_one_after) {
    need_exact_threads();
    PROFILER_WITH(open_with, host_options, start_step = 5);
    CHECK_EQ(count_threads(), 1);
    record_step(profiler, 1, "forward");
    CHECK_EQ(count_threads(), 1);
    record_step(profiler, 5, "forward");
    CHECK_EQ(count_threads(), 2);
    for (int step = 6; step < 200; ++step) record_step(profiler, step, "forward");
    CHECK_EQ(count_threads(), 2);
    close_now(profiler);
    wait_for_threads(1);
}

// The value of a "Name:\tvalue" line of a thread's status, as a mask.
static uint64_t blocked_signals(const char* thread) {
    char path[300], line[256];
    snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
    FILE* status = fopen(path, "r");
    CHECK(status != NULL);
    uint64_t mask = 0;
    while (fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, "SigBlk:", 7) == 0) mask = strtoull(line + 7, NULL, 16);
    fclose(status);
    return mask;
}

static uint64_t asynchronous_signals(void) {
    static const int left_alone[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    uint64_t mask = UINT64_MAX;
    for (size_t i = 0; i < sizeof left_alone / sizeof *left_alone; ++i) mask &= ~(UINT64_C(1) << (left_alone[i] - 1));
    for (int internal = 32; internal < SIGRTMIN; ++internal) mask &= ~(UINT64_C(1) << (internal - 1));
    return mask;
}

TEST(the_librarys_threads_block_asynchronous_signals_and_no_other) {
    need_exact_threads();
    cep_profiler* profiler = open_and_record();
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);  // then the C library has finished the thread's start
    DIR* tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    int checked = 0;
    for (const struct dirent* entry = readdir(tasks); entry != NULL; entry = readdir(tasks)) {
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == getpid()) continue;
        CHECK_EQ(blocked_signals(entry->d_name), asynchronous_signals());
        ++checked;
    }
    closedir(tasks);
    CHECK_EQ(checked, 1);
    close_now(profiler);
}

TEST(the_trainers_own_signal_mask_stays_as_it_was) {
    sigset_t before, after;
    sigemptyset(&before);
    sigaddset(&before, SIGUSR2);
    CHECK_EQ(sigprocmask(SIG_SETMASK, &before, NULL), 0);
    cep_profiler* profiler = open_and_record();
    close_now(profiler);
    CHECK_EQ(sigprocmask(SIG_BLOCK, NULL, &after), 0);
    for (int number = 1; number < SIGRTMAX; ++number) CHECK_EQ(sigismember(&after, number), number == SIGUSR2);
}

TEST(no_signal_handler_is_installed) {
    struct sigaction before[32] = {0}; /* a test harness may ignore some */
    for (int number = 1; number <= 31; ++number) sigaction(number, NULL, &before[number]);
    cep_profiler* profiler = open_and_record();
    for (int number = 1; number <= 31; ++number) {
        struct sigaction action = {0};
        if (sigaction(number, NULL, &action) != 0) continue;
        CHECK(action.sa_handler == before[number].sa_handler);
    }
    close_now(profiler);
}

/* ---- Idle threads --------------------------------------------------------------------------------------------- */

// Whether the thread sleeps in futex(2) without a timeout, so that only another thread's call can wake it.
static bool sleeps_until_woken(const char* thread) {
    char path[300];
    unsigned long arguments[4] = {0};
    long number = -1;
    snprintf(path, sizeof path, "/proc/self/task/%s/syscall", thread);
    FILE* file = fopen(path, "r");
    if (file == NULL) return false;
    const int read =
        fscanf(file, "%ld %lx %lx %lx %lx", &number, &arguments[0], &arguments[1], &arguments[2], &arguments[3]);
    fclose(file);
    return read == 5 && number == SYS_futex && arguments[3] == 0;
}

static bool every_other_thread_sleeps_until_woken(void) {
    DIR* threads = opendir("/proc/self/task");
    CHECK(threads != NULL);
    bool all = true;
    for (struct dirent* entry = readdir(threads); entry != NULL; entry = readdir(threads))
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != gettid()) all = all && sleeps_until_woken(entry->d_name);
    closedir(threads);
    return all;
}

TEST(threads_with_nothing_to_do_sleep_until_a_call_wakes_them) {
    need_exact_threads();
    alarm(60);
    PROFILER_WITH(open_with, host_options, flush_every_n_steps = 1);
    cep_region* region = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    for (int step = 1; step <= 3; ++step) {
        CHECK_EQ(cep_step(profiler, step), CEP_OK);
        cep_end(region, cep_begin(region, CEP_HOST), CEP_HOST);
        if (step == 1) CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
        while (stats_of(profiler).written < (uint64_t)step) sched_yield();  // the later ones by themselves
        while (!every_other_thread_sleeps_until_woken()) sched_yield();
    }
    CHECK_EQ(cep_set_meta(profiler, "{\"dp\":3}"), CEP_OK);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, SPAN), 3);
    CHECK_EQ(row_int(rows_last(&all, "run"), "dp"), 3);
}
