// SPDX-License-Identifier: Apache-2.0
//
// As many spans as in a long job.
#include <stdio.h>
#include <unistd.h>

#include "trainer.h"

TEST(ten_million_spans_are_counted_exactly) {
    enum { spans = CHECK_SANITIZED ? 200000 : 10000000, patience_s = 200 };
    alarm(patience_s);
    cep_options options = host_options();
    options.max_file_bytes = 32 << 20;
    cep_profiler* profiler = open_with(&options);
    cep_region* region = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    for (int step = 0; step < 10; ++step) {
        CHECK_EQ(cep_step(profiler, step), CEP_OK);
        for (int i = 0; i < spans / 10; ++i) cep_end(region, cep_begin(region, CEP_HOST), CEP_HOST);
    }
    const cep_stats now = stats_of(profiler);
    CHECK_EQ(now.recorded, spans);
    check_nothing_unaccounted(&now);
    close_now(profiler);
    const cep_stats last = stats_of(profiler);
    CHECK_EQ(last.recorded, spans);
    CHECK_EQ(last.pending, 0);
    CHECK(last.written > 0);
    check_nothing_unaccounted(&last);
    CHECK_EQ(count_spans_in_file(RANK_FILE), last.written);
    CHECK(file_size(RANK_FILE) <= options.max_file_bytes);
    printf("# %llu in the file, %llu past its limit, %llu past the rings\n", (unsigned long long)last.written,
           (unsigned long long)last.dropped_file, (unsigned long long)last.dropped_ring);
}
