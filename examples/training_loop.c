// SPDX-License-Identifier: Apache-2.0
//
// A training loop that uses all features of cep: a chain of phases, gradient accumulation, a collective that analyses
// can match between ranks, data loading on the host clock, counters, and a checkpoint.
//
//     cc -o training_loop training_loop.c $(pkg-config --cflags --libs cep) -lm
//     ./training_loop output && cep summarize output
//
// The passes are plain CPU work, so that it runs anywhere. A trainer passes its cudaStream_t instead of NULL.
#include <cep/cep.h>
#include <math.h>
#include <stdio.h>

enum { steps = 200, micro_batches = 4, checkpoint_every_n_steps = 100 };

typedef struct phases {
    cep_region *training_step, *data_load, *forward, *backward, *all_reduce, *optimizer, *checkpoint;
} phases;

static phases find_phases(cep_profiler* profiler) {
    return (phases){
        .training_step = cep_region_get(profiler, "training_step", CEP_KIND_AUTO),
        .data_load = cep_region_get(profiler, "data_load", CEP_KIND_AUTO),
        .forward = cep_region_get(profiler, "forward", CEP_KIND_AUTO),
        .backward = cep_region_get(profiler, "backward", CEP_KIND_AUTO),
        .all_reduce = cep_region_get(profiler, "all_reduce", CEP_KIND_AUTO),
        .optimizer = cep_region_get(profiler, "optimizer", CEP_KIND_AUTO),
        .checkpoint = cep_region_get(profiler, "save_checkpoint", CEP_KIND_AUTO),
    };
}

static double work(int amount) {
    double sum = 0;
    for (int i = 1; i <= amount; ++i) sum += sqrt((double)i);
    return sum;
}

static void train_micro_batch(const phases* job) {
    cep_span span = cep_begin(job->data_load, CEP_HOST);
    work(5000);
    cep_end(job->data_load, span, CEP_HOST);

    span = cep_begin(job->forward, NULL);
    work(20000);
    span = cep_switch(span, job->backward, NULL);  // one event ends forward and begins backward
    work(40000);
    cep_end(job->backward, span, NULL);
}

static void reduce_gradients(const phases* job, int64_t collective) {
    const cep_attrs attrs = {.struct_size = sizeof attrs, .bytes = 25 * 1024 * 1024, .group = "dp", .coll = collective};
    const cep_span span = cep_begin_with(job->all_reduce, NULL, &attrs);
    work(10000);
    cep_end(job->all_reduce, span, NULL);
}

static double train_step(const phases* job, int64_t step) {
    const cep_span whole = cep_begin(job->training_step, NULL);
    for (int i = 0; i < micro_batches; ++i) train_micro_batch(job);
    reduce_gradients(job, step);
    const cep_span span = cep_begin(job->optimizer, NULL);
    const double loss = 1.0 / work(5000);
    cep_end(job->optimizer, span, NULL);
    cep_end(job->training_step, whole, NULL);
    return loss;
}

static void save_checkpoint(cep_profiler* profiler, const phases* job) {
    cep_mark(profiler, "checkpoint", "{\"format\":\"sharded\"}");
    const cep_span span = cep_begin(job->checkpoint, CEP_HOST);
    work(100000);
    cep_end(job->checkpoint, span, CEP_HOST);
}

static void report_loss(cep_profiler* profiler) {
    cep_stats stats = {.struct_size = sizeof stats};
    if (cep_get_stats(profiler, &stats) != CEP_OK) return;
    printf("%llu of %llu measurements written\n", (unsigned long long)stats.written,
           (unsigned long long)stats.recorded);
}

int main(int argc, char** argv) {
    char directory[4096];
    snprintf(directory, sizeof directory, "%s/cuda_event_profiler", argc > 1 ? argv[1] : "output");

    cep_options options;
    cep_options_init(&options, sizeof options);
    options.directory = directory;
    options.record_every_n_steps = 5;

    // If the profiler cannot be opened, it stays NULL. The calls below accept NULL, so the job trains without it.
    cep_profiler* profiler = NULL;
    if (cep_open(&options, &profiler) != CEP_OK) fprintf(stderr, "not profiled: %s\n", cep_last_error());

    const phases job = find_phases(profiler);
    cep_set_meta(profiler, "{\"dp\":0,\"flops_per_step\":1.2e9,\"model\":\"example\"}");
    for (int64_t step = 0; step < steps; ++step) {
        cep_step(profiler, step);
        cep_counter(profiler, "loss", train_step(&job, step));
        if (step % checkpoint_every_n_steps == 0) save_checkpoint(profiler, &job);
    }
    if (profiler != NULL && cep_close(profiler, 5000) != CEP_OK)
        fprintf(stderr, "rows were lost: %s\n", cep_last_error());
    report_loss(profiler);
    return 0;
}
