// SPDX-License-Identifier: Apache-2.0
//
// The limits of the metadata that cep_set_meta() keeps for the run row.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer.h"

// Sets "key0", "key1", … to texts of 1,000 bytes until one is refused. Returns how many were accepted.
static int set_meta_until_refused(cep_profiler* profiler, int32_t* code) {
    char json[1100];
    char text[1001];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (int i = 0;; ++i) {
        snprintf(json, sizeof json, "{\"key%d\":\"%s\"}", i, text);
        *code = i < 1000 ? cep_set_meta(profiler, json) : CEP_EINTERNAL;
        if (*code != CEP_OK) return i;
    }
}

TEST(set_meta_keeps_at_most_64_kib_in_all) {
    cep_profiler* profiler = open_here();
    int32_t code = CEP_OK;
    const int kept = set_meta_until_refused(profiler, &code);
    CHECK_EQ(code, CEP_ELIMIT);
    CHECK_CONTAINS(cep_last_error(), "meta");
    CHECK_CONTAINS(cep_last_error(), "65536 bytes");
    CHECK_EQ(kept, 64);
    const rows all = rows_after_close(profiler);
    const row* run = rows_last(&all, "run");
    CHECK(row_has(run, "meta"));
    CHECK_EQ(cJSON_GetArraySize(row_at(run, "meta")), kept);
}

TEST(set_meta_replaces_a_key_when_no_more_keys_fit) {
    cep_profiler* profiler = open_here();
    int32_t code = CEP_OK;
    (void)set_meta_until_refused(profiler, &code);
    CHECK_EQ(code, CEP_ELIMIT);
    for (int i = 0; i < 100; ++i)
        CHECK_EQ(cep_set_meta(profiler, i % 2 == 0 ? "{\"key3\":1}" : "{\"key3\":2}"), CEP_OK);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(row_at(rows_last(&all, "run"), "meta/key3")->valueint, 2);
}

TEST(set_meta_that_goes_past_the_limit_keeps_none_of_its_keys) {
    cep_profiler* profiler = open_here();
    char* json = malloc(70000);
    CHECK(json != NULL);
    char* end = json + sprintf(json, "{\"dp\":1,\"a\":\"");
    memset(end, 'x', 66000);
    strcpy(end + 66000, "\"}");
    CHECK_EQ(cep_set_meta(profiler, json), CEP_ELIMIT);
    free(json);
    const rows all = rows_after_close(profiler);
    const row* run = rows_last(&all, "run");
    CHECK(!row_has(run, "dp"));
    CHECK(!row_has(run, "meta"));
}

TEST(set_meta_while_rows_are_written_repeats_no_run_row) {
    cep_profiler* profiler = open_here();
    cep_region* region = cep_region_get(profiler, "forward", CEP_KIND_HOST);
    char json[32];
    for (int i = 0; i < 50000; ++i) {
        CHECK_EQ(cep_step(profiler, i), CEP_OK);
        cep_end(region, cep_begin(region, NULL), NULL);
        snprintf(json, sizeof json, "{\"n\":%d}", i);
        CHECK_EQ(cep_set_meta(profiler, json), CEP_OK);
    }
    const rows all = rows_after_close(profiler);
    const char* last = "";
    for (size_t i = 0; i < all.count; ++i) {
        if (!row_is(&all.items[i], "run")) continue;
        CHECK(strcmp(all.items[i].text, last) != 0);
        last = all.items[i].text;
    }
}

TEST(set_meta_keeps_a_nul_character_as_it_is_written) {
    cep_profiler* profiler = open_here();
    CHECK_EQ(cep_set_meta(profiler, "{\"a\":\"b\\u0000c\"}"), CEP_OK);
    record_step(profiler, 0, "forward");
    const rows all = rows_after_close(profiler);
    CHECK_CONTAINS(rows_last(&all, "run")->text, "\"a\":\"b\\u0000c\"");
}

TEST(set_meta_refuses_texts_that_the_reader_would_refuse) {
    static const char* const refused[] = {"{\"a\":1e999}", "{\"a\":\"\\ud800\"}", "{\"a\":\"\\udc00\"}",
                                          "{\"a\":18446744073709551616}", "{\"a\":[-9223372036854775809]}"};
    cep_profiler* profiler = open_here();
    for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i)
        if (cep_set_meta(profiler, refused[i]) != CEP_EJSON)
            check_fail(__FILE__, __LINE__, "not refused with CEP_EJSON: %s", refused[i]);
    close_now(profiler);
}
