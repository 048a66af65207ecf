// SPDX-License-Identifier: Apache-2.0
//
// A program that has used all pthread keys.
#include <limits.h>
#include <pthread.h>

#include "every_call.h"

static pthread_key_t keys[PTHREAD_KEYS_MAX];
static int keys_count;
static int destroyed;

static void count_destruction(void* value) {
    (void)value;
    ++destroyed;
}

static void take_every_key(void) {
    while (keys_count < PTHREAD_KEYS_MAX && pthread_key_create(&keys[keys_count], count_destruction) == 0) {
        CHECK_EQ(pthread_setspecific(keys[keys_count], &keys[keys_count]), 0);
        ++keys_count;
    }
    pthread_key_t one_more;
    CHECK(pthread_key_create(&one_more, NULL) != 0);
}

static void check_keys_are_untouched(void) {
    for (int i = 0; i < keys_count; ++i) CHECK(pthread_getspecific(keys[i]) == &keys[i]);
}

static void* record_on_another_thread(void* profiler) {
    record_spans(profiler, "forward", 10);
    for (int i = 0; i < keys_count; ++i)
        if (pthread_getspecific(keys[i]) != NULL) return profiler;
    return NULL;
}

TEST(open_without_a_free_thread_key_fails_cleanly_or_works) {
    if (CHECK_SANITIZED) check_skip("the sanitizer takes the memory of the keys for lost");
    take_every_key();
    const cep_options options = host_options();
    cep_profiler* profiler = (cep_profiler*)(intptr_t)1;
    const int32_t code = cep_open(&options, &profiler);
    if (code != CEP_OK) {
        CHECK_EQ(code, CEP_ELIMIT);
        CHECK(profiler == NULL);
        CHECK(cep_last_error()[0] != '\0');
        check_keys_are_untouched();
        return;
    }
    call_hot_functions(profiler, cep_region_get(profiler, "forward", CEP_KIND_AUTO), 0);
    check_keys_are_untouched();
    void* overwritten = check_on_a_thread(record_on_another_thread, profiler);
    CHECK(overwritten == NULL);
    CHECK_EQ(destroyed, 0);
    close_now(profiler);
    check_keys_are_untouched();
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_count(&all, SPAN), stats_of(profiler).written - 2);  // the others are a counter and a mark
}

TEST(a_profiler_can_be_opened_once_a_thread_key_is_free_again) {
    take_every_key();
    const cep_options options = host_options();
    cep_profiler* profiler = NULL;
    if (cep_open(&options, &profiler) == CEP_OK) check_skip("needs no thread key");
    CHECK_EQ(pthread_key_delete(keys[--keys_count]), 0);
    profiler = open_here();
    record_step(profiler, 0, "forward");
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, SPAN), 1);
}
