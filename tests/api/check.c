// SPDX-License-Identifier: Apache-2.0
#include "check.h"

#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { max_tests = 256, skipped_status = 77, failed_status = 1, limit_s = 600 };

static struct {
    const char* name;
    check_body body;
} tests[max_tests];
static int tests_count;
static int report_descriptor = STDERR_FILENO;

void check_register(const char* name, check_body body) {
    if (tests_count == max_tests) abort();
    tests[tests_count].name = name;
    tests[tests_count].body = body;
    ++tests_count;
}

void check_fail(const char* file, int line, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    dprintf(report_descriptor, "%s:%d: ", file, line);
    vdprintf(report_descriptor, format, arguments);
    dprintf(report_descriptor, "\n");
    va_end(arguments);
    _exit(failed_status);
}

void check_skip(const char* reason) {
    dprintf(report_descriptor, "skipped: %s\n", reason);
    _exit(skipped_status);
}

void check_report_to(int descriptor) {
    report_descriptor = descriptor;
}

void check_equal_int(const char* file, int line, const char* what, long long actual, long long expected) {
    if (actual != expected) check_fail(file, line, "%s is %lld, expected %lld", what, actual, expected);
}

void check_equal_text(const char* file, int line, const char* what, const char* actual, const char* expected) {
    if (actual == NULL || strcmp(actual, expected) != 0)
        check_fail(file, line, "%s is \"%s\", expected \"%s\"", what, actual == NULL ? "(null)" : actual, expected);
}

void check_contains(const char* file, int line, const char* what, const char* text, const char* part) {
    if (text == NULL || strstr(text, part) == NULL)
        check_fail(file, line, "%s is \"%s\", which lacks \"%s\"", what, text == NULL ? "(null)" : text, part);
}

static int wait_for(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) abort();
    return status;
}

int check_in_child(check_body body) {
    fflush(NULL);
    const pid_t pid = fork();
    if (pid < 0) check_fail(__FILE__, __LINE__, "fork: %s", strerror(errno));
    if (pid == 0) {
        body();
        exit(0);
    }
    return wait_for(pid);
}

void check_child_passes(const char* file, int line, check_body body) {
    const int status = check_in_child(body);
    if (WIFSIGNALED(status)) check_fail(file, line, "the child was killed by signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) != 0) check_fail(file, line, "the child exited with %d", WEXITSTATUS(status));
}

void* check_on_a_thread(void* (*body)(void*), void* argument) {
    pthread_t thread;
    void* returned = NULL;
    CHECK_EQ(pthread_create(&thread, NULL, body, argument), 0);
    CHECK_EQ(pthread_join(thread, &returned), 0);
    return returned;
}

static int remove_entry(const char* path, const struct stat* status, int type, struct FTW* position) {
    (void)status;
    (void)type;
    (void)position;
    (void)chmod(path, S_IRWXU);
    return remove(path);
}

static void remove_tree(const char* path) {
    if (nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0) fprintf(stderr, "%s is left behind\n", path);
}

// Variables that a launcher or a user may have set, and that no test expects.
static void clean_environment(void) {
    extern char** environ;
    static const char* const prefixes[] = {"CEP_", "SLURM_", "OMPI_", "PMI_", "TORCHELASTIC_", "MPI_"};
    static const char* const names[] = {"RANK", "WORLD_SIZE", "LOCAL_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) unsetenv(names[i]);
    for (char** entry = environ; *entry != NULL;) {
        bool removed = false;
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes && !removed; ++i) {
            if (strncmp(*entry, prefixes[i], strlen(prefixes[i])) != 0) continue;
            char name[256];
            snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
            removed = unsetenv(name) == 0;
        }
        if (!removed) ++entry;
    }
}

static void run_body(check_body body, const char* directory) {
    alarm(limit_s);
    clean_environment();
    if (chdir(directory) != 0) check_fail(__FILE__, __LINE__, "chdir %s: %s", directory, strerror(errno));
    body();
    exit(0);
}

static bool run_test(int number) {
    const char* parent = getenv("TMPDIR");
    char directory[4096];
    snprintf(directory, sizeof directory, "%s/cep-test-XXXXXX", parent == NULL ? "/tmp" : parent);
    if (mkdtemp(directory) == NULL) {
        printf("Bail out! %s: %s\n", directory, strerror(errno));
        exit(failed_status);
    }
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) run_body(tests[number].body, directory);
    const int status = wait_for(pid);
    remove_tree(directory);
    const bool skipped = WIFEXITED(status) && WEXITSTATUS(status) == skipped_status;
    const bool passed = skipped || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
    if (WIFSIGNALED(status)) fprintf(stderr, "%s: killed by signal %d\n", tests[number].name, WTERMSIG(status));
    if (!passed) fprintf(stderr, "FAILED %s\n", tests[number].name);
    printf("%s %d - %s%s\n", passed ? "ok" : "not ok", number + 1, tests[number].name, skipped ? " # SKIP" : "");
    return passed;
}

// Runs the tests that the arguments name, or all tests.
int main(int argc, char** argv) {
    int failed = 0;
    printf("1..%d\n", tests_count);
    for (int i = 0; i < tests_count; ++i) {
        bool wanted = argc == 1;
        for (int a = 1; a < argc; ++a) wanted |= strcmp(argv[a], tests[i].name) == 0;
        if (wanted) failed += !run_test(i);
    }
    return failed == 0 ? 0 : failed_status;
}
