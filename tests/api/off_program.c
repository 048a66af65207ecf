// SPDX-License-Identifier: Apache-2.0
//
// Trains a few steps with a profiler that is off, between two writes that a tracer sees.
// Argument: "disabled" or "unlisted".
#include <cep/cep.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static int off_profiler(const char* how, cep_profiler** profiler) {
    static const int32_t ranks[] = {0, 1};
    cep_options options;
    if (cep_options_init(&options, sizeof options) != CEP_OK) return 1;
    options.rank = 3;
    options.world_size = 4;
    options.directory = "must-not-appear";
    options.record_every_n_steps = 1;
    if (strcmp(how, "disabled") == 0) options.enable = 0;
    if (strcmp(how, "unlisted") == 0) {
        options.ranks = ranks;
        options.ranks_count = 2;
    }
    return cep_open(&options, profiler) == CEP_OK ? 0 : 1;
}

int main(int argc, char** argv) {
    static const char begin[] = "TRACE BEGIN\n", end[] = "TRACE END\n";
    cep_profiler* profiler = NULL;
    if (argc != 2 || write(STDERR_FILENO, begin, sizeof begin - 1) < 0) return 2;
    if (off_profiler(argv[1], &profiler) != 0) return 3;
    cep_region* region = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    for (int64_t step = 0; step < 100; ++step) {
        (void)cep_step(profiler, step);
        cep_end(region, cep_begin(region, NULL), NULL);
        (void)cep_counter(profiler, "loss", 1.0);
        (void)cep_mark(profiler, "checkpoint", NULL);
    }
    (void)cep_flush(profiler, 1000);
    (void)cep_close(profiler, 1000);
    return write(STDERR_FILENO, end, sizeof end - 1) < 0 ? 2 : 0;
}
