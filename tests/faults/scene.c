// SPDX-License-Identifier: Apache-2.0
#include "scene.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "faulty_io.h"

static const char messages_path[] = "messages";
enum { safe_descriptor = 100, portion = 1000, limit_s = 10 };

int64_t patience_begin_ns(void) {
    return io_true_monotonic_ns();
}

bool patience_is_left(int64_t since_ns) {
    return io_true_monotonic_ns() - since_ns < (int64_t)patience_s * 1000000000;
}

// Uses a signal that the process cannot block; callers of the library may block others.
void end_what_hangs(void) {
    static pid_t limited;  // a forked child does not inherit the timer
    if (limited == getpid()) return;
    limited = getpid();
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    const struct itimerspec limit = {.it_value = {CHECK_SANITIZED ? 3 * limit_s : limit_s, 0}};
    timer_t timer;
    CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    CHECK_EQ(timer_settime(timer, 0, &limit, NULL), 0);
}

cep_options quiet_options(void) {
    end_what_hangs();
    cep_options options = host_options();
    options.flush_every_n_steps = INT32_MAX;
    return options;
}

cep_profiler* start_with(const cep_options* options) {
    cep_profiler* profiler = open_with(options);
    CHECK_EQ(cep_step(profiler, 1), CEP_OK);
    return profiler;
}

cep_profiler* start(void) {
    const cep_options options = quiet_options();
    return start_with(&options);
}

void record_numbers(cep_profiler* profiler, int64_t first, int64_t count) {
    cep_region* region = cep_region_get(profiler, "numbered", CEP_KIND_AUTO);
    CHECK(region != NULL);
    for (int64_t number = first; number < first + count; ++number)
        CHECK_EQ(cep_record(region, number, 1, NULL), CEP_OK);
}

void record_and_flush(cep_profiler* profiler, int64_t first, int64_t count) {
    for (int64_t done = 0; done < count; done += portion) {
        record_numbers(profiler, first + done, count - done < portion ? count - done : portion);
        (void)cep_flush(profiler, close_timeout_ms);
    }
}

cep_profiler* start_and_write(int64_t count) {
    cep_profiler* profiler = start();
    record_and_flush(profiler, 1, count);
    return profiler;
}

cep_profiler* start_with_messages(int64_t count) {
    keep_messages();
    return start_and_write(count);
}

// Counts how often the file has each number of [1, limit).
static uint8_t* count_numbers(const char* path, int64_t limit) {
    uint8_t* counts = calloc((size_t)limit, 1);
    FILE* file = fopen(path, "r");
    CHECK(counts != NULL);
    if (file == NULL) check_fail(__FILE__, __LINE__, "%s: %s", path, strerror(errno));
    char* line = NULL;
    size_t capacity = 0;
    for (ssize_t size; (size = getline(&line, &capacity, file)) > 0;) {
        const char* at = strstr(line, "\"start_ns\":");
        if (line[size - 1] != '\n' || strncmp(line, "{\"name\":\"numbered\"", 17) != 0 || at == NULL) continue;
        const int64_t number = strtoll(at + strlen("\"start_ns\":"), NULL, 10);
        if (number > 0 && number < limit && counts[number] < UINT8_MAX) ++counts[number];
    }
    free(line);
    fclose(file);
    return counts;
}

enum { largest_number = 1 << 22 };

void check_has_numbers(const char* path, int64_t first, int64_t count) {
    uint8_t* counts = count_numbers(path, first + count);
    for (int64_t number = first; number < first + count; ++number)
        if (counts[number] != 1)
            check_fail(__FILE__, __LINE__, "%s: number %lld is there %d times", path, (long long)number,
                       counts[number]);
    free(counts);
}

int64_t first_missing_number(const char* path) {
    uint8_t* counts = count_numbers(path, largest_number);
    int64_t number = 1;
    while (number < largest_number && counts[number] > 0) ++number;
    free(counts);
    return number;
}

void check_no_number_twice(const char* path) {
    uint8_t* counts = count_numbers(path, largest_number);
    for (int64_t number = 1; number < largest_number; ++number)
        if (counts[number] > 1) check_fail(__FILE__, __LINE__, "%s: number %lld is twice", path, (long long)number);
    free(counts);
}

static void check_counts(cep_profiler* profiler, const char* path, uint64_t spans) {
    CHECK_EQ(spans, accounted_stats_of(profiler).written);
    check_no_number_twice(path);
}

void check_exactly_once(cep_profiler* profiler, const char* path) {
    check_counts(profiler, path, count_spans_in_file(path));
}

void close_and_check(cep_profiler* profiler) {
    close_now(profiler);
    check_exactly_once(profiler, RANK_FILE);
}

void check_exactly_once_leniently(cep_profiler* profiler, const char* path) {
    const rows all = rows_read_leniently(path);
    check_counts(profiler, path, rows_count(&all, SPAN));
}

void keep_messages(void) {
    end_what_hangs();
    const int descriptor = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, safe_descriptor);
    CHECK(descriptor >= 0);
    check_report_to(descriptor);
    const int kept = open(messages_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    CHECK(kept >= 0);
    CHECK_EQ(dup2(kept, STDERR_FILENO), STDERR_FILENO);
    CHECK_EQ(close(kept), 0);
}

int count_messages(const char* part, const char* other_part) {
    char* text = read_text(messages_path);
    int count = 0;
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;)
        count += strncmp(line, "cep: ", 5) == 0 && strstr(line, part) != NULL && strstr(line, other_part) != NULL;
    free(text);
    return count;
}

int count_all_messages(void) {
    return count_messages("", "");
}

const row* first_row(const rows* all) {
    CHECK(all->count > 0);
    return &all->items[0];
}

char* read_text(const char* path) {
    FILE* file = fopen(path, "r");
    if (file == NULL) check_fail(__FILE__, __LINE__, "%s: %s", path, strerror(errno));
    const size_t size = (size_t)file_size(path);
    char* text = calloc(size + 1, 1);
    CHECK(text != NULL);
    CHECK_EQ(fread(text, 1, size, file), size);
    fclose(file);
    return text;
}

void check_text_is(const char* path, const char* text) {
    char* actual = read_text(path);
    CHECK_TEXT(actual, text);
    free(actual);
}

void make_directory(void) {
    CHECK_EQ(mkdir("out", S_IRWXU), 0);
}

static bool has_rank_file(const char* descriptor) {
    char link[300], target[4096] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%s", descriptor);
    return readlink(link, target, sizeof target - 1) > 0 && strstr(target, "cuda_events_rank_") != NULL;
}

int rank_file_descriptor(void) {
    int lowest = -1;
    DIR* descriptors = opendir("/proc/self/fd");
    if (descriptors == NULL) check_skip("no /proc");
    for (const struct dirent* entry = readdir(descriptors); entry != NULL; entry = readdir(descriptors)) {
        if (!has_rank_file(entry->d_name)) continue;
        const int descriptor = atoi(entry->d_name);
        if (lowest < 0 || descriptor < lowest) lowest = descriptor;
    }
    closedir(descriptors);
    return lowest;
}
