// SPDX-License-Identifier: Apache-2.0
//
// Simulates a long job: two threads begin 100,000 spans a second with the default options. Fails if memory grows after
// the warm-up, or if anything is lost.
//
//     soak [SECONDS [DIRECTORY]]      defaults: 600 s, a temporary directory that is removed at the end
#include <cep/cep.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

enum {
    steps_per_s = 100,
    threads_count = 2,
    spans_per_step_and_thread = (SANITIZED ? 10000 : 100000) / steps_per_s / threads_count,
    report_interval_s = 10,
    allowed_growth_kib = 1024
};

static cep_profiler* profiler;
static atomic_bool done;
static atomic_ulong behind;

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// One of the two threads also calls cep_step(). A late step does not make the next ones come sooner.
static void* train(void* steps) {
    cep_region* outer = cep_region_get(profiler, "training_step", CEP_KIND_AUTO);
    cep_region* inner = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    const int64_t step_ns = 1000000000 / steps_per_s;
    int64_t due_ns = now_ns();
    for (int64_t step = 0; !done; ++step) {
        if (steps != NULL) (void)cep_step(profiler, step);
        const cep_span whole = cep_begin(outer, CEP_HOST);
        for (int i = 1; i < spans_per_step_and_thread; ++i) cep_end(inner, cep_begin(inner, CEP_HOST), CEP_HOST);
        cep_end(outer, whole, CEP_HOST);
        due_ns += step_ns;
        if (now_ns() > due_ns) {
            ++behind;
            due_ns = now_ns();
        }
        const struct timespec until = {due_ns / 1000000000, due_ns % 1000000000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    }
    return NULL;
}

static long resident_kib(void) {
    long pages = 0, resident = 0;
    FILE* file = fopen("/proc/self/statm", "r");
    if (file == NULL) return 0;
    if (fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static cep_stats stats_now(void) {
    cep_stats stats = {.struct_size = sizeof stats};
    (void)cep_get_stats(profiler, &stats);
    return stats;
}

static unsigned long long lost(const cep_stats* stats) {
    return stats->dropped_ring + stats->dropped_slots + stats->dropped_pool + stats->dropped_file + stats->dropped_io +
           stats->dropped_meta + stats->abandoned;
}

static void report(int64_t start_ns) {
    const cep_stats stats = stats_now();
    printf("%6.0f s  %6ld KiB  %10llu rows  %llu lost  %lu steps late  %.2f %% of a core\n",
           (double)(now_ns() - start_ns) / 1e9, resident_kib(), (unsigned long long)stats.written, lost(&stats),
           (unsigned long)behind, 100.0 * (double)stats.self_ns / (double)(now_ns() - start_ns));
    fflush(stdout);
}

static void wait_s(double seconds) {
    const struct timespec pause = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&pause, NULL);
}

static int open_profiler(const char* directory) {
    cep_options options;
    (void)cep_options_init(&options, sizeof options);
    options.directory = directory;
    options.rank = 0;
    options.world_size = 1;
    options.backend = CEP_BACKEND_HOST;
    const int32_t code = cep_open(&options, &profiler);
    if (code != CEP_OK) fprintf(stderr, "soak: %s\n", cep_last_error());
    return code;
}

// The largest memory use after the warm-up, which takes a tenth of the time.
static long run(double seconds) {
    pthread_t threads[threads_count];
    const int64_t start_ns = now_ns();
    for (int i = 0; i < threads_count; ++i)
        if (pthread_create(&threads[i], NULL, train, i == 0 ? profiler : NULL) != 0) abort();
    const double warm_up_s = seconds / 5 < 30 ? seconds / 5 : 30;
    wait_s(warm_up_s);
    const long warm_kib = resident_kib();
    long most_kib = warm_kib;
    int64_t next_report_ns = start_ns;
    while ((double)(now_ns() - start_ns) / 1e9 < seconds) {
        if (now_ns() >= next_report_ns) {
            report(start_ns);
            next_report_ns += (int64_t)report_interval_s * 1000000000;
        }
        wait_s(0.25);
        if (resident_kib() > most_kib) most_kib = resident_kib();
    }
    done = true;
    for (int i = 0; i < threads_count; ++i) pthread_join(threads[i], NULL);
    report(start_ns);
    return most_kib - warm_kib;
}

int main(int count, char** arguments) {
    const double seconds = count > 1 ? strtod(arguments[1], NULL) : 600;
    char own[] = "/tmp/cep-soak-XXXXXX";
    const char* directory = count > 2 ? arguments[2] : mkdtemp(own);
    if (directory == NULL || seconds <= 0 || open_profiler(directory) != CEP_OK) return 2;
    const long growth_kib = run(seconds);
    const int32_t code = cep_close(profiler, 60000);
    const cep_stats stats = stats_now();
    if (count <= 2) {
        char path[256];
        snprintf(path, sizeof path, "%s/cuda_events_rank_0.jsonl", directory);
        (void)unlink(path);
        (void)rmdir(directory);
    }
    printf("grew by %ld KiB after the warm-up; %llu of %llu spans are in the file\n", growth_kib,
           (unsigned long long)stats.written, (unsigned long long)stats.recorded);
    if (code != CEP_OK) fprintf(stderr, "soak: cep_close: %s\n", cep_last_error());
    const bool grew = !SANITIZED && growth_kib > allowed_growth_kib;
    if (grew) fprintf(stderr, "soak: more than the %d KiB that are allowed\n", allowed_growth_kib);
    const bool is_lost = lost(&stats) != 0 || stats.written != stats.recorded || stats.recorded == 0;
    if (is_lost) fprintf(stderr, "soak: something was lost\n");
    return code != CEP_OK || grew || is_lost ? 1 : 0;
}
