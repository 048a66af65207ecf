// SPDX-License-Identifier: Apache-2.0
//
// A libcep of another version. It has the same calls and the version in TEST_CEP_VERSION. Every call that can fail
// returns a code that no binding defines. Opening also fails if TEST_CEP_OPEN_FAILS is set.
#include <cep/cep.h>

#include <cstdlib>

namespace {

constexpr int32_t code_of_the_future = -99;
int object;  // every handle points to this

}  // namespace

#define TEXT(number) #number
#define VERSION_99(major, minor) TEXT(major) "." TEXT(minor) ".99"

const char* cep_version() {
    const char* version = std::getenv("TEST_CEP_VERSION");
    return version != nullptr ? version : VERSION_99(CEP_VERSION_MAJOR, CEP_VERSION_MINOR);
}

int32_t cep_options_init(cep_options* options, uint32_t struct_size) {
    if (struct_size != sizeof *options) return CEP_EINVAL;
    *options = {};
    options->struct_size = struct_size;
    options->enable = 1;
    options->record_every_n_steps = 1;
    options->flush_every_n_steps = 1;
    options->end_step = CEP_NO_END_STEP;
    return CEP_OK;
}

int32_t cep_open(const cep_options*, cep_profiler** out) {
    const bool fails = std::getenv("TEST_CEP_OPEN_FAILS") != nullptr;
    *out = fails ? nullptr : reinterpret_cast<cep_profiler*>(&object);
    return fails ? code_of_the_future : CEP_OK;
}

#define RETURNS(result, call, arguments, value) \
    result call arguments {                     \
        return value;                           \
    }
#define FAILS(call, arguments) RETURNS(int32_t, call, arguments, code_of_the_future)

RETURNS(const char*, cep_strerror, (int32_t code), code == CEP_OK ? "success" : "unknown code")
RETURNS(const char*, cep_last_error, (), "flux: capacitor empty")
RETURNS(int32_t, cep_options_load_json, (cep_options * options, const char* json),
        options != nullptr && json != nullptr ? CEP_OK : CEP_EINVAL)
RETURNS(int32_t, cep_options_load_env, (cep_options * options), options != nullptr ? CEP_OK : CEP_EINVAL)
RETURNS(void, cep_options_clear, (cep_options*), void())
FAILS(cep_close, (cep_profiler*, int64_t))
FAILS(cep_flush, (cep_profiler*, int64_t))
RETURNS(int32_t, cep_enabled, (const cep_profiler*), 1)
RETURNS(int32_t, cep_rank, (const cep_profiler*), 0)
FAILS(cep_set_meta, (cep_profiler*, const char*))
FAILS(cep_get_stats, (cep_profiler*, cep_stats*))
FAILS(cep_step, (cep_profiler*, int64_t))
RETURNS(int32_t, cep_recording, (const cep_profiler*), 1)
RETURNS(cep_region*, cep_region_get, (cep_profiler*, const char*, int32_t), reinterpret_cast<cep_region*>(&object))
RETURNS(cep_span, cep_begin, (cep_region*, void*), 1)
RETURNS(cep_span, cep_begin_with, (cep_region*, void*, const cep_attrs*), 1)
RETURNS(void, cep_end, (cep_region*, cep_span, void*), void())
FAILS(cep_end_with, (cep_region*, cep_span, void*, const cep_attrs*))
RETURNS(cep_span, cep_switch, (cep_span, cep_region*, void*), 1)
FAILS(cep_phase, (cep_profiler*, cep_region*, void*))
FAILS(cep_record, (cep_region*, int64_t, int64_t, const cep_attrs*))
FAILS(cep_counter, (cep_profiler*, const char*, double))
FAILS(cep_mark, (cep_profiler*, const char*, const char*))
