// SPDX-License-Identifier: Apache-2.0
//
// A span with invalid attributes loses these attributes, not its row.
#include <math.h>
#include <string.h>

#include "trainer.h"

enum { variants = 9 };

static char long_text[20000];

// Each is invalid for one reason.
static cep_attrs invalid(int variant) {
    cep_attrs attrs = CEP_ATTRS_INIT;
    memset(long_text, 'x', sizeof long_text - 1);
    switch (variant) {
        case 0:
            attrs.meta = "[1,2]";
            break;
        case 1:
            attrs.meta = "{\"a\":";
            break;
        case 2:
            attrs.meta = long_text;
            break;
        case 3:
            attrs.group = long_text;
            break;
        case 4:
            attrs.error = "\x01";
            break;
        case 5:
            attrs.bytes = -1;
            break;
        case 6:
            attrs.flops = (double)NAN;
            break;
        case 7:
            attrs.flags = 2;
            break;
        default:
            attrs.struct_size = 4;
            break;
    }
    if (variant != 5) attrs.bytes = variant == 8 ? 0 : 77;
    return attrs;
}

static cep_profiler* profiler;
static cep_region* region;

static void open_shared(void) {
    profiler = open_here();
    region = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
}

static void check_rows_without_attributes(uint64_t count) {
    close_now(profiler);
    const cep_stats stats = stats_of(profiler);
    CHECK_EQ(stats.recorded, count);
    CHECK_EQ(stats.written, count);
    CHECK_EQ(stats.dropped_meta, count);
    check_nothing_unaccounted(&stats);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_spans_named(&all, "forward"), count);
    for (size_t i = 0; i < count; ++i) {
        const row* span = rows_span(&all, "forward", i);
        CHECK(!row_has(span, "bytes") && !row_has(span, "group") && !row_has(span, "coll") && !row_has(span, "error"));
        CHECK(!row_has(span, "meta") && !row_has(span, "metadata") && !row_has(span, "flops"));
    }
}

TEST(a_span_begun_with_invalid_attributes_is_kept_without_them) {
    open_shared();
    for (int i = 0; i < variants; ++i) {
        const cep_attrs attrs = invalid(i);
        const cep_span span = cep_begin_with(region, CEP_HOST, &attrs);
        if (span == CEP_SPAN_NONE) check_fail(__FILE__, __LINE__, "variant %d begins no span", i);
        CHECK(cep_last_error()[0] != '\0');
        cep_end(region, span, CEP_HOST);
    }
    check_rows_without_attributes(variants);
}

TEST(a_span_ended_with_invalid_attributes_is_kept_without_them) {
    open_shared();
    for (int i = 0; i < variants; ++i) {
        const cep_attrs attrs = invalid(i);
        const int32_t code = cep_end_with(region, cep_begin(region, CEP_HOST), CEP_HOST, &attrs);
        CHECK_EQ(code, i < 2 ? CEP_EJSON : CEP_EINVAL);
        CHECK(cep_last_error()[0] != '\0');
    }
    check_rows_without_attributes(variants);
}

TEST(a_span_recorded_with_invalid_attributes_is_kept_without_them) {
    open_shared();
    for (int i = 0; i < variants; ++i) {
        const cep_attrs attrs = invalid(i);
        CHECK_EQ(cep_record(region, 0, 1000, &attrs), i < 2 ? CEP_EJSON : CEP_EINVAL);
    }
    check_rows_without_attributes(variants);
}

TEST(invalid_attributes_at_the_end_leave_those_of_the_begin) {
    open_shared();
    cep_attrs given = CEP_ATTRS_INIT;
    given.bytes = 4096;
    const cep_attrs attrs = invalid(0);
    const cep_span span = cep_begin_with(region, CEP_HOST, &given);
    CHECK_EQ(cep_end_with(region, span, CEP_HOST, &attrs), CEP_EJSON);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(row_int(rows_span(&all, "forward", 0), "bytes"), 4096);
}

TEST(invalid_attributes_are_not_checked_on_an_unrecorded_step) {
    cep_options options = host_options();
    options.record_every_n_steps = 10;
    profiler = open_with(&options);
    region = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    CHECK_EQ(cep_step(profiler, 1), CEP_OK);
    const cep_attrs attrs = invalid(0);
    CHECK(cep_begin_with(region, CEP_HOST, &attrs) == CEP_SPAN_NONE);
    CHECK_TEXT(cep_last_error(), "");
    CHECK_EQ(stats_of(profiler).dropped_meta, 0);
    close_now(profiler);
}

TEST(initialised_attributes_give_nothing) {
    open_shared();
    const cep_attrs nothing = CEP_ATTRS_INIT;
    CHECK_EQ(nothing.struct_size, sizeof nothing);
    cep_end(region, cep_begin_with(region, CEP_HOST, &nothing), CEP_HOST);
    const rows all = rows_after_close(profiler);
    const row* span = rows_span(&all, "forward", 0);
    CHECK(!row_has(span, "bytes") && !row_has(span, "group") && !row_has(span, "coll") && !row_has(span, "error"));
    CHECK_EQ(stats_of(profiler).dropped_meta, 0);
}

TEST(a_group_alone_has_no_collective_index) {
    open_shared();
    cep_attrs attrs = CEP_ATTRS_INIT;
    attrs.group = "dp";
    cep_end(region, cep_begin_with(region, CEP_HOST, &attrs), CEP_HOST);
    attrs.coll = 0;
    cep_end(region, cep_begin_with(region, CEP_HOST, &attrs), CEP_HOST);
    const rows all = rows_after_close(profiler);
    CHECK_TEXT(row_text(rows_span(&all, "forward", 0), "group"), "dp");
    CHECK(!row_has(rows_span(&all, "forward", 0), "coll"));
    CHECK_EQ(row_int(rows_span(&all, "forward", 1), "coll"), 0);
}
