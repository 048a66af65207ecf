// SPDX-License-Identifier: Apache-2.0
//
// A libcep of another version. It has the same calls and the version in TEST_CEP_VERSION. Every call that can fail
// returns a code that no binding defines. Opening also fails if TEST_CEP_OPEN_FAILS is set.
#include <cep/cep.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { code_of_the_future = -99 };

#define TEXT(number) #number
#define VERSION_99(major, minor) TEXT(major) "." TEXT(minor) ".99"

static int object;  // every handle points to this

const char* cep_version(void) {
    const char* version = getenv("TEST_CEP_VERSION");
    return version != NULL ? version : VERSION_99(CEP_VERSION_MAJOR, CEP_VERSION_MINOR);
}

const char* cep_strerror(int32_t code) {
    return code == CEP_OK ? "success" : "unknown code";
}

const char* cep_last_error(void) {
    return "flux: capacitor empty";
}

int32_t cep_options_init(cep_options* options, uint32_t struct_size) {
    if (struct_size != sizeof *options) return CEP_EINVAL;
    memset(options, 0, sizeof *options);
    options->struct_size = struct_size;
    options->enable = 1;
    options->record_every_n_steps = 1;
    options->flush_every_n_steps = 1;
    options->end_step = CEP_NO_END_STEP;
    return CEP_OK;
}

int32_t cep_options_load_json(cep_options* options, const char* json) {
    return options != NULL && json != NULL ? CEP_OK : CEP_EINVAL;
}

int32_t cep_options_load_env(cep_options* options) {
    return options != NULL ? CEP_OK : CEP_EINVAL;
}

void cep_options_clear(cep_options* options) {
    (void)options;
}

int32_t cep_open(const cep_options* options, cep_profiler** out) {
    (void)options;
    *out = NULL;
    if (getenv("TEST_CEP_OPEN_FAILS") != NULL) return code_of_the_future;
    *out = (cep_profiler*)&object;
    return CEP_OK;
}

int32_t cep_close(cep_profiler* profiler, int64_t timeout_ms) {
    (void)profiler, (void)timeout_ms;
    return code_of_the_future;
}

int32_t cep_flush(cep_profiler* profiler, int64_t timeout_ms) {
    (void)profiler, (void)timeout_ms;
    return code_of_the_future;
}

int32_t cep_enabled(const cep_profiler* profiler) {
    (void)profiler;
    return 1;
}

int32_t cep_rank(const cep_profiler* profiler) {
    (void)profiler;
    return 0;
}

int32_t cep_set_meta(cep_profiler* profiler, const char* json) {
    (void)profiler, (void)json;
    return code_of_the_future;
}

int32_t cep_get_stats(cep_profiler* profiler, cep_stats* stats) {
    (void)profiler, (void)stats;
    return code_of_the_future;
}

int32_t cep_step(cep_profiler* profiler, int64_t step) {
    (void)profiler, (void)step;
    return code_of_the_future;
}

int32_t cep_recording(const cep_profiler* profiler) {
    (void)profiler;
    return 1;
}

cep_region* cep_region_get(cep_profiler* profiler, const char* name, int32_t kind) {
    (void)profiler, (void)name, (void)kind;
    return (cep_region*)&object;
}

cep_span cep_begin(cep_region* region, void* stream) {
    (void)region, (void)stream;
    return 1;
}

cep_span cep_begin_with(cep_region* region, void* stream, const cep_attrs* attrs) {
    (void)attrs;
    return cep_begin(region, stream);
}

void cep_end(cep_region* region, cep_span span, void* stream) {
    (void)region, (void)span, (void)stream;
}

int32_t cep_end_with(cep_region* region, cep_span span, void* stream, const cep_attrs* attrs) {
    (void)region, (void)span, (void)stream, (void)attrs;
    return code_of_the_future;
}

cep_span cep_switch(cep_span span, cep_region* region, void* stream) {
    (void)span;
    return cep_begin(region, stream);
}

int32_t cep_phase(cep_profiler* profiler, cep_region* region, void* stream) {
    (void)profiler, (void)region, (void)stream;
    return code_of_the_future;
}

int32_t cep_record(cep_region* region, int64_t start_ns, int64_t duration_ns, const cep_attrs* attrs) {
    (void)region, (void)start_ns, (void)duration_ns, (void)attrs;
    return code_of_the_future;
}

int32_t cep_counter(cep_profiler* profiler, const char* name, double value) {
    (void)profiler, (void)name, (void)value;
    return code_of_the_future;
}

int32_t cep_mark(cep_profiler* profiler, const char* name, const char* meta) {
    (void)profiler, (void)name, (void)meta;
    return code_of_the_future;
}
