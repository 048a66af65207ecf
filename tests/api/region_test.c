// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "trainer.h"

TEST(the_same_name_is_the_same_region) {
    cep_profiler* profiler = open_here();
    cep_region* first = cep_region_get(profiler, "forward", CEP_KIND_COMPUTE);
    CHECK(first != NULL);
    CHECK(cep_region_get(profiler, "forward", CEP_KIND_DATA) == first);
    CHECK(cep_region_get(profiler, "backward", CEP_KIND_COMPUTE) != first);
    close_now(profiler);
}

TEST(an_unknown_kind_is_refused_and_named) {
    cep_profiler* profiler = open_here();
    CHECK(cep_region_get(profiler, "forward", 8) == NULL);
    CHECK_CONTAINS(cep_last_error(), "kind");
    CHECK_CONTAINS(cep_last_error(), "8");
    CHECK(cep_region_get(profiler, "forward", -1) == NULL);
    close_now(profiler);
}

TEST(regions_with_many_names_do_not_mix_their_spans) {
    enum { regions = 300 };
    cep_profiler* profiler = open_at_step(0);
    char name[32];
    for (int i = 0; i < regions; ++i) {
        snprintf(name, sizeof name, "region %d", i);
        record_spans(profiler, name, 1 + i % 3);
    }
    const rows all = rows_after_close(profiler);
    for (int i = 0; i < regions; ++i) {
        snprintf(name, sizeof name, "region %d", i);
        CHECK_EQ(rows_spans_named(&all, name), 1 + i % 3);
    }
}
