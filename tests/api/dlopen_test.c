// SPDX-License-Identifier: Apache-2.0
//
// Loads and unloads the library at run time, as bindings do. This program is not linked against it.
#include <cep/cep.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "rows.h"

typedef struct library {
    void* handle;
    int32_t (*options_init)(cep_options*, uint32_t);
    int32_t (*open)(const cep_options*, cep_profiler**);
    int32_t (*close)(cep_profiler*, int64_t);
    int32_t (*step)(cep_profiler*, int64_t);
    cep_region* (*region_get)(cep_profiler*, const char*, int32_t);
    cep_span (*begin)(cep_region*, void*);
    void (*end)(cep_region*, cep_span, void*);
} library;

// dlsym() returns an object pointer, whose bytes are the function's address.
static void bind(const library* loaded, const char* name, void* function) {
    void* address = dlsym(loaded->handle, name);
    if (address == NULL) check_fail(__FILE__, __LINE__, "%s", dlerror());
    memcpy(function, &address, sizeof address);
}

static const char* path;

// The runner removes CEP_ variables from each test's environment, so read it before.
__attribute__((constructor)) static void remember_path(void) {
    path = getenv("CEP_TEST_LIBRARY");
}

static library load(void) {
    if (path == NULL) check_skip("CEP_TEST_LIBRARY does not name the library");
    library loaded = {.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    if (loaded.handle == NULL) check_fail(__FILE__, __LINE__, "%s", dlerror());
    bind(&loaded, "cep_options_init", &loaded.options_init);
    bind(&loaded, "cep_open", &loaded.open);
    bind(&loaded, "cep_close", &loaded.close);
    bind(&loaded, "cep_step", &loaded.step);
    bind(&loaded, "cep_region_get", &loaded.region_get);
    bind(&loaded, "cep_begin", &loaded.begin);
    bind(&loaded, "cep_end", &loaded.end);
    return loaded;
}

static cep_profiler* record_one_span(const library* loaded) {
    cep_options options;
    CHECK_EQ(loaded->options_init(&options, sizeof options), CEP_OK);
    options.directory = "out";
    options.backend = CEP_BACKEND_HOST;
    options.record_every_n_steps = 1;
    cep_profiler* profiler = NULL;
    CHECK_EQ(loaded->open(&options, &profiler), CEP_OK);
    CHECK_EQ(loaded->step(profiler, 0), CEP_OK);
    cep_region* region = loaded->region_get(profiler, "forward", CEP_KIND_AUTO);
    loaded->end(region, loaded->begin(region, CEP_HOST), CEP_HOST);
    return profiler;
}

TEST(loading_and_unloading_in_a_loop_is_safe) {
    for (int i = 0; i < 50; ++i) {
        const library loaded = load();
        CHECK_EQ(loaded.close(record_one_span(&loaded), 60000), CEP_OK);
        CHECK_EQ(dlclose(loaded.handle), 0);
    }
    const rows all = rows_read("out/cuda_events_rank_0.jsonl");
    CHECK_EQ(rows_count(&all, SPAN), 50);
    CHECK_EQ(rows_count(&all, "run"), 50);
}

static void unload_with_a_profiler_open(void) {
    const library loaded = load();
    (void)record_one_span(&loaded);
    CHECK_EQ(dlclose(loaded.handle), 0);
}

TEST(unloading_with_a_profiler_open_loses_nothing_by_exit) {
    CHECK_CHILD_PASSES(unload_with_a_profiler_open);
    const rows all = rows_read("out/cuda_events_rank_0.jsonl");
    CHECK_EQ(rows_count(&all, SPAN), 1);
}
