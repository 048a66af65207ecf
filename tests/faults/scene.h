// SPDX-License-Identifier: Apache-2.0
//
// What the tests of faults have in common: spans with numbers, so that a file can be told to hold each one exactly
// once; the lines that the library prints; and waits with an end.
#ifndef CEP_TESTS_FAULTS_SCENE_H
#define CEP_TESTS_FAULTS_SCENE_H

#include <sched.h>

#include "trainer.h"

// Comes before any wait in these tests has to be called hanging.
enum { patience_s = 8 };

bool patience_is_left(int64_t since_ns);
int64_t patience_begin_ns(void);

// Returns once the condition is true; the test fails if that does not happen.
#define WAIT_FOR(condition)                                                              \
    do {                                                                                 \
        const int64_t waited_since_ns = patience_begin_ns();                             \
        while (!(condition)) {                                                           \
            if (!patience_is_left(waited_since_ns))                                      \
                check_fail(__FILE__, __LINE__, "never came to be true: %s", #condition); \
            sched_yield();                                                               \
        }                                                                                \
    } while (0)

// Defaults as host_options(), except that no step asks for a flush, so that a test knows when rows are written.
cep_options quiet_options(void);
// Ends this process if it is still there after longer than any test takes. quiet_options() and keep_messages() call it.
void end_what_hangs(void);
// Opens, and begins step 1.
cep_profiler* start_with(const cep_options* options);
cep_profiler* start(void);

// Records spans numbered from `first` on, `count` of them. Numbers begin with 1.
void record_numbers(cep_profiler* profiler, int64_t first, int64_t count);
// The same in portions that a ring holds, each flushed; what a flush returns does not matter.
void record_and_flush(cep_profiler* profiler, int64_t first, int64_t count);
// The file has each number of [first, first + count) once. Other numbers do not matter.
void check_has_numbers(const char* path, int64_t first, int64_t count);
// The first number, from 1 on, that the file lacks.
int64_t first_missing_number(const char* path);
// No number is twice in the file.
void check_no_number_twice(const char* path);

// Every line is a row, the file has as many spans as the profiler counted as written, each once, and nothing is
// unaccounted for.
void check_exactly_once(cep_profiler* profiler, const char* path);
// The file's lines are rows, but for those that a failed write has cut; the rest as check_exactly_once().
void check_exactly_once_leniently(cep_profiler* profiler, const char* path);
// recorded = written + every cause, now.
void check_accounted(cep_profiler* profiler);

// From now on, what is written to standard error is kept.
void keep_messages(void);
// Kept lines that have both parts.
int count_messages(const char* part, const char* other_part);
// The library's lines so far, whatever they say.
int count_all_messages(void);

// The test fails if there is none.
const row* first_row(const rows* all);
char* read_text(const char* path);
// The file has that text and no more.
void check_text_is(const char* path, const char* text);
void write_text(const char* path, const char* text);
// The directory of the rank file, before a profiler makes it.
void make_directory(void);
// The lowest descriptor that has a rank file open; -1: none.
int rank_file_descriptor(void);

#endif
