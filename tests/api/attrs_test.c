// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer.h"

static cep_attrs no_attrs(void) {
    return (cep_attrs){.struct_size = sizeof(cep_attrs), .coll = -1};
}

static cep_attrs with_meta(const char* meta) {
    cep_attrs attrs = no_attrs();
    attrs.meta = meta;
    return attrs;
}

static cep_profiler* open_with_new_file(void) {
    (void)remove(RANK_FILE);
    return open_at_step(0);
}

// One span with these attributes, written and read back.
static const row* written_with(const cep_attrs* attrs) {
    cep_profiler* profiler = open_with_new_file();
    cep_region* region = cep_region_get(profiler, "all_reduce", CEP_KIND_AUTO);

    const cep_span span = cep_begin_with(region, CEP_HOST, attrs);
    if (span == CEP_SPAN_NONE) check_fail(__FILE__, __LINE__, "cep_begin_with: %s", cep_last_error());
    cep_end(region, span, CEP_HOST);
    const rows all = rows_after_close(profiler);
    return rows_span(&all, "all_reduce", 0);
}

// Every call that takes attributes refuses these, keeps the span without them, and counts it.
static void check_attrs_refused(const cep_attrs* attrs, int32_t code, const char* name) {
    cep_profiler* profiler = open_with_new_file();
    cep_region* region = cep_region_get(profiler, "all_reduce", CEP_KIND_AUTO);

    const cep_span begun = cep_begin_with(region, CEP_HOST, attrs);
    CHECK(begun != CEP_SPAN_NONE);
    CHECK_CONTAINS(cep_last_error(), name);
    cep_end(region, begun, CEP_HOST);
    CHECK_EQ(cep_record(region, 0, 1, attrs), code);
    const cep_span span = cep_begin(region, CEP_HOST);
    CHECK_EQ(cep_end_with(region, span, CEP_HOST, attrs), code);
    CHECK_EQ(stats_of(profiler).open_spans, 0);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, SPAN), 3);
    static const char* const keys[] = {"bytes", "flops", "group", "coll", "error", "meta"};
    for (size_t n = 0; n < 3; ++n)
        for (size_t key = 0; key < sizeof keys / sizeof *keys; ++key)
            CHECK(!row_has(rows_span(&all, "all_reduce", n), keys[key]));
    const cep_stats stats = accounted_stats_of(profiler);
    CHECK_EQ(stats.dropped_meta, 3);
}

TEST(attributes_are_written) {
    const cep_attrs attrs = {.struct_size = sizeof attrs,
                             .bytes = INT64_C(9007199254740995),
                             .flops = 1.5e15,
                             .group = "dp",
                             .coll = 17,
                             .meta = "{\"bucket\":3}"};
    const row* span = written_with(&attrs);
    CHECK_EQ(row_int(span, "bytes"), INT64_C(9007199254740995));
    CHECK(row_number(span, "flops") == 1.5e15);
    CHECK_TEXT(row_text(span, "group"), "dp");
    CHECK_EQ(row_int(span, "coll"), 17);
    CHECK_EQ(row_at(span, "meta/bucket")->valueint, 3);
}

TEST(attributes_come_after_the_keys_every_span_has_and_in_their_order) {
    const cep_attrs attrs = {
        .struct_size = sizeof attrs, .bytes = 1, .flops = 2, .group = "dp", .coll = 0, .meta = "{}"};
    const row* span = written_with(&attrs);
    CHECK_EQ(row_int(span, "coll"), 0);
    const char* text = span->text;
    static const char* const keys[] = {
        "\"depth\":", "\"bytes\":", "\"flops\":", "\"group\":", "\"coll\":", "\"meta\":"};
    const char* previous = text;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; ++i) {
        const char* at = strstr(text, keys[i]);
        if (at == NULL || at < previous)
            check_fail(__FILE__, __LINE__, "%s is missing or misplaced in %s", keys[i], text);
        previous = at;
    }
}

TEST(attributes_not_given_are_not_written) {
    const cep_attrs attrs = {.struct_size = sizeof attrs};
    const row* span = written_with(&attrs);
    CHECK(!row_has(span, "bytes") && !row_has(span, "flops") && !row_has(span, "group") && !row_has(span, "coll"));
    CHECK(!row_has(span, "error") && !row_has(span, "meta"));
}

TEST(initialised_attributes_with_a_group_alone_have_no_index) {
    cep_attrs attrs = CEP_ATTRS_INIT;
    attrs.group = "dp";
    const row* span = written_with(&attrs);
    CHECK_TEXT(row_text(span, "group"), "dp");
    CHECK(!row_has(span, "coll"));
}

TEST(an_error_is_written) {
    cep_attrs attrs = no_attrs();
    attrs.error = "RuntimeError";
    CHECK_TEXT(row_text(written_with(&attrs), "error"), "RuntimeError");
}

TEST(each_attribute_at_the_end_replaces_that_of_the_begin) {
    OPEN_AT_STEP(0, "all_reduce");
    const cep_attrs begun = {
        .struct_size = sizeof begun, .bytes = 100, .flops = 7, .group = "dp", .coll = 3, .meta = "{\"old\":1}"};
    const cep_attrs ended = {.struct_size = sizeof ended, .bytes = 200, .coll = -1, .meta = "{\"new\":2}"};
    const cep_span span = cep_begin_with(region, CEP_HOST, &begun);
    CHECK_EQ(cep_end_with(region, span, CEP_HOST, &ended), CEP_OK);
    const rows all = rows_after_close(profiler);
    const row* written = rows_span(&all, "all_reduce", 0);
    CHECK_EQ(row_int(written, "bytes"), 200);
    CHECK(row_number(written, "flops") == 7);
    CHECK_TEXT(row_text(written, "group"), "dp");
    CHECK_EQ(row_int(written, "coll"), 3);
    CHECK_EQ(row_at(written, "meta/new")->valueint, 2);
    CHECK(row_at(written, "meta/old") == NULL);
}

TEST(record_takes_attributes) {
    OPEN_AT_STEP(0, "all_reduce");
    const cep_attrs attrs = {.struct_size = sizeof attrs, .bytes = 64, .coll = -1, .meta = "{\"a\":[1]}"};
    CHECK_EQ(cep_record(region, 0, 1000, &attrs), CEP_OK);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(row_int(rows_span(&all, "all_reduce", 0), "bytes"), 64);
    CHECK_EQ(cJSON_GetArraySize(row_at(rows_span(&all, "all_reduce", 0), "meta/a")), 1);
}

static void check_meta_comes_back(const char* meta) {
    const cep_attrs attrs = with_meta(meta);
    cJSON* expected = cJSON_Parse(meta);
    CHECK(expected != NULL);
    CHECK(cJSON_Compare(row_at(written_with(&attrs), "meta"), expected, true));
    cJSON_Delete(expected);
}

// Also with line breaks: rows_read() fails the test if a line is not exactly one object.
TEST(a_meta_comes_back_as_it_was_given) {
    static const char* const metas[] = {"{}",
                                        "{\"a\":{\"b\":[1,{\"c\":null},[true,false,\"x\"]]},\"d\":-1.5e-7}",
                                        "{\"\xe5\xb1\x82\":\"\xf0\x9f\x9a\x80 \\u00e9 \\ud83d\\ude80\"}",
                                        "{\"a\":\"quote \\\" slash \\\\ line \\n tab \\t\"}",
                                        "{\"name\":\"x\",\"step\":-1,\"type\":\"run\"}",
                                        " {\n\t\"a\" :\r\n [ 1 ,\n 2 ] }\n"};
    for (size_t i = 0; i < sizeof metas / sizeof *metas; ++i) check_meta_comes_back(metas[i]);
}

TEST(a_meta_with_big_integers_is_kept_exactly) {
    const cep_attrs attrs = with_meta("{\"tokens\":9007199254740993}");
    CHECK_CONTAINS(written_with(&attrs)->text, "9007199254740993");
}

static void check_meta_refused(const char* meta) {
    const cep_attrs attrs = with_meta(meta);
    check_attrs_refused(&attrs, CEP_EJSON, "meta");
}

TEST(a_meta_that_is_no_json_object_is_refused) {
    static const char* const refused[] = {
        "",        "[1]",         "1",          "{\"a\":",          "{\"a\":1}}",        "{\"a\":1,}",
        "{'a':1}", "{\"a\":nan}", "{\"a\":01}", "{\"a\":\"x\ny\"}", "{\"a\":\"\\x41\"}", "{\"a\":\"\xff\"}"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i) check_meta_refused(refused[i]);
}

TEST(a_meta_nested_too_deeply_is_refused) {
    enum { depth = 8000 };
    char meta[2 * depth + 16] = "{\"a\":";
    memset(meta + 5, '[', depth);
    memset(meta + 5 + depth, ']', depth);
    strcpy(meta + 5 + 2 * depth, "}");
    check_meta_refused(meta);
}

static char* meta_of_size(size_t size) {
    char* meta = malloc(size + 1);
    CHECK(meta != NULL);
    memset(meta, 'x', size);
    memcpy(meta, "{\"a\":\"", 6);
    strcpy(meta + size - 2, "\"}");
    return meta;
}

TEST(a_meta_of_16384_bytes_is_accepted) {
    char* meta = meta_of_size(16384);
    check_meta_comes_back(meta);
    free(meta);
}

TEST(a_meta_of_16385_bytes_is_refused) {
    char* meta = meta_of_size(16385);
    const cep_attrs attrs = with_meta(meta);
    OPEN_AT_STEP(0, "all_reduce");
    cep_end(region, cep_begin_with(region, CEP_HOST, &attrs), CEP_HOST);
    CHECK_CONTAINS(cep_last_error(), "meta");
    CHECK(cep_record(region, 0, 1, &attrs) < 0);
    close_now(profiler);
    free(meta);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_count(&all, SPAN), 2);
    CHECK(!row_has(rows_nth(&all, SPAN, 0), "meta") && !row_has(rows_nth(&all, SPAN, 1), "meta"));
}

TEST(attributes_out_of_their_range_are_refused_and_named) {
    char text[65];
    memset(text, 'g', 64);
    text[64] = '\0';
    const struct {
        cep_attrs attrs;
        const char* name;
    } refused[] = {
        {{.struct_size = 0, .coll = -1}, "struct_size"},
        {{.struct_size = sizeof(cep_attrs), .coll = -1, .flags = 2}, "flags"},
        {{.struct_size = sizeof(cep_attrs), .coll = -1, .bytes = -8}, "bytes"},
        {{.struct_size = sizeof(cep_attrs), .coll = -1, .flops = NAN}, "flops"},
        {{.struct_size = sizeof(cep_attrs), .coll = -1, .flops = INFINITY}, "flops"},
        {{.struct_size = sizeof(cep_attrs), .coll = -2, .group = "dp"}, "coll"},
        {{.struct_size = sizeof(cep_attrs), .coll = 4}, "group"},
        {{.struct_size = sizeof(cep_attrs), .coll = -1, .group = text}, "group"},
        {{.struct_size = sizeof(cep_attrs), .coll = -1, .error = text}, "error"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i)
        check_attrs_refused(&refused[i].attrs, CEP_EINVAL, refused[i].name);
}

TEST(a_group_of_63_bytes_is_accepted) {
    char group[64];
    memset(group, 'g', 63);
    group[63] = '\0';
    cep_attrs attrs = no_attrs();
    attrs.group = group;
    CHECK_TEXT(row_text(written_with(&attrs), "group"), group);
}

TEST(a_group_with_quotes_comes_back_as_given) {
    cep_attrs attrs = no_attrs();
    attrs.group = "d\"p\\";
    CHECK_TEXT(row_text(written_with(&attrs), "group"), "d\"p\\");
}

TEST(shorter_attributes_of_an_older_caller_are_accepted) {
    cep_attrs attrs = no_attrs();
    attrs.struct_size = offsetof(cep_attrs, error);
    attrs.bytes = 5;
    attrs.error = (const char*)(intptr_t)-1;
    const row* span = written_with(&attrs);
    CHECK_EQ(row_int(span, "bytes"), 5);
    CHECK(!row_has(span, "error"));
}

TEST(longer_attributes_with_an_unknown_one_set_are_refused) {
    struct {
        cep_attrs known;
        uint64_t unknown;
    } newer = {no_attrs(), 0};
    newer.known.struct_size = sizeof newer;
    OPEN_AT_STEP(0, "all_reduce");
    CHECK_EQ(cep_record(region, 0, 1, &newer.known), CEP_OK);
    newer.unknown = 1;
    CHECK_EQ(cep_record(region, 0, 1, &newer.known), CEP_EINVAL);
    close_now(profiler);
}

TEST(invalid_attributes_at_the_end_leave_those_of_the_begin) {
    OPEN_AT_STEP(0, "all_reduce");
    cep_attrs begun = no_attrs();
    begun.bytes = 4096;
    const cep_attrs ended = with_meta("[1,2]");
    CHECK_EQ(cep_end_with(region, cep_begin_with(region, CEP_HOST, &begun), CEP_HOST, &ended), CEP_EJSON);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(row_int(rows_span(&all, "all_reduce", 0), "bytes"), 4096);
}

TEST(attributes_are_not_checked_on_an_unrecorded_step) {
    cep_profiler* profiler = open_every(10);
    cep_region* region = cep_region_get(profiler, "all_reduce", CEP_KIND_AUTO);
    CHECK_EQ(cep_step(profiler, 1), CEP_OK);
    const cep_attrs attrs = with_meta((const char*)(intptr_t)-1);
    CHECK(cep_begin_with(region, CEP_HOST, &attrs) == CEP_SPAN_NONE);
    close_now(profiler);
}

TEST(many_large_metas_are_written_or_counted_as_dropped) {
    enum { spans = 3000 };
    char* meta = meta_of_size(16384);
    const cep_attrs attrs = with_meta(meta);
    OPEN_AT_STEP(0, "all_reduce");
    for (int i = 0; i < spans; ++i) cep_end(region, cep_begin_with(region, CEP_HOST, &attrs), CEP_HOST);
    close_now(profiler);
    free(meta);
    const rows all = rows_read(RANK_FILE);
    const cep_stats stats = accounted_stats_of(profiler);
    CHECK_EQ(rows_count(&all, SPAN), stats.written);
    uint64_t without = 0;
    for (size_t i = 0; i < all.count; ++i) without += row_is(&all.items[i], SPAN) && !row_has(&all.items[i], "meta");
    CHECK_EQ(without, stats.dropped_meta);
}
