// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "trainer.h"

TEST(a_counter_is_written_with_its_step_and_value) {
    cep_profiler* profiler = open_at_step(3);
    CHECK_EQ(cep_counter(profiler, "memory.allocated_bytes", 8589934592.0), CEP_OK);
    CHECK_EQ(cep_counter(profiler, "loss", -0.1), CEP_OK);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, "counter"), 2);
    const row *memory = rows_nth(&all, "counter", 0), *loss = rows_nth(&all, "counter", 1);
    CHECK_TEXT(row_text(memory, "name"), "memory.allocated_bytes");
    CHECK_EQ(row_int(memory, "step"), 3);
    CHECK(row_number(memory, "value") == 8589934592.0);
    CHECK_TEXT(row_text(loss, "name"), "loss");
    CHECK(row_number(loss, "value") == -0.1);
}

TEST(a_counter_keeps_every_digit_of_a_double) {
    static const double values[] = {0.1, 1.0 / 3.0, 5e-324, 1.7976931348623157e308, 123456789012345680.0, 0.0};
    cep_profiler* profiler = open_at_step(0);
    for (size_t i = 0; i < sizeof values / sizeof *values; ++i) CHECK_EQ(cep_counter(profiler, "x", values[i]), CEP_OK);
    const rows all = rows_after_close(profiler);
    for (size_t i = 0; i < sizeof values / sizeof *values; ++i)
        CHECK(row_number(rows_nth(&all, "counter", i), "value") == values[i]);
}

TEST(a_counter_on_an_unrecorded_step_is_not_written) {
    cep_profiler* profiler = open_every(10);
    CHECK_EQ(cep_step(profiler, 1), CEP_OK);
    CHECK_EQ(cep_counter(profiler, "loss", 1), CEP_OK);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, "counter"), 0);
}

TEST(values_that_json_lacks_are_refused) {
    cep_profiler* profiler = open_at_step(0);
    CHECK_EQ(cep_counter(profiler, "loss", NAN), CEP_EINVAL);
    CHECK_EQ(cep_counter(profiler, "loss", INFINITY), CEP_EINVAL);
    CHECK_EQ(cep_counter(profiler, "loss", -INFINITY), CEP_EINVAL);
    CHECK_CONTAINS(cep_last_error(), "value");
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, "counter"), 0);
}

TEST(a_mark_is_written_with_its_step_and_meta) {
    cep_profiler* profiler = open_at_step(5);
    CHECK_EQ(cep_mark(profiler, "checkpoint", "{\"path\":\"a\\/b\",\n\"bytes\":12}"), CEP_OK);
    CHECK_EQ(cep_mark(profiler, "evaluation", NULL), CEP_OK);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, "mark"), 2);
    const row* mark = rows_nth(&all, "mark", 0);
    CHECK_TEXT(row_text(mark, "name"), "checkpoint");
    CHECK_EQ(row_int(mark, "step"), 5);
    CHECK_EQ(row_at(mark, "meta/bytes")->valueint, 12);
    CHECK(!row_has(rows_nth(&all, "mark", 1), "meta"));
}

TEST(a_mark_is_written_on_every_step_of_the_window) {
    cep_options options = host_options();
    options.start_step = 10;
    options.end_step = 30;
    options.record_every_n_steps = 10;
    cep_profiler* profiler = open_with(&options);
    static const int64_t steps[] = {9, 10, 11, 29, 30, 31};
    for (int i = 0; i < 6; ++i) {
        CHECK_EQ(cep_step(profiler, steps[i]), CEP_OK);
        CHECK_EQ(cep_mark(profiler, "checkpoint", NULL), CEP_OK);
    }
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, "mark"), 4);
    for (size_t i = 0; i < 4; ++i) CHECK_EQ(row_int(rows_nth(&all, "mark", i), "step"), steps[i + 1]);
}

TEST(a_mark_with_bad_meta_is_refused_and_the_file_stays_whole) {
    static const char* const metas[] = {"", "[]", "{\"a\":", "{} {}", "null"};
    cep_profiler* profiler = open_at_step(0);
    for (size_t i = 0; i < sizeof metas / sizeof *metas; ++i)
        CHECK_EQ(cep_mark(profiler, "checkpoint", metas[i]), CEP_EJSON);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, "mark"), 0);
}
