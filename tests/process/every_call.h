// SPDX-License-Identifier: Apache-2.0
//
// Calls every function of cep.h on one profiler, for tests of rules that hold for all functions.
#ifndef CEP_TESTS_PROCESS_EVERY_CALL_H
#define CEP_TESTS_PROCESS_EVERY_CALL_H

#include "trainer.h"

// Hot-path calls: each kind of span, counters and marks, once each.
enum { hot_measurements = 7 };
static inline void call_hot_functions(cep_profiler* profiler, cep_region* region, int64_t step) {
    const cep_attrs attrs = {.struct_size = sizeof attrs, .coll = -1, .meta = "{\"a\":1}"};
    (void)cep_step(profiler, step);
    (void)cep_recording(profiler);
    const cep_span first = cep_begin(region, CEP_HOST);
    const cep_span second = cep_switch(first, region, CEP_HOST);
    (void)cep_phase(profiler, region, CEP_HOST);
    (void)cep_phase(profiler, NULL, CEP_HOST);
    (void)cep_end_with(region, second, CEP_HOST, &attrs);
    cep_end(region, cep_begin_with(region, CEP_HOST, &attrs), CEP_HOST);
    (void)cep_record(region, 0, 1000, &attrs);
    (void)cep_counter(profiler, "loss", 0.5);
    (void)cep_mark(profiler, "checkpoint", "{\"a\":1}");
}

// The other calls on an open profiler, except close.
static inline void call_other_functions(cep_profiler* profiler) {
    cep_stats stats = {.struct_size = sizeof stats};
    (void)cep_enabled(profiler);
    (void)cep_rank(profiler);
    (void)cep_set_meta(profiler, "{\"dp\":1}");
    (void)cep_flush(profiler, 0);
    (void)cep_flush(profiler, 1000);
    (void)cep_get_stats(profiler, &stats);
}

#endif
