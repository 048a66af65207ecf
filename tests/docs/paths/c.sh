#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A person with a C program: builds it with pkg-config, runs four ranks, finds the slow one, changes options from outside.
# needs: cc, pkg-config
# says: Rank 2 | forward | 4 ranks | 2 recorded
set -eu

cat >train.c <<'PROGRAM'
#include <cep/cep.h>
#include <stdlib.h>
#include <time.h>

static void work(long ms) {
    struct timespec time = {0, ms * 1000000};
    nanosleep(&time, NULL);
}

int main(void) {
    cep_profiler *profiler = NULL;
    if (cep_open(NULL, &profiler) != CEP_OK) return 1;
    cep_region *step = cep_region_get(profiler, "training_step", CEP_KIND_AUTO);
    cep_region *forward = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    long ms = atoi(getenv("RANK")) == 2 ? 40 : 5;
    for (int64_t number = 0; number < 40; ++number) {
        cep_step(profiler, number);
        cep_span whole = cep_begin(step, CEP_HOST);
        cep_span span = cep_begin(forward, CEP_HOST);
        work(ms);
        cep_end(forward, span, CEP_HOST);
        cep_end(step, whole, CEP_HOST);
    }
    return cep_close(profiler, 5000) == CEP_OK ? 0 : 1;
}
PROGRAM

# shellcheck disable=SC2046  # a list of options
cc -std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -o train train.c $(pkg-config --cflags --libs cep)

run_ranks() {
    for rank in 0 1 2 3; do RANK=$rank WORLD_SIZE=4 ./train & done
    wait
}

# Off without configuration: no file.
RANK=0 WORLD_SIZE=1 ./train
[ ! -e cuda_event_profiler ]

CEP_ENABLE=1 CEP_RECORD_EVERY_N_STEPS=1 CEP_DIRECTORY=all run_ranks
cep check all
cep summarize all

CEP_CONFIG='{"enable": true, "start_step": 2, "end_step": 5, "record_every_n_steps": 2, "directory": "window"}' run_ranks
cep summarize window
