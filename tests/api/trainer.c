// SPDX-License-Identifier: Apache-2.0
#include "trainer.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

cep_options fresh_options(void) {
    cep_options options;
    CHECK_EQ(cep_options_init(&options, sizeof options), CEP_OK);
    return options;
}

void check_each_option_is_given(const cep_options* options) {
    CHECK_EQ(options->enable, 1);
    CHECK_TEXT(options->directory, "d");
    CHECK_EQ(options->rank, 3);
    CHECK_EQ(options->world_size, 8);
    CHECK_EQ(options->local_rank, 1);
    CHECK_EQ(options->layout, CEP_LAYOUT_FLAT);
    CHECK_EQ(options->start_step, 5);
    CHECK_EQ(options->end_step, 500);
    CHECK_EQ(options->record_every_n_steps, 2);
    CHECK_EQ(options->flush_every_n_steps, 4);
    CHECK_EQ(options->ranks_count, 3);
    CHECK(options->ranks[0] == 0 && options->ranks[1] == 3 && options->ranks[2] == 7);
    CHECK_EQ(options->max_file_bytes, 1000000);
    CHECK_EQ(options->ring_capacity, 64);
    CHECK_EQ(options->pool_limit, 128);
    CHECK_EQ(options->backend, CEP_BACKEND_HOST);
    CHECK_TEXT(options->run_id, "r1");
    CHECK_CONTAINS(options->meta, "\"model\"");
    CHECK(options->max_overhead_percent == 0.125);
    CHECK_TEXT(options->capture_range, "100-104@0,8");
}

cep_options host_options(void) {
    cep_options options = fresh_options();
    options.directory = "out";
    options.rank = 0;
    options.world_size = 1;
    options.local_rank = 0;
    options.record_every_n_steps = 1;
    options.backend = CEP_BACKEND_HOST;
    return options;
}

cep_profiler* open_with(const cep_options* options) {
    cep_profiler* profiler = NULL;
    const int32_t code = cep_open(options, &profiler);
    if (code != CEP_OK) check_fail(__FILE__, __LINE__, "cep_open: %d: %s", code, cep_last_error());
    CHECK(profiler != NULL);
    return profiler;
}

cep_profiler* open_here(void) {
    const cep_options options = host_options();
    return open_with(&options);
}

cep_profiler* open_in(const char* directory) {
    PROFILER_WITH(open_with, host_options, directory = directory);
    return profiler;
}

cep_profiler* open_every(int64_t steps) {
    PROFILER_WITH(open_with, host_options, record_every_n_steps = steps);
    return profiler;
}

cep_profiler* open_at_step(int64_t step) {
    cep_profiler* profiler = open_here();
    CHECK_EQ(cep_step(profiler, step), CEP_OK);
    return profiler;
}

cep_profiler* open_and_record(void) {
    cep_profiler* profiler = open_here();
    record_step(profiler, 0, "forward");
    return profiler;
}

cep_stats close_now(cep_profiler* profiler) {
    const int32_t code = cep_close(profiler, close_timeout_ms);
    if (code != CEP_OK) check_fail(__FILE__, __LINE__, "cep_close: %d: %s", code, cep_last_error());
    return accounted_stats_of(profiler);
}

rows rows_after_close(cep_profiler* profiler) {
    close_now(profiler);
    return rows_read(RANK_FILE);
}

void record_spans(cep_profiler* profiler, const char* name, int count) {
    cep_region* region = cep_region_get(profiler, name, CEP_KIND_AUTO);
    for (int i = 0; i < count; ++i) cep_end(region, cep_begin(region, CEP_HOST), CEP_HOST);
}

void record_step(cep_profiler* profiler, int64_t step, const char* name) {
    CHECK_EQ(cep_step(profiler, step), CEP_OK);
    record_spans(profiler, name, 1);
}

cep_stats stats_of(cep_profiler* profiler) {
    cep_stats stats = {.struct_size = sizeof stats};
    CHECK_EQ(cep_get_stats(profiler, &stats), CEP_OK);
    return stats;
}

cep_stats accounted_stats_of(cep_profiler* profiler) {
    const cep_stats stats = stats_of(profiler);
    const uint64_t dropped =
        stats.dropped_ring + stats.dropped_slots + stats.dropped_pool + stats.dropped_file + stats.dropped_io;
    CHECK_EQ(stats.recorded,
             stats.written + dropped + stats.capture_skipped + stats.abandoned + stats.open_spans + stats.pending);
    return stats;
}

void check_refused(const cep_options* options, int32_t code, const char* name, const char* value) {
    cep_profiler* profiler = (cep_profiler*)(intptr_t)1;
    CHECK_EQ(cep_open(options, &profiler), code);
    CHECK(profiler == NULL);
    CHECK_CONTAINS(cep_last_error(), name);
    CHECK_CONTAINS(cep_last_error(), value);
    CHECK(!path_exists("out"));
    CHECK(!path_exists("cuda_event_profiler"));
}

void write_text(const char* path, const char* text) {
    FILE* file = fopen(path, "w");
    if (file == NULL) check_fail(__FILE__, __LINE__, "%s: %s", path, strerror(errno));
    CHECK(fputs(text, file) >= 0);
    CHECK_EQ(fclose(file), 0);
}

int count_threads(void) {
    DIR* tasks = opendir("/proc/self/task");
    if (tasks == NULL) check_skip("no /proc");
    int count = 0;
    for (const struct dirent* entry = readdir(tasks); entry != NULL; entry = readdir(tasks))
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

void wait_for_threads(int count) {
    while (count_threads() != count) sched_yield();
}
