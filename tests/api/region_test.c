// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "trainer.h"

TEST(the_same_name_is_the_same_region) {
    cep_profiler* profiler = open_here();
    cep_region* first = cep_region_get(profiler, "forward", CEP_KIND_COMPUTE);
    CHECK(first != NULL);
    CHECK(cep_region_get(profiler, "forward", CEP_KIND_DATA) == first);
    CHECK(cep_region_get(profiler, "backward", CEP_KIND_COMPUTE) != first);
    close_now(profiler);
}

static void check_name_refused(const char* name) {
    cep_profiler* profiler = open_here();
    CHECK(cep_region_get(profiler, name, CEP_KIND_AUTO) == NULL);
    CHECK_CONTAINS(cep_last_error(), "name");
    close_now(profiler);
}

TEST(a_null_name_is_refused) {
    check_name_refused(NULL);
}
TEST(an_empty_name_is_refused) {
    check_name_refused("");
}
TEST(a_newline_in_a_name_is_refused) {
    check_name_refused("for\nward");
}
TEST(a_tab_in_a_name_is_refused) {
    check_name_refused("for\tward");
}
TEST(a_delete_character_in_a_name_is_refused) {
    check_name_refused("for\x7fward");
}
TEST(a_control_character_above_ascii_in_a_name_is_refused) {
    check_name_refused("for\xc2\x80ward");
    check_name_refused("for\xc2\x85ward");
    check_name_refused("forward\xc2\x9f");
}
TEST(the_first_character_after_the_control_characters_is_accepted) {
    cep_profiler* profiler = open_here();
    CHECK(cep_region_get(profiler, "for\xc2\xa0ward", CEP_KIND_AUTO) != NULL);
    close_now(profiler);
}
TEST(a_name_that_is_not_utf8_is_refused) {
    check_name_refused("forward\xff");
}
TEST(a_name_cut_within_a_character_is_refused) {
    check_name_refused("forward\xe2\x82");
}
TEST(an_overlong_encoding_in_a_name_is_refused) {
    check_name_refused("forward\xc0\xaf");
}

TEST(a_name_of_255_bytes_is_accepted_and_one_of_256_refused) {
    char name[257];
    memset(name, 'n', 256);
    name[256] = '\0';
    cep_profiler* profiler = open_here();
    CHECK(cep_region_get(profiler, name, CEP_KIND_AUTO) == NULL);
    name[255] = '\0';
    CHECK(cep_region_get(profiler, name, CEP_KIND_AUTO) != NULL);
    record_step(profiler, 0, name);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_spans_named(&all, name), 1);
}

TEST(an_unknown_kind_is_refused_and_named) {
    cep_profiler* profiler = open_here();
    CHECK(cep_region_get(profiler, "forward", 8) == NULL);
    CHECK_CONTAINS(cep_last_error(), "kind");
    CHECK_CONTAINS(cep_last_error(), "8");
    CHECK(cep_region_get(profiler, "forward", -1) == NULL);
    close_now(profiler);
}

TEST(names_are_escaped_as_json) {
    static const char* const names[] = {"a \"quoted\" phase",      "back\\slash",       "\xe5\x89\x8d\xe5\x90\x91",
                                        "\xf0\x9f\x9a\x80 launch", "a/b {c} [d], e: f", "\xc2\xb5s"};
    cep_profiler* profiler = open_here();
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) record_step(profiler, 0, names[i]);
    const rows all = rows_after_close(profiler);
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) CHECK_EQ(rows_spans_named(&all, names[i]), 1);
}

TEST(more_than_4096_regions_are_refused_and_the_others_still_work) {
    cep_profiler* profiler = open_here();
    char name[32];
    for (int i = 0; i < 4096; ++i) {
        snprintf(name, sizeof name, "region %d", i);
        CHECK(cep_region_get(profiler, name, CEP_KIND_OTHER) != NULL);
    }
    CHECK(cep_region_get(profiler, "one more", CEP_KIND_OTHER) == NULL);
    CHECK_CONTAINS(cep_last_error(), "4096");
    CHECK(cep_region_get(profiler, "region 7", CEP_KIND_OTHER) != NULL);
    record_step(profiler, 0, "region 4095");
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_spans_named(&all, "region 4095"), 1);
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
