// SPDX-License-Identifier: Apache-2.0
//
// A job without CUDA: the library does not search for the driver all the time.
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "trainer.h"

static atomic_ulong searches;

#if !CHECK_SANITIZED
void* dlopen(const char* name, int flags) {
    if (name != NULL && strstr(name, "cuda") != NULL) ++searches;
    void* (*real)(const char*, int) = NULL;
    void* found = dlsym(RTLD_NEXT, "dlopen");
    memcpy(&real, &found, sizeof real);
    return real(name, flags);
}
#endif

static cep_profiler* open_for_any_device(void) {
    if (CHECK_SANITIZED) check_skip("dlopen is the sanitizer's");
    cep_options options = host_options();
    options.backend = CEP_BACKEND_AUTO;
    options.max_file_bytes = 1 << 20;
    return open_with(&options);
}

TEST(two_seconds_of_spans_on_a_stream_search_for_the_driver_a_few_times) {
    cep_profiler* profiler = open_for_any_device();
    cep_region* region = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    const time_t start = time(NULL);
    for (int64_t step = 0; time(NULL) - start <= 2; ++step) {
        CHECK_EQ(cep_step(profiler, step), CEP_OK);
        for (int i = 0; i < 100; ++i) cep_end(region, cep_begin(region, NULL), NULL);
    }
    const unsigned long found = searches;
    close_now(profiler);
    printf("# %lu searches\n", found);
    CHECK(found <= 10);
}

TEST(spans_on_the_host_clock_never_search_for_the_driver) {
    cep_options options = host_options();
    cep_profiler* profiler = open_with(&options);
    record_step(profiler, 0, "forward");
    close_now(profiler);
    CHECK_EQ(searches, 0);
}
