// SPDX-License-Identifier: Apache-2.0
//
// The program that instructions.py runs under valgrind: makes each call of a recorded step once between two stores to
// `inside`, on the fake driver.
#include <cep/cep.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { warm_up_rounds = 300, rounds = 9 };

static volatile int inside;
static volatile long frozen_ns;  // 0: the clock runs

// Under valgrind a call takes so long that the library would check each time what it checks once a millisecond.
int clock_gettime(clockid_t id, struct timespec* now) {
    if (frozen_ns == 0 || id != CLOCK_MONOTONIC) return (int)syscall(SYS_clock_gettime, id, now);
    *now = (struct timespec){frozen_ns / 1000000000, frozen_ns % 1000000000};
    return 0;
}

static void freeze_clock(void) {
    struct timespec now;
    (void)syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    frozen_ns = now.tv_sec * 1000000000 + now.tv_nsec;
}
static cep_profiler* profiler;
static cep_region *forward, *backward, *whole;
static void* stream;

static void load(void* driver, const char* name, void* function) {
    *(void**)function = dlsym(driver, name);
    if (*(void**)function == NULL) exit(3);
}

static void enter_context(void) {
    int (*init)(unsigned) = NULL;
    int (*retain)(void**, int) = NULL;
    int (*set_current)(void*) = NULL;
    int (*create_stream)(void**, unsigned) = NULL;
    void* context = NULL;
    void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == NULL) exit(3);
    load(driver, "cuInit", &init);
    load(driver, "cuDevicePrimaryCtxRetain", &retain);
    load(driver, "cuCtxSetCurrent", &set_current);
    load(driver, "cuStreamCreate", &create_stream);
    if (init(0) != 0 || retain(&context, 0) != 0 || set_current(context) != 0 || create_stream(&stream, 1) != 0)
        exit(3);
}

static void open_profiler(void) {
    cep_options options;
    cep_options_init(&options, sizeof options);
    options.directory = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    options.record_every_n_steps = 1;
    options.flush_every_n_steps = INT64_MAX;
    if (cep_open(&options, &profiler) != CEP_OK) exit(2);
    whole = cep_region_get(profiler, "training_step", CEP_KIND_AUTO);
    forward = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    backward = cep_region_get(profiler, "backward", CEP_KIND_AUTO);
}

// The stores tell instructions.py where a call begins and ends. It knows the calls by their order.
#define COUNTED(call) \
    do {              \
        inside = 1;   \
        call;         \
        inside = 0;   \
    } while (0)

static void train(int64_t step) {
    cep_span span = CEP_SPAN_NONE;
    COUNTED((void)cep_step(profiler, step));
    const cep_span outer = cep_begin(whole, stream);
    COUNTED(span = cep_begin(forward, stream));
    COUNTED(span = cep_switch(span, backward, stream));
    COUNTED(cep_end(backward, span, stream));
    (void)cep_phase(profiler, forward, stream);
    COUNTED((void)cep_phase(profiler, backward, stream));
    (void)cep_phase(profiler, NULL, stream);
    cep_end(whole, outer, stream);
}

int main(void) {
    enter_context();
    open_profiler();
    char line[512];
    fprintf(stderr, "inside %p stack %p\n", (const void*)&inside, (void*)line);
    FILE* maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) (void)fputs(line, stderr);
    for (int64_t step = 0; step < warm_up_rounds; ++step) {
        train(step);
        if (step % 20 == 0) (void)cep_flush(profiler, 1000);
    }
    (void)cep_flush(profiler, 1000);
    freeze_clock();
    for (int64_t step = 0; step <= rounds; ++step) train(warm_up_rounds + step);
    frozen_ns = 0;
    return cep_close(profiler, 5000) == CEP_OK ? 0 : 1;
}
