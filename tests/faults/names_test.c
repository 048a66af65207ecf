// SPDX-License-Identifier: Apache-2.0
//
// The largest steps, and names that are too long, too many, or not text.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scene.h"

enum { names_allowed = 4096, names_tried = 100000, longest_name_bytes = 255 };

TEST(steps_up_to_the_largest_are_written_exactly) {
    static const int64_t steps[] = {0, INT64_C(9007199254740993), INT64_MAX - 1, INT64_MAX};
    cep_profiler* profiler = open_here();
    for (size_t i = 0; i < 4; ++i) record_step(profiler, steps[i], "forward");
    const rows all = rows_after_close(profiler);
    for (size_t i = 0; i < 4; ++i) CHECK_EQ(row_int(rows_span(&all, "forward", i), "step"), steps[i]);
    CHECK_EQ(row_int(rows_last(&all, "stats"), "step"), INT64_MAX);
}

TEST(the_largest_step_is_recorded_with_any_stride_that_divides_it) {
    cep_options options = host_options();
    options.start_step = INT64_MAX - 10;
    options.record_every_n_steps = 10;
    cep_profiler* profiler = open_with(&options);
    for (int64_t back = 10; back >= 0; --back) record_step(profiler, INT64_MAX - back, "forward");
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, SPAN), 2);
}

static void check_name_refused(cep_profiler* profiler, const char* name) {
    CHECK(cep_region_get(profiler, name, CEP_KIND_AUTO) == NULL);
    CHECK(cep_last_error()[0] != '\0');
    CHECK(strpbrk(cep_last_error(), "\n\r\x1b") == NULL);
    CHECK_EQ(cep_counter(profiler, name, 1), CEP_EINVAL);
    CHECK_EQ(cep_mark(profiler, name, NULL), CEP_EINVAL);
}

TEST(names_that_are_not_text_are_refused_and_do_not_reach_the_file) {
    static const char* const names[] = {"",
                                        "\x01",
                                        "a\x01",
                                        "a\n",
                                        "a\tb",
                                        "\x1b[31m",
                                        "a\x7f",
                                        "\xc2\x80",
                                        "\xc2\x85",
                                        "a\xc2\x9f",
                                        "\xff",
                                        "\x80",
                                        "a\xc3",
                                        "\xc0\x80",
                                        "\xc0\xaf",
                                        "\xe2\x82",
                                        "\xed\xa0\x80",
                                        "\xf0\x9f",
                                        "\xfe\xff",
                                        "\xf4\x90\x80\x80",
                                        "\xf8\x88\x80\x80\x80"};
    cep_profiler* profiler = start();
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) check_name_refused(profiler, names[i]);
    CHECK(cep_region_get(profiler, NULL, CEP_KIND_AUTO) == NULL);
    CHECK_EQ(cep_counter(profiler, NULL, 1), CEP_EINVAL);
    CHECK_EQ(cep_mark(profiler, NULL, NULL), CEP_EINVAL);
    record_numbers(profiler, 1, 10);
    close_now(profiler);
    CHECK_EQ(stats_of(profiler).recorded, 10);
    check_exactly_once(profiler, RANK_FILE);
}

TEST(names_of_any_text_are_read_back_unchanged) {
    static const char* const names[] = {"\"",           "\\",       "\\u0000", "{\"type\":\"run\"}", "</script>",
                                        "\xe2\x80\xa8", "\xc2\xa0", " ",       "\xf0\x9f\x98\x80",   "%s%n"};
    enum { count = sizeof names / sizeof *names };
    cep_profiler* profiler = start();
    for (size_t i = 0; i < count; ++i) {
        record_spans(profiler, names[i], 1);
        if (cep_region_get(profiler, names[i], CEP_KIND_AUTO) == NULL) check_fail(__FILE__, __LINE__, "%s", names[i]);
    }
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, SPAN), count);
    for (size_t i = 0; i < count; ++i) CHECK_EQ(rows_spans_named(&all, names[i]), 1);
    check_exactly_once(profiler, RANK_FILE);
}

static char* name_of(size_t bytes) {
    char* name = malloc(bytes + 1);
    CHECK(name != NULL);
    memset(name, 'n', bytes);
    name[bytes] = '\0';
    return name;
}

TEST(a_name_of_255_bytes_is_written_whole) {
    char* name = name_of(longest_name_bytes);
    cep_profiler* profiler = start();
    record_spans(profiler, name, 1);
    CHECK_EQ(cep_counter(profiler, name, 1), CEP_OK);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_spans_named(&all, name), 1);
    CHECK_TEXT(row_text(rows_nth(&all, "counter", 0), "name"), name);
    free(name);
}

TEST(names_that_are_too_long_are_refused) {
    static const size_t sizes[] = {longest_name_bytes + 1, 65536, 1 << 24};
    cep_profiler* profiler = start();
    for (size_t i = 0; i < 3; ++i) {
        char* name = name_of(sizes[i]);
        check_name_refused(profiler, name);
        CHECK(strlen(cep_last_error()) < 4096);
        free(name);
    }
    close_now(profiler);
}

TEST(of_100000_regions_4096_are_accepted) {
    cep_profiler* profiler = start();
    int accepted = 0;
    for (int i = 0; i < names_tried; ++i) {
        char name[32];
        snprintf(name, sizeof name, "region %d", i);
        cep_region* region = cep_region_get(profiler, name, CEP_KIND_AUTO);
        CHECK_EQ(region != NULL, i < names_allowed);
        accepted += region != NULL;
        if (i % 100 == 0) cep_end(region, cep_begin(region, CEP_HOST), CEP_HOST);
    }
    CHECK_EQ(accepted, names_allowed);
    CHECK_CONTAINS(cep_last_error(), "4096");
    CHECK(cep_region_get(profiler, "region 7", CEP_KIND_AUTO) != NULL);
    close_now(profiler);
    CHECK_EQ(stats_of(profiler).written, names_allowed / 100 + 1);
    check_exactly_once(profiler, RANK_FILE);
}

TEST(of_100000_counters_4096_are_accepted_and_the_others_refused_with_their_code) {
    PROFILER_WITH(start_with, quiet_options, ring_capacity = 16384);
    for (int i = 0; i < names_tried; ++i) {
        char name[32];
        snprintf(name, sizeof name, "counter %d", i);
        CHECK_EQ(cep_counter(profiler, name, i), i < names_allowed ? CEP_OK : CEP_ELIMIT);
    }
    CHECK_EQ(cep_counter(profiler, "counter 7", 1), CEP_OK);
    CHECK_EQ(cep_mark(profiler, "one more", NULL), CEP_ELIMIT);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, "counter"), names_allowed + 1);
    CHECK_EQ(stats_of(profiler).written, names_allowed + 1);
    (void)accounted_stats_of(profiler);
}
