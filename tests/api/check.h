// SPDX-License-Identifier: Apache-2.0
//
// A test runner for C programs. Each TEST runs in its own process and an empty working directory, so that the
// environment, threads, exit handlers and files of one test cannot affect another. It prints results as TAP.
#ifndef CEP_TESTS_API_CHECK_H
#define CEP_TESTS_API_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CHECK_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CHECK_SANITIZED 1
#endif
#endif
#ifndef CHECK_SANITIZED
#define CHECK_SANITIZED 0
#endif

typedef void (*check_body)(void);

void check_register(const char* name, check_body body);
__attribute__((noreturn, format(printf, 3, 4))) void check_fail(const char* file, int line, const char* format, ...);
__attribute__((noreturn)) void check_skip(const char* reason);
// The stream for failure reports from now on. For tests that close or capture standard error.
void check_report_to(int descriptor);

// Runs body in a forked process that leaves through exit(0), and returns its wait status.
int check_in_child(check_body body);
// Runs body in a forked process and fails the test unless it exits with status 0.
void check_child_passes(const char* file, int line, check_body body);
// Runs body in a thread, and returns what it returns.
void* check_on_a_thread(void* (*body)(void*), void* argument);

void check_equal_int(const char* file, int line, const char* what, long long actual, long long expected);
void check_equal_text(const char* file, int line, const char* what, const char* actual, const char* expected);
void check_contains(const char* file, int line, const char* what, const char* text, const char* part);

#define TEST(name)                                                   \
    static void name(void);                                          \
    __attribute__((constructor)) static void register_##name(void) { \
        check_register(#name, name);                                 \
    }                                                                \
    static void name(void)

// A test that is one call.
#define TEST_THAT(name, ...) \
    TEST(name) {             \
        __VA_ARGS__;         \
    }

// A test that begins with a call of a function.
#define TEST_AFTER(before, name)               \
    static void name##_itself(void);           \
    TEST_THAT(name, before(); name##_itself()) \
    static void name##_itself(void)

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) check_fail(__FILE__, __LINE__, "not true: %s", #condition); \
    } while (0)
#define CHECK_EQ(actual, expected) \
    check_equal_int(__FILE__, __LINE__, #actual, (long long)(actual), (long long)(expected))
#define CHECK_TEXT(actual, expected) check_equal_text(__FILE__, __LINE__, #actual, (actual), (expected))
#define CHECK_CONTAINS(text, part) check_contains(__FILE__, __LINE__, #text, (text), (part))
#define CHECK_CHILD_PASSES(body) check_child_passes(__FILE__, __LINE__, (body))

#endif
