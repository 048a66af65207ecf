// SPDX-License-Identifier: Apache-2.0
//
// SIGKILL at random moments: flushed rows stay in the file, the file stays readable, and the next start continues it.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "trainer.h"

enum {
    kills = CHECK_SANITIZED ? 100 : 1000,
    longest_life_us = CHECK_SANITIZED ? 60000 : 4000,
    most_spans_between_flushes = 30
};

// The trainer's progress when it is killed. The parent can read it.
typedef struct progress {
    volatile uint64_t begun, flushed, opened;
} progress;

static progress* lives;

static void map_progress(void) {
    lives = mmap(NULL, kills * sizeof *lives, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(lives != MAP_FAILED);
}

static uint64_t random_state = 20240229;

static uint64_t random_below(uint64_t limit) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (random_state >> 33) % limit;
}

// The step of a span tells which start of the trainer it belongs to.
static void train_until_killed(int life) {
    progress* done = &lives[life];
    cep_profiler* profiler = open_here();
    cep_region* region = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    done->opened = 1;
    (void)cep_step(profiler, life);
    for (;;) {
        const uint64_t spans = 1 + random_below(most_spans_between_flushes);
        for (uint64_t i = 0; i < spans; ++i) {
            ++done->begun;
            cep_end(region, cep_begin(region, CEP_HOST), CEP_HOST);
        }
        const uint64_t before = done->begun;
        if (cep_flush(profiler, close_timeout_ms) == CEP_OK) done->flushed = before;
    }
}

static void live_and_be_killed(int life) {
    const uint64_t life_us = random_below(longest_life_us);
    fflush(NULL);
    const pid_t trainer = fork();
    CHECK(trainer >= 0);
    if (trainer == 0) train_until_killed(life);
    const struct timespec moment = {0, (long)life_us * 1000};
    nanosleep(&moment, NULL);
    kill(trainer, SIGKILL);
    int status = 0;
    CHECK(waitpid(trainer, &status, 0) == trainer);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

typedef struct findings {
    uint64_t spans[kills];
    int runs, broken_lines;
    int64_t last_attempt;
} findings;

static void look_at_row(const char* path, int number, const char* line, cJSON* json, findings* found) {
    const cJSON* type = cJSON_GetObjectItemCaseSensitive(json, "type");
    if (type == NULL) {
        const int step = (int)cJSON_GetObjectItemCaseSensitive(json, "step")->valuedouble;
        if (step < 0 || step >= kills) check_fail(path, number, "a step nobody was in: %.200s", line);
        ++found->spans[step];
    } else if (strcmp(type->valuestring, "run") == 0) {
        const int64_t attempt = (int64_t)cJSON_GetObjectItemCaseSensitive(json, "attempt")->valuedouble;
        if (attempt <= found->last_attempt) check_fail(path, number, "not the next attempt: %.200s", line);
        found->last_attempt = attempt;
        ++found->runs;
    }
}

static void read_file(const char* path, findings* found) {
    FILE* file = fopen(path, "r");
    CHECK(file != NULL);
    char* line = NULL;
    size_t capacity = 0;
    ssize_t size;
    for (int number = 1; (size = getline(&line, &capacity, file)) > 0; ++number) {
        cJSON* json = cJSON_Parse(line);
        if (json != NULL && line[size - 1] == '\n') {
            look_at_row(path, number, line, json, found);
        } else {
            ++found->broken_lines;
            // The rows of the next start begin on a new line.
            if (strstr(line + 1, "{\"type\":\"run\"") != NULL) check_fail(path, number, "two rows in one: %s", line);
        }
        cJSON_Delete(json);
    }
    free(line);
    fclose(file);
}

TEST(a_kill_at_any_moment_loses_only_what_was_not_flushed) {
    map_progress();
    for (int life = 0; life < kills; ++life) live_and_be_killed(life);
    static findings found;
    read_file(RANK_FILE, &found);
    uint64_t begun = 0, written = 0, most_lost = 0, opened = 0;
    for (int life = 0; life < kills; ++life) {
        const progress* done = &lives[life];
        if (found.spans[life] < done->flushed)
            check_fail(__FILE__, __LINE__, "life %d: %llu spans were flushed, and %llu are there", life,
                       (unsigned long long)done->flushed, (unsigned long long)found.spans[life]);
        CHECK(found.spans[life] <= done->begun);
        const uint64_t lost = done->begun - found.spans[life];
        if (lost > most_lost) most_lost = lost;
        begun += done->begun;
        written += found.spans[life];
        opened += done->opened;
    }
    CHECK(found.broken_lines <= kills);
    printf(
        "# %d kills, %llu of them after the open; %llu spans begun, %llu in the file, none lost that was flushed;\n"
        "# at most %llu lost in one life; %d lines cut off; %d run rows\n",
        kills, (unsigned long long)opened, (unsigned long long)begun, (unsigned long long)written,
        (unsigned long long)most_lost, found.broken_lines, found.runs);
    fflush(stdout);
    // Spans begun after the last flush and before the kill.
    CHECK(most_lost <= 2 * most_spans_between_flushes);
    // Each open that returned has written its run row, and the next start has the next attempt.
    CHECK(found.runs >= (int)opened);
    cep_profiler* next = open_here();
    record_step(next, 0, "backward");
    close_now(next);
    const rows all = rows_read_leniently(RANK_FILE);
    CHECK_EQ(rows_spans_named(&all, "backward"), 1);
    CHECK_EQ(row_int(rows_last(&all, "run"), "attempt"), found.last_attempt + 1);
}

static volatile uint64_t* row_to_die_at;

// Kills at a given number of rows instead of a given time, so that every point of the writer's work is hit.
static void die_after_some_rows(void) {
    cep_profiler* profiler = open_here();
    cep_region* region = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    (void)cep_step(profiler, 0);
    for (uint64_t i = 0; i < *row_to_die_at; ++i) {
        cep_end(region, cep_begin(region, CEP_HOST), CEP_HOST);
        if (i % 100 == 99) (void)cep_flush(profiler, 0);
    }
    raise(SIGKILL);
}

TEST(a_kill_while_the_writer_is_busy_leaves_lines_that_the_next_start_can_follow) {
    enum { starts = CHECK_SANITIZED ? 20 : 100 };
    row_to_die_at = mmap(NULL, sizeof *row_to_die_at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(row_to_die_at != MAP_FAILED);
    for (int start = 0; start < starts; ++start) {
        *row_to_die_at = random_below(3000);
        const int status = check_in_child(die_after_some_rows);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    static findings found;
    read_file(RANK_FILE, &found);
    CHECK(found.broken_lines <= starts);
    CHECK_EQ(found.runs, starts);
    CHECK_EQ(found.last_attempt, starts);
}
