// SPDX-License-Identifier: Apache-2.0
//
// The job of same_rows_test.py in C: same_job DIRECTORY
#include <cep/cep.h>
#include <stddef.h>

static void train(cep_profiler* profiler) {
    cep_region* training_step = cep_region_get(profiler, "training_step", CEP_KIND_AUTO);
    cep_region* load = cep_region_get(profiler, "load", CEP_KIND_DATA);
    cep_region* forward = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    cep_region* backward = cep_region_get(profiler, "backward", CEP_KIND_AUTO);
    cep_region* sync = cep_region_get(profiler, "sync", CEP_KIND_COMM);
    cep_region* save = cep_region_get(profiler, "save", CEP_KIND_HOST);
    for (int64_t step = 0; step < 3; ++step) {
        cep_step(profiler, step);
        const cep_span whole = cep_begin(training_step, NULL);
        cep_end(load, cep_begin(load, CEP_HOST), CEP_HOST);
        cep_end(backward, cep_switch(cep_begin(forward, NULL), backward, NULL), NULL);
        const cep_attrs attrs = {.struct_size = sizeof attrs,
                                 .bytes = 4096,
                                 .flops = 2e6,
                                 .group = "dp",
                                 .coll = step,
                                 .meta = "{\"op\":\"sum\"}"};
        cep_end(sync, cep_begin_with(sync, NULL, &attrs), NULL);
        cep_end(training_step, whole, NULL);
        cep_counter(profiler, "loss", 0.5 * (double)step);
    }
    cep_mark(profiler, "checkpoint", "{\"format\":\"sharded\"}");
    const cep_attrs failed = {.struct_size = sizeof failed, .coll = -1, .error = "DiskFull"};
    cep_end_with(save, cep_begin(save, CEP_HOST), CEP_HOST, &failed);
}

int main(int argc, char** argv) {
    cep_options options;
    cep_profiler* profiler;
    if (argc != 2 || cep_options_init(&options, sizeof options) != CEP_OK) return 2;
    options.directory = argv[1];
    options.rank = 3;
    options.world_size = 8;
    options.record_every_n_steps = 1;
    options.backend = CEP_BACKEND_HOST;
    options.max_overhead_percent = 12.5;
    options.meta = "{\"dp\":1,\"flops_per_step\":1.5e9,\"model\":\"tiny\"}";
    if (cep_open(&options, &profiler) != CEP_OK) return 1;
    train(profiler);
    return cep_flush(profiler, 5000) == CEP_OK && cep_close(profiler, 5000) == CEP_OK ? 0 : 1;
}
