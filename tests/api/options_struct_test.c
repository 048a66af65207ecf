// SPDX-License-Identifier: Apache-2.0
#include <fenv.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "trainer.h"

TEST(init_sets_the_documented_defaults) {
    cep_options options;
    memset(&options, 0x5a, sizeof options);
    CHECK_EQ(cep_options_init(&options, sizeof options), CEP_OK);
    CHECK_EQ(options.struct_size, sizeof options);
    CHECK_EQ(options.enable, 1);
    CHECK(options.directory == NULL);
    CHECK_EQ(options.rank, CEP_FIND_IT);
    CHECK_EQ(options.world_size, CEP_FIND_IT);
    CHECK_EQ(options.local_rank, CEP_FIND_IT);
    CHECK_EQ(options.layout, CEP_LAYOUT_FULL);
    CHECK_EQ(options.start_step, 0);
    CHECK_EQ(options.end_step, CEP_NO_END_STEP);
    CHECK_EQ(options.record_every_n_steps, 10);
    CHECK_EQ(options.flush_every_n_steps, 10);
    CHECK(options.ranks == NULL);
    CHECK_EQ(options.ranks_count, 0);
    CHECK_EQ(options.max_file_bytes, 0);
    CHECK_EQ(options.ring_capacity, 4096);
    CHECK_EQ(options.pool_limit, 16384);
    CHECK_EQ(options.backend, CEP_BACKEND_AUTO);
    CHECK_EQ(options.reserved, 0);
    CHECK(options.run_id == NULL && options.meta == NULL && options.storage == NULL);
    CHECK(options.max_overhead_percent == 0);
    CHECK(options.capture_range == NULL);
}

TEST(init_refuses_null_and_a_size_that_is_too_small) {
    cep_options options;
    CHECK_EQ(cep_options_init(NULL, sizeof options), CEP_EINVAL);
    CHECK_EQ(cep_options_init(&options, 0), CEP_EINVAL);
    CHECK_EQ(cep_options_init(&options, sizeof(uint32_t)), CEP_EINVAL);
}

// A caller with an older header has a smaller struct: only its bytes may be read or written.
TEST(a_shorter_struct_is_not_written_or_read_past_its_end) {
    const uint32_t size = offsetof(cep_options, ring_capacity);
    unsigned char* bytes = malloc(sizeof(cep_options));
    CHECK(bytes != NULL);
    memset(bytes, 0x5a, sizeof(cep_options));
    cep_options* options = (cep_options*)(void*)bytes;
    CHECK_EQ(cep_options_init(options, size), CEP_OK);
    CHECK_EQ(options->struct_size, size);
    for (size_t i = size; i < sizeof(cep_options); ++i) CHECK_EQ(bytes[i], 0x5a);
    options->directory = "out";
    options->record_every_n_steps = 1;
    cep_profiler* profiler = open_with(options);
    record_step(profiler, 0, "forward");
    close_now(profiler);
    free(bytes);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_spans_named(&all, "forward"), 1);
}

struct newer_options {
    cep_options known;
    uint64_t unknown;
};

TEST(a_longer_struct_with_a_zero_tail_is_accepted) {
    struct newer_options newer;
    memset(&newer, 0x5a, sizeof newer);
    CHECK_EQ(cep_options_init(&newer.known, sizeof newer), CEP_OK);
    CHECK_EQ(newer.unknown, 0);
    newer.known.directory = "out";
    close_now(open_with(&newer.known));
}

TEST(a_longer_struct_with_an_unknown_option_set_is_refused) {
    struct newer_options newer;
    CHECK_EQ(cep_options_init(&newer.known, sizeof newer), CEP_OK);
    newer.known.directory = "out";
    newer.unknown = 1;
    cep_profiler* profiler = (cep_profiler*)(intptr_t)1;
    CHECK(cep_open(&newer.known, &profiler) < 0);
    CHECK(profiler == NULL);
    CHECK(cep_last_error()[0] != '\0');
    CHECK(!path_exists("out"));
}

TEST(open_refuses_a_struct_that_was_not_initialised) {
    cep_options options;
    memset(&options, 0, sizeof options);
    cep_profiler* profiler = (cep_profiler*)(intptr_t)1;
    CHECK_EQ(cep_open(&options, &profiler), CEP_EINVAL);
    CHECK(profiler == NULL);
}

TEST(open_refuses_a_null_result) {
    const cep_options options = host_options();
    CHECK_EQ(cep_open(&options, NULL), CEP_EINVAL);
    CHECK(!path_exists("out"));
}

#define REFUSED(test, field, number, name, value)              \
    TEST(test) {                                               \
        cep_options options = host_options();                  \
        options.field = (number);                              \
        check_refused(&options, CEP_EOPTION, (name), (value)); \
    }

REFUSED(a_zero_stride_is_refused, record_every_n_steps, 0, "record_every_n_steps", "0")
REFUSED(a_negative_stride_is_refused, record_every_n_steps, -3, "record_every_n_steps", "-3")
REFUSED(a_zero_flush_cadence_is_refused, flush_every_n_steps, 0, "flush_every_n_steps", "0")
REFUSED(a_negative_flush_cadence_is_refused, flush_every_n_steps, -7, "flush_every_n_steps", "-7")
REFUSED(a_negative_start_step_is_refused, start_step, -1, "start_step", "-1")
REFUSED(a_negative_end_step_is_refused, end_step, -1, "end_step", "-1")
REFUSED(a_rank_below_the_marker_is_refused, rank, -2, "rank", "-2")
REFUSED(a_rank_equal_to_the_world_size_is_refused, rank, 1, "rank", "1")
REFUSED(a_world_size_of_zero_is_refused, world_size, 0, "world_size", "0")
REFUSED(a_negative_world_size_is_refused, world_size, -5, "world_size", "-5")
REFUSED(a_negative_local_rank_is_refused, local_rank, -2, "local_rank", "-2")
REFUSED(an_unknown_layout_is_refused, layout, 3, "layout", "not one of 0 (full), 1 (flat) and 2 (spans)")
REFUSED(an_unknown_backend_is_refused, backend, 2, "backend", "2")
REFUSED(a_negative_file_size_is_refused, max_file_bytes, -1, "max_file_bytes", "-1")
REFUSED(a_ring_below_its_smallest_is_refused, ring_capacity, 15, "ring_capacity", "15")
REFUSED(a_ring_above_its_largest_is_refused, ring_capacity, 1048577, "ring_capacity", "1048577")
REFUSED(a_pool_limit_of_zero_is_refused, pool_limit, 0, "pool_limit", "0")
REFUSED(a_pool_limit_of_one_is_refused, pool_limit, 1, "pool_limit", "1")
REFUSED(a_pool_limit_above_its_largest_is_refused, pool_limit, 1048577, "pool_limit", "1048577")
REFUSED(a_negative_pool_limit_is_refused, pool_limit, -6, "pool_limit", "-6")
REFUSED(reserved_fields_must_be_zero, reserved, 3, "reserved", "3")

TEST(a_bound_that_is_no_number_is_refused_where_invalid_operations_trap) {
    (void)feenableexcept(FE_INVALID);
    cep_options options = host_options();
    options.max_overhead_percent = NAN;
    check_refused(&options, CEP_EOPTION, "max_overhead_percent", "nan");
    options.max_overhead_percent = -INFINITY;
    check_refused(&options, CEP_EOPTION, "max_overhead_percent", "-inf");
}

TEST(a_range_to_capture_that_is_none_is_refused) {
    static const char* const ranges[] = {"",      "7",      "7-",   "-7",   "9-7",    "7-9@",
                                         "7-9@x", "7-9,11", "-1-3", " 7-9", "7-9@1-0"};
    cep_options options = host_options();
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; ++i) {
        options.capture_range = ranges[i];
        check_refused(&options, CEP_EOPTION, "capture_range", ranges[i]);
    }
}

TEST(a_window_that_ends_before_it_starts_is_refused) {
    cep_options options = host_options();
    options.start_step = 50;
    options.end_step = 40;
    check_refused(&options, CEP_EOPTION, "end_step", "40");
}

TEST(a_negative_rank_in_the_list_is_refused) {
    static const int32_t ranks[] = {0, -9};
    cep_options options = host_options();
    options.ranks = ranks;
    options.ranks_count = 2;
    check_refused(&options, CEP_EOPTION, "ranks", "-9");
}

TEST(more_ranks_than_can_be_listed_are_refused_unread) {
    static const int32_t ranks[] = {0};
    cep_options options = host_options();
    options.ranks = ranks;
    options.ranks_count = 65537;
    check_refused(&options, CEP_EOPTION, "ranks: 65537", "65536");
    options.ranks_count = UINT64_MAX;
    check_refused(&options, CEP_EOPTION, "ranks: 18446744073709551615", "65536");
}

TEST(as_many_ranks_as_can_be_listed_are_accepted) {
    static int32_t ranks[65536];
    for (int32_t i = 0; i < 65536; ++i) ranks[i] = i;
    cep_options options = host_options();
    options.ranks = ranks;
    options.ranks_count = 65536;
    close_now(open_with(&options));
    CHECK(path_exists(RANK_FILE));
}

TEST(a_meta_that_the_reader_would_refuse_is_refused) {
    static const char* const refused[] = {"{\"a\":1e999}", "{\"a\":\"\\ud800\"}", "{\"a\":18446744073709551616}",
                                          "{\"a\":-9223372036854775809}"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i) {
        cep_options options = host_options();
        options.meta = refused[i];
        check_refused(&options, CEP_EJSON, "meta: not a JSON object", "at byte");
    }
}

// Returns {"a":"xxx…"} of that many bytes. The caller frees it.
static char* meta_of(size_t bytes) {
    char* text = malloc(bytes + 1);
    CHECK(text != NULL);
    memset(text, 'x', bytes);
    memcpy(text, "{\"a\":\"", 6);
    memcpy(text + bytes - 2, "\"}", 3);
    return text;
}

TEST(a_meta_of_64_kib_is_accepted_and_a_longer_one_refused) {
    cep_options options = host_options();
    char* longer = meta_of(65537);
    options.meta = longer;
    check_refused(&options, CEP_EOPTION, "meta", "65536 bytes");
    free(longer);
    char* longest = meta_of(65536);
    options.meta = longest;
    close_now(open_with(&options));
    free(longest);
}

TEST(the_smallest_ring_is_accepted) {
    PROFILER_WITH(open_with, host_options, ring_capacity = 16);
    record_step(profiler, 0, "forward");
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_spans_named(&all, "forward"), 1);
}

TEST(the_default_directory_is_cuda_event_profiler) {
    cep_options options = host_options();
    options.directory = NULL;
    close_now(open_with(&options));
    CHECK(path_exists("cuda_event_profiler/cuda_events_rank_0.jsonl"));
}

TEST(the_library_copies_the_strings_and_arrays_it_is_given) {
    char directory[] = "out";
    char meta[] = "{\"a\":1}";
    int32_t ranks[] = {0};
    cep_options options = host_options();
    options.directory = directory;
    options.meta = meta;
    options.ranks = ranks;
    options.ranks_count = 1;
    cep_profiler* profiler = open_with(&options);
    memset(directory, 'x', sizeof directory - 1);
    memset(meta, 'x', sizeof meta - 1);
    ranks[0] = 9;
    record_step(profiler, 0, "forward");
    const rows all = rows_after_close(profiler);
    CHECK_EQ(row_at(rows_nth(&all, "run", 0), "meta/a")->valueint, 1);
}

TEST(clear_accepts_null_and_sets_the_defaults_again) {
    cep_options_clear(NULL);
    cep_options options;
    CHECK_EQ(cep_options_init(&options, sizeof options), CEP_OK);
    CHECK_EQ(cep_options_load_json(&options, "{\"directory\":\"d\",\"ranks\":[1],\"start_step\":5}"), CEP_OK);
    cep_options_clear(&options);
    CHECK(options.directory == NULL && options.ranks == NULL && options.storage == NULL);
    CHECK_EQ(options.start_step, 0);
    CHECK_EQ(options.enable, 1);
    cep_options_clear(&options);
}
