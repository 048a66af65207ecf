// SPDX-License-Identifier: Apache-2.0
//
// Shared by the tests of faults: numbered spans, to check that a file has each one exactly once; the lines that the
// library prints; and waits with a limit.
#ifndef CEP_TESTS_FAULTS_SCENE_H
#define CEP_TESTS_FAULTS_SCENE_H

#include <sched.h>

#include "trainer.h"

// The longest that any wait in these tests may take.
enum { patience_s = 8 };

bool patience_is_left(int64_t since_ns);
int64_t patience_begin_ns(void);

// Returns once the condition is true. The test fails if that does not happen in time.
#define WAIT_FOR(condition)                                                              \
    do {                                                                                 \
        const int64_t waited_since_ns = patience_begin_ns();                             \
        while (!(condition)) {                                                           \
            if (!patience_is_left(waited_since_ns))                                      \
                check_fail(__FILE__, __LINE__, "never came to be true: %s", #condition); \
            sched_yield();                                                               \
        }                                                                                \
    } while (0)

// host_options(), except that no step asks for a flush, so that a test controls when rows are written.
cep_options quiet_options(void);
// Kills this process if it runs longer than any test should. quiet_options() and keep_messages() call it.
void end_what_hangs(void);
// Opens a profiler and begins step 1.
cep_profiler* start_with(const cep_options* options);
cep_profiler* start(void);

// Records `count` spans, numbered from `first`. Numbers begin with 1.
void record_numbers(cep_profiler* profiler, int64_t first, int64_t count);
// The same in portions that fit the ring, with a flush after each. Ignores the code of the flush.
void record_and_flush(cep_profiler* profiler, int64_t first, int64_t count);
// start(), and so many numbered spans in the file.
cep_profiler* start_and_write(int64_t count);
// The same after keep_messages().
cep_profiler* start_with_messages(int64_t count);
// Checks that the file has each number of [first, first + count) once. Ignores other numbers.
void check_has_numbers(const char* path, int64_t first, int64_t count);
// The first number from 1 that the file lacks.
int64_t first_missing_number(const char* path);
// Checks that no number is in the file twice.
void check_no_number_twice(const char* path);

// Checks that every line is a row, that the file has as many spans as the profiler counted as written, each once, and
// that the counts add up.
void check_exactly_once(cep_profiler* profiler, const char* path);
// The same of the profiler's own file, after it is closed.
void close_and_check(cep_profiler* profiler);
// Like check_exactly_once(), but accepts lines that a failed write has cut.
void check_exactly_once_leniently(cep_profiler* profiler, const char* path);

// Captures standard error from now on.
void keep_messages(void);
// The number of captured lines that have both parts.
int count_messages(const char* part, const char* other_part);
// The number of lines from the library so far.
int count_all_messages(void);

// The test fails if there is none.
const row* first_row(const rows* all);
char* read_text(const char* path);
// Checks that the file has exactly that text.
void check_text_is(const char* path, const char* text);
// Makes the directory of the rank file before a profiler does.
void make_directory(void);
// The lowest descriptor of an open rank file; -1: none.
int rank_file_descriptor(void);

#endif
