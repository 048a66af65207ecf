// SPDX-License-Identifier: Apache-2.0
//
// The parts of a trainer that the tests share: options for one rank, and a few spans.
#ifndef CEP_TESTS_API_TRAINER_H
#define CEP_TESTS_API_TRAINER_H

#include <cep/cep.h>

#include "check.h"
#include "rows.h"

// The rank file of host_options().
#define RANK_FILE "out/cuda_events_rank_0.jsonl"

enum { close_timeout_ms = 120000 };

cep_options fresh_options(void);
// Makes a check of `options`, and clears them.
#define CHECK_OPTIONS(expression, check)    \
    do {                                    \
        cep_options options = (expression); \
        check;                              \
        cep_options_clear(&options);        \
    } while (0)
// The values that the tests give each option, in JSON and in the environment.
void check_each_option_is_given(const cep_options* options);
// Defaults, except: rank 0 of 1 in directory "out", every step recorded, host clock.
cep_options host_options(void);
cep_profiler* open_with(const cep_options* options);
// Declares `options`, which get a setting, and `profiler`, which opens with them.
#define PROFILER_WITH(open, make_options, setting) \
    cep_options options = make_options();          \
    options.setting;                               \
    cep_profiler* profiler = open(&options)
cep_profiler* open_here(void);
// host_options(), except in that directory.
cep_profiler* open_in(const char* directory);
// host_options(), except that every n-th step is recorded.
cep_profiler* open_every(int64_t steps);
cep_profiler* open_at_step(int64_t step);
// It has recorded "forward" in step 0.
cep_profiler* open_and_record(void);
// Declares `profiler`, in that step, and `region`, which has that name.
#define OPEN_AT_STEP(step, name)                 \
    cep_profiler* profiler = open_at_step(step); \
    cep_region* region = cep_region_get(profiler, name, CEP_KIND_AUTO)
// Closes it, and checks that all it recorded is accounted for.
cep_stats close_now(cep_profiler* profiler);
// Closes it, and reads its file.
rows rows_after_close(cep_profiler* profiler);
void record_spans(cep_profiler* profiler, const char* name, int count);
void record_step(cep_profiler* profiler, int64_t step, const char* name);
cep_stats stats_of(cep_profiler* profiler);
// Checks recorded = written + lost + not timed + still open + on the way to the file, as cep.h promises.
cep_stats accounted_stats_of(cep_profiler* profiler);
// cep_open() refuses the options with that code, its message has each part, and it leaves nothing open.
void check_refused(const cep_options* options, int32_t code, const char* name, const char* value);
void write_text(const char* path, const char* text);
int count_threads(void);
// Returns once the process has that many threads. A joined thread may still be listed for a moment.
void wait_for_threads(int count);

#endif
