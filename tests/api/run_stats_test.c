// SPDX-License-Identifier: Apache-2.0
//
// The rows that are not measurements (run, stats, open), and the flat layout, which has none of them.
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trainer.h"

TEST(the_run_row_comes_first_and_says_where_the_rank_ran) {
    cep_options options = host_options();
    options.rank = 3;
    options.world_size = 8;
    options.local_rank = 1;
    options.run_id = "run \"7\"";
    cep_profiler* profiler = open_with(&options);
    record_step(profiler, 0, "forward");
    close_now(profiler);
    const rows all = rows_read("out/cuda_events_rank_3.jsonl");
    const row* run = &all.items[0];
    CHECK_TEXT(row_text(run, "type"), "run");
    CHECK_EQ(row_int(run, "schema"), 1);
    CHECK_TEXT(row_text(run, "run_id"), "run \"7\"");
    CHECK_EQ(row_int(run, "rank"), 3);
    CHECK_EQ(row_int(run, "world_size"), 8);
    CHECK_EQ(row_int(run, "local_rank"), 1);
    CHECK_EQ(row_int(run, "pid"), getpid());
    CHECK(row_int(run, "start_unix_ns") > INT64_C(1600000000000000000));
    CHECK(row_has(run, "attempt") && row_has(run, "clock_error_ns"));
    char host[256] = "";
    CHECK_EQ(gethostname(host, sizeof host - 1), 0);
    CHECK_TEXT(row_text(run, "host"), host);
    CHECK_TEXT(row_text(run, "backend"), "host");
    CHECK_CONTAINS(run->text, cep_version());
}

TEST(the_run_row_says_the_effective_configuration) {
    cep_options options = host_options();
    options.start_step = 12;
    options.end_step = 3456;
    options.record_every_n_steps = 7;
    options.flush_every_n_steps = 77;
    options.ring_capacity = 256;
    close_now(open_with(&options));
    const rows all = rows_read(RANK_FILE);
    const char* text = rows_nth(&all, "run", 0)->text;
    CHECK_CONTAINS(text, "\"start_step\":12");
    CHECK_CONTAINS(text, "\"end_step\":3456");
    CHECK_CONTAINS(text, "\"record_every_n_steps\":7");
    CHECK_CONTAINS(text, "\"flush_every_n_steps\":77");
    CHECK_CONTAINS(text, "\"ring_capacity\":256");
}

TEST(the_run_id_is_taken_from_torchrun_then_slurm) {
    setenv("SLURM_JOB_ID", "4711", 1);
    close_now(open_here());
    setenv("TORCHELASTIC_RUN_ID", "elastic", 1);
    close_now(open_here());
    const rows all = rows_read(RANK_FILE);
    CHECK_TEXT(row_text(rows_nth(&all, "run", 0), "run_id"), "4711");
    CHECK_TEXT(row_text(rows_nth(&all, "run", 1), "run_id"), "elastic");
}

TEST(a_run_without_a_name_gets_one) {
    close_now(open_here());
    const rows all = rows_read(RANK_FILE);
    CHECK(strlen(row_text(rows_nth(&all, "run", 0), "run_id")) > 0);
}

TEST(each_restart_appends_a_run_row_with_the_next_attempt) {
    for (int start = 0; start < 3; ++start) {
        cep_profiler* profiler = open_here();
        record_step(profiler, 5, "forward");
        close_now(profiler);
    }
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_count(&all, "run"), 3);
    CHECK_EQ(rows_spans_named(&all, "forward"), 3);
    const int64_t first = row_int(rows_nth(&all, "run", 0), "attempt");
    for (int start = 1; start < 3; ++start)
        CHECK_EQ(row_int(rows_nth(&all, "run", (size_t)start), "attempt"), first + start);
}

TEST(the_attempt_is_found_before_many_rows) {
    cep_profiler* profiler = open_at_step(0);
    for (int i = 0; i < 5; ++i) {
        record_spans(profiler, "forward", 2000);
        CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    }
    close_now(profiler);
    close_now(open_here());
    const rows all = rows_read(RANK_FILE);
    CHECK(file_size(RANK_FILE) > 1024 * 1024);
    CHECK_EQ(row_int(rows_nth(&all, "run", 1), "attempt"), row_int(rows_nth(&all, "run", 0), "attempt") + 1);
}

static void append_text(const char* text) {
    FILE* file = fopen(RANK_FILE, "a");
    CHECK(file != NULL);
    CHECK(fputs(text, file) >= 0);
    CHECK_EQ(fclose(file), 0);
}

TEST(a_restart_after_an_incomplete_line_starts_on_a_new_line) {
    cep_profiler* profiler = open_and_record();
    const rows before = rows_after_close(profiler);
    const int64_t attempt = row_int(rows_nth(&before, "run", 0), "attempt");
    append_text("{\"name\":\"forward\",\"step\":1,\"ra");
    profiler = open_here();
    record_step(profiler, 2, "forward");
    close_now(profiler);
    const rows all = rows_read_leniently(RANK_FILE);
    CHECK_EQ(rows_count(&all, "run"), 2);
    CHECK_EQ(row_int(rows_nth(&all, "run", 1), "attempt"), attempt + 1);
    CHECK_EQ(rows_spans_named(&all, "forward"), 2);
    CHECK_EQ(row_int(rows_span(&all, "forward", 1), "step"), 2);
}

TEST(a_restart_never_shortens_the_file) {
    cep_profiler* profiler = open_and_record();
    close_now(profiler);
    append_text("not a row at all\n");
    const long before = file_size(RANK_FILE);
    profiler = open_here();
    CHECK(file_size(RANK_FILE) >= before);
    close_now(profiler);
    CHECK(file_size(RANK_FILE) >= before);
    const rows all = rows_read_leniently(RANK_FILE);
    CHECK_EQ(rows_spans_named(&all, "forward"), 1);
    CHECK_EQ(rows_count(&all, "run"), 2);
}

TEST(a_file_of_core_rows_alone_is_appended_to) {
    close_now(open_here());
    CHECK_EQ(truncate(RANK_FILE, 0), 0);
    append_text("{\"name\":\"forward\",\"step\":1,\"rank\":0,\"duration_ms\":1.5}\n");
    close_now(open_here());
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_count(&all, SPAN), 1);
    CHECK_EQ(rows_count(&all, "run"), 1);
}

TEST(set_meta_puts_known_keys_at_top_level_and_others_under_meta) {
    cep_profiler* profiler = open_here();
    CHECK_EQ(cep_set_meta(profiler,
                          "{\"dp\":3,\"tp\":0,\"pp\":1,\"ep\":2,\"cp\":4,\"flops_per_step\":1.25e15,"
                          "\"hardware_flops_per_step\":1.5e15,\"peak_flops\":989e12,\"tokens_per_step\":4194304,"
                          "\"model\":\"m\",\"tags\":[1,2]}"),
             CEP_OK);
    record_step(profiler, 0, "forward");
    const rows all = rows_after_close(profiler);
    const row* run = rows_last(&all, "run");
    CHECK_EQ(row_int(run, "dp"), 3);
    CHECK_EQ(row_int(run, "tp"), 0);
    CHECK_EQ(row_int(run, "pp"), 1);
    CHECK_EQ(row_int(run, "ep"), 2);
    CHECK_EQ(row_int(run, "cp"), 4);
    CHECK(row_number(run, "flops_per_step") == 1.25e15);
    CHECK(row_number(run, "hardware_flops_per_step") == 1.5e15);
    CHECK(row_number(run, "peak_flops") == 989e12);
    CHECK(row_number(run, "tokens_per_step") == 4194304);
    CHECK_TEXT(row_at(run, "meta/model")->valuestring, "m");
    CHECK_EQ(cJSON_GetArraySize(row_at(run, "meta/tags")), 2);
    CHECK(row_at(run, "meta/dp") == NULL);
}

TEST(set_meta_twice_keeps_both) {
    cep_profiler* profiler = open_here();
    CHECK_EQ(cep_set_meta(profiler, "{\"dp\":3,\"a\":1,\"b\":1}"), CEP_OK);
    record_step(profiler, 0, "forward");
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    CHECK_EQ(cep_set_meta(profiler, "{\"tp\":1,\"b\":2}"), CEP_OK);
    record_step(profiler, 1, "forward");
    const rows all = rows_after_close(profiler);
    const row* run = rows_last(&all, "run");
    CHECK_EQ(row_int(run, "dp"), 3);
    CHECK_EQ(row_int(run, "tp"), 1);
    CHECK_EQ(row_at(run, "meta/a")->valueint, 1);
    CHECK_EQ(row_at(run, "meta/b")->valueint, 2);
    CHECK_EQ(row_int(run, "attempt"), row_int(rows_nth(&all, "run", 0), "attempt"));
}

TEST(set_meta_refuses_non_objects_and_known_keys_of_the_wrong_type) {
    static const char* const refused[] = {"",
                                          "[1]",
                                          "7",
                                          "{\"a\":",
                                          "{\"dp\":-1}",
                                          "{\"tp\":1.5}",
                                          "{\"pp\":\"2\"}",
                                          "{\"flops_per_step\":0}",
                                          "{\"peak_flops\":\"fast\"}",
                                          "{\"hardware_flops_per_step\":1e300}",
                                          "{\"tokens_per_step\":-3}"};
    cep_profiler* profiler = open_here();
    for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i)
        if (cep_set_meta(profiler, refused[i]) != CEP_EJSON)
            check_fail(__FILE__, __LINE__, "not refused with CEP_EJSON: %s", refused[i]);
    CHECK_EQ(cep_set_meta(profiler, "{\"dp\":-1,\"tp\":2}"), CEP_EJSON);
    CHECK_CONTAINS(cep_last_error(), "dp");
    CHECK_EQ(cep_set_meta(profiler, NULL), CEP_EINVAL);
    const rows all = rows_after_close(profiler);
    CHECK(!row_has(rows_last(&all, "run"), "tp"));
}

TEST(the_stats_row_at_close_accounts_for_every_span) {
    cep_profiler* profiler = open_at_step(0);
    record_spans(profiler, "forward", 100);
    CHECK_EQ(cep_counter(profiler, "loss", 1), CEP_OK);
    CHECK_EQ(cep_mark(profiler, "checkpoint", NULL), CEP_OK);
    const cep_stats stats = close_now(profiler);
    CHECK_EQ(stats.recorded, 102);
    CHECK_EQ(stats.written, 102);
    CHECK_EQ(stats.threads, 1);
    CHECK_EQ(stats.open_spans, 0);
    CHECK_EQ(stats.bytes_written, file_size(RANK_FILE));
    const rows all = rows_read(RANK_FILE);
    const row* last = &all.items[all.count - 1];
    CHECK(row_is(last, "stats"));
    CHECK_EQ(row_int(last, "recorded"), 102);
    CHECK_EQ(row_int(last, "written"), 102);
    static const char* const causes[] = {"ring", "slots", "pool", "file", "io", "meta"};
    for (int i = 0; i < 6; ++i) {
        char path[32];
        snprintf(path, sizeof path, "dropped/%s", causes[i]);
        CHECK(row_at(last, path) != NULL);
        CHECK_EQ(row_at(last, path)->valuedouble, 0);
    }
}

TEST(a_flush_after_a_loss_writes_a_stats_row_and_the_next_flush_none) {
    OPEN_AT_STEP(0, "forward");
    while (cep_begin(region, CEP_HOST) != CEP_SPAN_NONE) continue;  // more than can be open at once
    CHECK_EQ(stats_of(profiler).dropped_slots, 1);
    for (int flush = 0; flush < 3; ++flush) CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_count(&all, "stats"), 1);
    CHECK_EQ(row_at(rows_last(&all, "stats"), "dropped/slots")->valuedouble, 1);
    close_now(profiler);
}

TEST(a_flush_without_a_loss_writes_no_stats_row) {
    cep_profiler* profiler = open_and_record();
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_count(&all, "stats"), 0);
    close_now(profiler);
}

TEST(get_stats_fills_only_the_struct_of_an_older_caller) {
    cep_profiler* profiler = open_and_record();
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    cep_stats stats;
    memset(&stats, 0x5a, sizeof stats);
    stats.struct_size = offsetof(cep_stats, dropped_ring);
    CHECK_EQ(cep_get_stats(profiler, &stats), CEP_OK);
    CHECK_EQ(stats.written, 1);
    CHECK_EQ(stats.dropped_ring, INT64_C(0x5a5a5a5a5a5a5a5a));
    close_now(profiler);
}

TEST(get_stats_refuses_bad_arguments) {
    cep_profiler* profiler = open_here();
    cep_stats stats = {.struct_size = 0};
    CHECK_EQ(cep_get_stats(profiler, NULL), CEP_EINVAL);
    CHECK_EQ(cep_get_stats(profiler, &stats), CEP_EINVAL);
    stats.struct_size = sizeof stats;
    CHECK_EQ(cep_get_stats(NULL, &stats), CEP_EINVAL);
    close_now(profiler);
}

TEST(a_span_unfinished_at_close_gets_an_open_row) {
    OPEN_AT_STEP(9, "backward");
    cep_begin(region, CEP_HOST);
    record_spans(profiler, "forward", 1);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, "open"), 1);
    CHECK_TEXT(row_text(rows_nth(&all, "open", 0), "name"), "backward");
    CHECK_EQ(row_int(rows_nth(&all, "open", 0), "step"), 9);
    CHECK_EQ(rows_spans_named(&all, "backward"), 0);
    (void)accounted_stats_of(profiler);
}

TEST(flush_and_close_refuse_a_negative_timeout) {
    cep_profiler* profiler = open_here();
    CHECK_EQ(cep_flush(profiler, -1), CEP_EINVAL);
    CHECK_EQ(cep_close(profiler, -1), CEP_EINVAL);
    record_step(profiler, 0, "forward");
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_spans_named(&all, "forward"), 1);
}

static cep_profiler* open_in_layout(int32_t layout) {
    cep_options options = host_options();
    options.layout = layout;
    return open_with(&options);
}

TEST(the_flat_layout_has_four_keys_and_no_other_rows) {
    cep_profiler* profiler = open_in_layout(CEP_LAYOUT_FLAT);
    record_step(profiler, 6, "forward");
    CHECK_EQ(cep_counter(profiler, "loss", 1), CEP_OK);
    CHECK_EQ(cep_mark(profiler, "checkpoint", NULL), CEP_OK);
    cep_begin(cep_region_get(profiler, "backward", CEP_KIND_AUTO), CEP_HOST);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(all.count, 1);
    const row* span = &all.items[0];
    CHECK_EQ(cJSON_GetArraySize(span->json), 4);
    CHECK_TEXT(row_text(span, "name"), "forward");
    CHECK_EQ(row_int(span, "step"), 6);
    CHECK_EQ(row_int(span, "rank"), 0);
    CHECK(row_number(span, "duration_ms") >= 0);
}

TEST(the_flat_layout_repeats_the_metadata_of_the_run_in_each_row) {
    cep_profiler* profiler = open_in_layout(CEP_LAYOUT_FLAT);
    CHECK_EQ(cep_set_meta(profiler, "{\"model\":\"m\",\"step\":99}"), CEP_OK);
    record_step(profiler, 6, "forward");
    const rows all = rows_after_close(profiler);
    CHECK_EQ(all.count, 1);
    CHECK_TEXT(row_text(&all.items[0], "model"), "m");
    CHECK_EQ(row_int(&all.items[0], "step"), 6);
}

TEST(the_flat_layout_puts_metadata_at_top_level_without_overriding_a_core_key) {
    cep_profiler* profiler = open_in_layout(CEP_LAYOUT_FLAT);
    cep_region* region = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    const cep_attrs attrs = {.struct_size = sizeof attrs,
                             .coll = -1,
                             .meta =
                                 "{\"name\":\"forged\",\"layer\":3,\"step\":-1,\"st\\u0065p\":-2,\"rank\":9,"
                                 "\"duration_ms\":0,\"nested\":{\"rank\":5}}"};
    CHECK_EQ(cep_step(profiler, 6), CEP_OK);
    cep_end(region, cep_begin_with(region, CEP_HOST, &attrs), CEP_HOST);
    const rows all = rows_after_close(profiler);
    const row* span = &all.items[0];
    CHECK_EQ(cJSON_GetArraySize(span->json), 6);
    CHECK_TEXT(row_text(span, "name"), "forward");
    CHECK_EQ(row_int(span, "step"), 6);
    CHECK_EQ(row_at(span, "rank")->valueint, 0);
    CHECK_EQ(row_at(span, "layer")->valueint, 3);
    CHECK_EQ(row_at(span, "nested/rank")->valueint, 5);
    CHECK(!row_has(span, "meta"));
}

TEST(the_spans_layout_has_all_keys_of_a_span_and_no_other_rows) {
    cep_profiler* profiler = open_in_layout(CEP_LAYOUT_SPANS);
    cep_region* region = cep_region_get(profiler, "all_reduce", CEP_KIND_AUTO);
    const cep_attrs attrs = {
        .struct_size = sizeof attrs, .bytes = 64, .group = "dp", .coll = 3, .meta = "{\"micro_step\":2}"};
    CHECK_EQ(cep_step(profiler, 6), CEP_OK);
    cep_end(region, cep_begin_with(region, CEP_HOST, &attrs), CEP_HOST);
    CHECK_EQ(cep_counter(profiler, "loss", 1), CEP_OK);
    CHECK_EQ(cep_mark(profiler, "checkpoint", NULL), CEP_OK);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(all.count, 1);
    const row* span = &all.items[0];
    CHECK_TEXT(row_text(span, "name"), "all_reduce");
    CHECK_EQ(row_int(span, "step"), 6);
    CHECK(row_int(span, "start_ns") > 0);
    CHECK(row_number(span, "host_ms") >= 0);
    CHECK_TEXT(row_text(span, "kind"), "comm");
    CHECK_TEXT(row_text(span, "clock"), "host");
    CHECK_EQ(row_int(span, "depth"), 0);
    CHECK_EQ(row_int(span, "coll"), 3);
    CHECK_EQ(row_int(span, "bytes"), 64);
    CHECK_EQ(row_int(span, "micro_step"), 2);
    CHECK(!row_has(span, "meta"));
}

TEST(the_spans_layout_leaves_keys_of_metadata_as_they_are_given) {
    cep_profiler* profiler = open_in_layout(CEP_LAYOUT_SPANS);
    cep_region* region = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    const cep_attrs attrs = {
        .struct_size = sizeof attrs, .coll = -1, .meta = "{\"depth\":7,\"kind\":\"mine\",\"step\":-1}"};
    CHECK_EQ(cep_step(profiler, 6), CEP_OK);
    cep_end(region, cep_begin_with(region, CEP_HOST, &attrs), CEP_HOST);
    const rows all = rows_after_close(profiler);
    const row* span = &all.items[0];
    CHECK_EQ(row_int(span, "step"), 6);
    CHECK_EQ(row_int(span, "depth"), 7);
    CHECK_TEXT(row_text(span, "kind"), "mine");
    CHECK(row_int(span, "start_ns") > 0);
}

TEST(the_trainers_time_is_estimated_from_some_of_its_recorded_calls) {
    cep_profiler* profiler = open_every(2);
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
    record_spans(profiler, "forward", 30);
    CHECK_EQ(stats_of(profiler).trainer_ns, 0);  // 60 calls
    record_spans(profiler, "forward", 1000);
    const uint64_t after_2060_calls = stats_of(profiler).trainer_ns;
    CHECK(after_2060_calls > 0);
    CHECK_EQ(cep_step(profiler, 1), CEP_OK);
    record_spans(profiler, "forward", 1000);
    CHECK_EQ(stats_of(profiler).trainer_ns, after_2060_calls);  // that step is not recorded
    close_now(profiler);
    CHECK_EQ(stats_of(profiler).trainer_ns, after_2060_calls);
    const rows all = rows_read(RANK_FILE);
    const double row_ms = row_number(rows_nth(&all, "stats", rows_count(&all, "stats") - 1), "trainer_ms");
    CHECK_EQ(llround(row_ms * 1e6), (long long)after_2060_calls);
}

static void* record_elsewhere(void* profiler) {
    record_spans(profiler, "forward", 100);
    return NULL;
}

TEST(the_trainers_time_is_that_of_all_its_threads) {
    cep_profiler* profiler = open_at_step(0);
    record_spans(profiler, "forward", 100);
    const uint64_t of_one = stats_of(profiler).trainer_ns;
    check_on_a_thread(record_elsewhere, profiler);
    CHECK(stats_of(profiler).trainer_ns > of_one);
    close_now(profiler);
}
