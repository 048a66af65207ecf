// SPDX-License-Identifier: Apache-2.0
//
// Loads and unloads the library at unusual moments. This program is not linked against it.
#include <cep/cep.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "rows.h"

#define RANK_FILE "out/cuda_events_rank_0.jsonl"

static struct {
    void* handle;
    int32_t (*options_init)(cep_options*, uint32_t);
    int32_t (*open)(const cep_options*, cep_profiler**);
    int32_t (*close)(cep_profiler*, int64_t);
    int32_t (*step)(cep_profiler*, int64_t);
    cep_region* (*region_get)(cep_profiler*, const char*, int32_t);
    cep_span (*begin)(cep_region*, void*);
    void (*end)(cep_region*, cep_span, void*);
} cep;

static const char* path;

// The runner removes CEP_ variables from each test's environment, so read it before.
__attribute__((constructor)) static void remember_path(void) {
    path = getenv("CEP_TEST_LIBRARY");
}

// dlsym() returns an object pointer, whose bytes are the function's address.
static void bind(const char* name, void* function) {
    void* address = dlsym(cep.handle, name);
    if (address == NULL) check_fail(__FILE__, __LINE__, "%s", dlerror());
    memcpy(function, &address, sizeof address);
}

static void load(void) {
    if (path == NULL) check_skip("CEP_TEST_LIBRARY does not name the library");
    cep.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (cep.handle == NULL) check_fail(__FILE__, __LINE__, "%s", dlerror());
    bind("cep_options_init", &cep.options_init);
    bind("cep_open", &cep.open);
    bind("cep_close", &cep.close);
    bind("cep_step", &cep.step);
    bind("cep_region_get", &cep.region_get);
    bind("cep_begin", &cep.begin);
    bind("cep_end", &cep.end);
}

static void unload(void) {
    CHECK_EQ(dlclose(cep.handle), 0);
}

static cep_profiler* profiler;
static cep_region* region;

static void open_profiler(void) {
    cep_options options;
    CHECK_EQ(cep.options_init(&options, sizeof options), CEP_OK);
    options.directory = "out";
    options.backend = CEP_BACKEND_HOST;
    options.record_every_n_steps = 1;
    CHECK_EQ(cep.open(&options, &profiler), CEP_OK);
    CHECK_EQ(cep.step(profiler, 0), CEP_OK);
    region = cep.region_get(profiler, "forward", CEP_KIND_AUTO);
}

static void record_a_span(void) {
    cep.end(region, cep.begin(region, CEP_HOST), CEP_HOST);
}

static void unload_with_spans_open(void) {
    load();
    open_profiler();
    record_a_span();
    for (int i = 0; i < 5; ++i) (void)cep.begin(region, CEP_HOST);
    unload();
}

TEST(unloading_with_spans_open_leaves_an_open_row_for_each) {
    CHECK_CHILD_PASSES(unload_with_spans_open);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_count(&all, SPAN), 1);
    CHECK_EQ(rows_count(&all, "open"), 5);
}

static atomic_bool recording, unloaded;

static void* record_until_unloaded(void* unused) {
    while (!unloaded) {
        record_a_span();
        recording = true;
    }
    record_a_span();
    return unused;
}

static void unload_while_a_thread_records(void) {
    load();
    open_profiler();
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, record_until_unloaded, NULL), 0);
    while (!recording) continue;
    unload();
    unloaded = true;
    CHECK_EQ(pthread_join(thread, NULL), 0);  // the thread's exit runs the library's exit handler
}

TEST(unloading_while_a_thread_records_is_safe) {
    CHECK_CHILD_PASSES(unload_while_a_thread_records);
    CHECK(count_spans_in_file(RANK_FILE) > 0);
}

static void* load_and_record(void* unused) {
    load();
    open_profiler();
    record_a_span();
    CHECK_EQ(cep.close(profiler, 60000), CEP_OK);
    unload();
    return unused;
}

TEST(loading_and_unloading_a_hundred_times_is_safe) {
    for (int i = 0; i < 100; ++i) (void)load_and_record(NULL);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_count(&all, SPAN), 100);
    CHECK_EQ(rows_count(&all, "run"), 100);
    CHECK_EQ(row_int(rows_last(&all, "run"), "attempt"), 100);
}

TEST(loading_and_unloading_from_threads_that_exit_is_safe) {
    for (int i = 0; i < 20; ++i) {
        check_on_a_thread(load_and_record, NULL);
    }
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_count(&all, SPAN), 20);
}
