// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trainer.h"

enum { longest_text_bytes = 1 << 20, most_listed_ranks = 65536 };

// The load fails with that code, its message has each part, and no option changes.
static void check_load_refused(const char* json, int32_t code, const char* name, const char* value) {
    cep_options options = fresh_options();
    options.start_step = 42;
    const cep_options before = options;
    CHECK_EQ(cep_options_load_json(&options, json), code);
    CHECK_CONTAINS(cep_last_error(), name);
    CHECK_CONTAINS(cep_last_error(), value);
    CHECK(memcmp(&options, &before, sizeof options) == 0);
    cep_options_clear(&options);
}

// Loads a configuration into fresh options, which must be accepted.
static cep_options loaded(const char* json) {
    cep_options options = fresh_options();
    CHECK_EQ(cep_options_load_json(&options, json), CEP_OK);
    return options;
}

static void check_start_step(const char* json, int64_t start_step) {
    CHECK_OPTIONS(loaded(json), CHECK_EQ(options.start_step, start_step));
}

TEST(json_text_sets_every_option_it_names) {
    cep_options options = fresh_options();
    CHECK_EQ(
        cep_options_load_json(
            &options,
            " \n{\"enable\":true,\"directory\":\"d\",\"rank\":3,\"world_size\":8,\"local_rank\":1,\"layout\":\"flat\","
            "\"start_step\":5,\"end_step\":500,\"record_every_n_steps\":2,\"flush_every_n_steps\":4,"
            "\"ranks\":[0,3,7],\"max_file_bytes\":1000000,\"ring_capacity\":64,\"pool_limit\":128,"
            "\"backend\":\"host\",\"run_id\":\"r1\",\"meta\":{\"model\":\"m\"},\"max_overhead_percent\":0.125,"
            "\"capture_range\":\"100-104@0,8\"}"),
        CEP_OK);
    check_each_option_is_given(&options);
    cep_options_clear(&options);
}

TEST(json_keeps_the_options_that_it_does_not_name) {
    cep_options options = fresh_options();
    options.ring_capacity = 32;
    CHECK_EQ(cep_options_load_json(&options, "{\"enable\":true,\"start_step\":5}"), CEP_OK);
    CHECK_EQ(options.start_step, 5);
    CHECK_EQ(options.ring_capacity, 32);
    CHECK_EQ(options.record_every_n_steps, 10);
    cep_options_clear(&options);
}

TEST_THAT(a_configuration_without_enable_is_off,
          CHECK_OPTIONS(loaded("{\"start_step\":5}"), CHECK_EQ(options.enable, 0)))

TEST(a_second_load_does_not_switch_off_what_the_first_enabled) {
    cep_options options = loaded("{\"enable\":true}");
    CHECK_EQ(cep_options_load_json(&options, "{\"start_step\":5}"), CEP_OK);
    CHECK_EQ(options.enable, 1);
    cep_options_clear(&options);
}

TEST(a_second_load_replaces_strings_of_the_first) {
    cep_options options = loaded("{\"directory\":\"first\",\"run_id\":\"kept\"}");
    CHECK_EQ(cep_options_load_json(&options, "{\"directory\":\"second\"}"), CEP_OK);
    CHECK_TEXT(options.directory, "second");
    CHECK_TEXT(options.run_id, "kept");
    cep_options_clear(&options);
}

TEST(a_json_file_is_read_by_its_path) {
    write_text("config.json", "{\"enable\":true,\"record_every_n_steps\":3}\n");
    CHECK_OPTIONS(loaded("config.json"), CHECK_EQ(options.record_every_n_steps, 3));
}

TEST(null_end_step_means_no_end) {
    cep_options options = fresh_options();
    options.end_step = 9;
    CHECK_EQ(cep_options_load_json(&options, "{\"end_step\":null}"), CEP_OK);
    CHECK_EQ(options.end_step, CEP_NO_END_STEP);
    cep_options_clear(&options);
}

TEST(load_json_refuses_null_arguments) {
    cep_options options = fresh_options();
    CHECK_EQ(cep_options_load_json(NULL, "{}"), CEP_EINVAL);
    CHECK_EQ(cep_options_load_json(&options, NULL), CEP_EINVAL);
}

typedef struct refused {
    const char* json;
    const char* name;  // that the message says
    const char* value;
} refused;

TEST(an_option_that_there_is_not_or_that_cannot_have_this_value_is_refused_and_named) {
    static const refused cases[] = {
        {"{\"start_step\":1,\"record_every\":5}", "record_every", ""},
        {"{\"Start_Step\":1}", "Start_Step", ""},
        {"{\"start_step\":\"soon\"}", "start_step", "soon"},
        {"{\"start_step\":2.5}", "start_step", "2.5"},
        {"{\"end_step\":1e30}", "end_step", "1e"},
        {"{\"rank\":4294967297}", "rank", "4294967297"},
        {"{\"enable\":\"yes\"}", "enable", "yes"},
        {"{\"start_step\":{\"a\":1}}", "start_step", ""},
        {"{\"directory\":7}", "directory", "7"},
        {"{\"max_overhead_percent\":-1e-3}", "max_overhead_percent: -0.001", "0..100"},
        {"{\"max_overhead_percent\":101}", "max_overhead_percent: 101", "0..100"},
        {"{\"max_overhead_percent\":\"0.1\"}", "max_overhead_percent", "not a number"},
        {"{\"max_overhead_percent\":null}", "max_overhead_percent", "null"},
        {"{\"layout\":\"wide\"}", "layout", "wide"},
        {"{\"backend\":\"tpu\"}", "backend", "tpu"},
        {"{\"ranks\":3}", "ranks", ""},
        {"{\"ranks\":[0,\"one\"]}", "ranks", ""},
        {"{\"meta\":[1]}", "meta", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
        check_load_refused(cases[i].json, CEP_EOPTION, cases[i].name, cases[i].value);
}

TEST(text_that_is_no_object_that_readers_would_accept_is_refused_with_place_and_reason) {
    static const refused cases[] = {
        {"{\"start_step\":", "", ""},
        {"{\"start_step\":1} x", "", ""},
        {"{\"enable\":true,\n\"directory\":\"a\\u0000b\"}", "\\u0000", "line 2, column 15"},
        {"{\"rank\\u0000\":3}", "\\u0000", "line 1, column 7"},
        {"{\"meta\":{\"a\":[\"\\\\\\u0000\"]}}", "\\u0000", ""},
        {"{\"meta\":{\"a\":1e999}}", "line 1, column 14", "range of doubles"},
        {"{\"meta\":\n{\"a\":18446744073709551616}}", "line 2", "64 bits"},
        {"{\"meta\":{\"a\":\"\\ud800\"}}", "line 1", "surrogate"},
        {"{\"directory\":\"a\nb\"}", "line 1", "control character"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
        check_load_refused(cases[i].json, CEP_EJSON, cases[i].name, cases[i].value);
}

TEST(a_bound_may_be_a_whole_number_or_have_an_exponent) {
    cep_options options = loaded("{\"max_overhead_percent\":1}");
    CHECK(options.max_overhead_percent == 1);
    CHECK_EQ(cep_options_load_json(&options, "{\"max_overhead_percent\":25e-2}"), CEP_OK);
    CHECK(options.max_overhead_percent == 0.25);
    cep_options_clear(&options);
}

TEST(a_file_without_an_object_is_refused_and_named) {
    write_text("list.json", "[1, 2]\n");
    check_load_refused("list.json", CEP_EJSON, "list.json", "");
}

TEST_THAT(a_missing_file_is_refused_and_named,
          check_load_refused("nowhere/config.json", CEP_EIO, "nowhere/config.json", ""))

// A limit, so that endless reading ends the test instead of using up the machine's memory.
static void bound_time_and_memory(void) {
    const struct rlimit limit = {.rlim_cur = 1UL << 30, .rlim_max = 1UL << 30};
    if (!CHECK_SANITIZED) CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    alarm(20);
}

TEST(a_path_that_is_a_device_is_refused_and_named) {
    bound_time_and_memory();
    check_load_refused("/dev/zero", CEP_EIO, "/dev/zero", "not a regular file");
}

TEST(a_path_that_is_a_fifo_is_refused_without_waiting_for_a_writer) {
    CHECK_EQ(mkfifo("pipe.json", S_IRWXU), 0);
    bound_time_and_memory();
    check_load_refused("pipe.json", CEP_EIO, "pipe.json", "FIFO");
}

TEST(a_path_that_is_a_directory_says_so) {
    CHECK_EQ(mkdir("folder", S_IRWXU), 0);
    check_load_refused("folder", CEP_EIO, "folder", "directory");
}

TEST(a_symbolic_link_to_a_file_is_followed) {
    write_text("config.json", "{\"start_step\":3}");
    CHECK_EQ(symlink("config.json", "link.json"), 0);
    check_start_step("link.json", 3);
}

// Returns {"start_step":3} and white space, of that many bytes in all. The caller frees it.
static char* padded_json(size_t bytes) {
    static const char json[] = "{\"start_step\":3}";
    char* text = malloc(bytes + 1);
    CHECK(text != NULL);
    memset(text, ' ', bytes);
    memcpy(text, json, sizeof json - 1);
    text[bytes] = '\0';
    return text;
}

TEST(a_file_of_the_longest_size_is_read_and_a_longer_one_refused) {
    char* text = padded_json(longest_text_bytes + 1);
    write_text("longer.json", text);
    check_load_refused("longer.json", CEP_EIO, "longer.json", "1048576 bytes");
    text[longest_text_bytes] = '\0';
    write_text("longest.json", text);
    free(text);
    check_start_step("longest.json", 3);
}

TEST(a_text_of_the_longest_size_is_read_and_a_longer_one_refused) {
    char* text = padded_json(longest_text_bytes + 1);
    check_load_refused(text, CEP_EJSON, "1048576 bytes", "");
    text[longest_text_bytes] = '\0';
    check_start_step(text, 3);
    free(text);
}

// Returns {"ranks":[0,0,…]} with that many ranks. The caller frees it.
static char* json_of_ranks(size_t count) {
    char* text = malloc(2 * count + 16);
    CHECK(text != NULL);
    char* end = text + sprintf(text, "{\"ranks\":[");
    for (size_t i = 0; i < count; ++i) end += sprintf(end, "0,");
    strcpy(end - 1, "]}");
    return text;
}

TEST(as_many_ranks_as_can_be_listed_are_accepted_and_one_more_is_refused) {
    char* text = json_of_ranks(most_listed_ranks);
    CHECK_OPTIONS(loaded(text), CHECK_EQ(options.ranks_count, most_listed_ranks));
    free(text);
    text = json_of_ranks(most_listed_ranks + 1);
    check_load_refused(text, CEP_EOPTION, "ranks: 65537", "65536");
    free(text);
}

TEST_THAT(a_backslash_before_u0000_is_a_backslash,
          CHECK_OPTIONS(loaded("{\"directory\":\"a\\\\u0000b\"}"), CHECK_TEXT(options.directory, "a\\u0000b")))

TEST_THAT(meta_is_kept_as_it_is_written,
          CHECK_OPTIONS(loaded("{\"meta\": {\"id\": 18446744073709551615, \"lr\": 1.0e-4} }"),
                        CHECK_TEXT(options.meta, "{\"id\": 18446744073709551615, \"lr\": 1.0e-4}")))

TEST(integers_of_64_bits_are_read_exactly) {
    cep_options options = fresh_options();
    CHECK_EQ(cep_options_load_json(&options, "{\"end_step\":9223372036854775807,\"start_step\":9007199254740993}"),
             CEP_OK);
    CHECK_EQ(options.end_step, INT64_MAX);
    CHECK_EQ(options.start_step, 9007199254740993);
    cep_options_clear(&options);
}

TEST(an_integer_may_be_written_with_an_exponent) {
    cep_options options = loaded("{\"start_step\":1e3,\"end_step\":2000.0}");
    CHECK_EQ(options.start_step, 1000);
    CHECK_EQ(options.end_step, 2000);
    cep_options_clear(&options);
}

TEST_THAT(a_key_may_be_written_with_escapes, check_start_step("{\"start\\u005fstep\":5}", 5))

TEST(a_byte_order_mark_before_a_files_text_is_skipped) {
    write_text("mark.json", "\xef\xbb\xbf{\"start_step\":5}");
    check_start_step("mark.json", 5);
}

TEST(json_nested_too_deeply_is_refused) {
    enum { depth = 200000 };
    char* json = malloc(2 * depth + 32);
    CHECK(json != NULL);
    const int head = sprintf(json, "{\"meta\":");
    memset(json + head, '[', depth);
    memset(json + head + depth, ']', depth);
    strcpy(json + head + 2 * depth, "}");
    cep_options options = fresh_options();
    CHECK(cep_options_load_json(&options, json) < 0);
    free(json);
    cep_options_clear(&options);
}

TEST(a_value_out_of_its_range_is_refused_at_open_at_the_latest) {
    cep_options options = fresh_options();
    const int32_t code = cep_options_load_json(&options, "{\"enable\":true,\"record_every_n_steps\":-4}");
    cep_profiler* profiler = NULL;
    CHECK_EQ(code == CEP_OK ? cep_open(&options, &profiler) : code, CEP_EOPTION);
    CHECK_CONTAINS(cep_last_error(), "record_every_n_steps");
    CHECK_CONTAINS(cep_last_error(), "-4");
    CHECK(!path_exists("cuda_event_profiler"));
    cep_options_clear(&options);
}

TEST(options_from_json_outlive_their_struct_in_the_profiler) {
    cep_options options = fresh_options();
    CHECK_EQ(cep_options_load_json(&options,
                                   "{\"enable\":true,\"directory\":\"out\",\"record_every_n_steps\":1,\"ranks\":[0],"
                                   "\"meta\":{\"model\":{\"layers\":12}}}"),
             CEP_OK);
    cep_profiler* profiler = open_with(&options);
    cep_options_clear(&options);
    record_step(profiler, 0, "forward");
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_spans_named(&all, "forward"), 1);
    CHECK_EQ(row_at(rows_nth(&all, "run", 0), "meta/model/layers")->valueint, 12);
}
