// SPDX-License-Identifier: Apache-2.0
//
// One file, one profiler: a second one on the same file, in any process, is off.
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faulty_io.h"
#include "scene.h"

static const char off_message[] = "another profiler is writing this file; this one is off";

static void check_is_off(cep_profiler* profiler) {
    CHECK_EQ(cep_step(profiler, 1), CEP_OK);
    CHECK_EQ(cep_recording(profiler), 0);
    record_spans(profiler, "second", 10);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    CHECK_EQ(stats_of(profiler).recorded, 0);
    CHECK_EQ(count_messages(RANK_FILE, off_message), 1);
    CHECK_EQ(count_messages("cep: rank 0: ", off_message), 1);
    close_now(profiler);
}

static void check_one_run(cep_profiler* profiler, int64_t count) {
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, "run"), 1);
    CHECK_EQ(rows_spans_named(&all, "second"), 0);
    check_has_numbers(RANK_FILE, 1, count);
    check_exactly_once(profiler, RANK_FILE);
    CHECK_EQ(count_all_messages(), 1);
}

TEST(the_second_profiler_of_a_process_on_one_file_is_off) {
    cep_profiler* profiler = start_with_messages(0);
    record_numbers(profiler, 1, 100);
    check_is_off(open_here());
    record_numbers(profiler, 101, 100);
    check_one_run(profiler, 200);
}

TEST(the_same_file_under_another_path_is_the_same_file) {
    cep_profiler* profiler = start_with_messages(0);
    CHECK_EQ(symlink("out", "alias"), 0);
    cep_options options = quiet_options();
    options.directory = "alias";
    cep_profiler* second = open_with(&options);
    CHECK_EQ(cep_step(second, 1), CEP_OK);
    CHECK_EQ(cep_recording(second), 0);
    close_now(second);
    record_numbers(profiler, 1, 100);
    check_one_run(profiler, 100);
}

TEST(a_file_is_free_again_once_its_profiler_is_closed) {
    cep_profiler* first = start_with_messages(0);
    check_is_off(open_here());
    close_now(first);
    cep_profiler* third = start();
    CHECK_EQ(cep_recording(third), 1);
    record_numbers(third, 1, 10);
    close_now(third);
    check_exactly_once(third, RANK_FILE);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(row_int(rows_last(&all, "run"), "attempt"), 2);
}

TEST(a_close_of_the_second_profiler_does_not_free_the_file) {
    cep_profiler* first = start_with_messages(0);
    close_now(open_here());
    cep_profiler* third = open_at_step(1);
    CHECK_EQ(cep_recording(third), 0);
    close_now(third);
    close_now(first);
}

// ---- Two processes

// A message from one process to another, and one end of a pipe for it.
typedef struct messenger {
    int read_end, write_end;
} messenger;

static messenger make_messenger(void) {
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    return (messenger){ends[0], ends[1]};
}

static void tell(messenger to, pid_t pid) {
    CHECK_EQ(write(to.write_end, &pid, sizeof pid), sizeof pid);
}

static pid_t hear(messenger from) {
    pid_t pid = 0;
    CHECK_EQ(read(from.read_end, &pid, sizeof pid), sizeof pid);
    return pid;
}

static messenger opened;
enum { worker_life_s = 60 };

static void open_in_a_second_process(void) {
    check_is_off(open_here());
}

TEST(the_second_process_on_one_file_is_off) {
    keep_messages();
    opened = make_messenger();
    const pid_t first = fork();
    if (first == 0) {
        (void)start_and_write(100);
        tell(opened, getpid());
        pause();
    }
    (void)hear(opened);
    CHECK_CHILD_PASSES(open_in_a_second_process);
    CHECK_EQ(kill(first, SIGKILL), 0);
    CHECK_EQ(waitpid(first, NULL, 0), first);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_count(&all, "run"), 1);
    check_has_numbers(RANK_FILE, 1, 100);
    CHECK_EQ(rows_spans_named(&all, "second"), 0);
}

// A data loader's worker: it inherits its parent's descriptors and outlives the parent.
static void leave_a_worker(bool orphaned) {
    const pid_t worker = fork();
    if (worker == 0) {
        if (orphaned && fork() != 0) _exit(0);
        alarm(worker_life_s);  // in case the test fails and does not end it
        tell(opened, getpid());
        pause();
    }
    if (orphaned) CHECK_EQ(waitpid(worker, NULL, 0), worker);
}

static void check_file_is_free_after_a_kill(bool orphaned) {
    keep_messages();
    opened = make_messenger();
    const pid_t parent = fork();
    if (parent == 0) {
        (void)start_and_write(100);
        leave_a_worker(orphaned);
        pause();
    }
    const pid_t worker = hear(opened);
    CHECK_EQ(kill(parent, SIGKILL), 0);
    CHECK_EQ(waitpid(parent, NULL, 0), parent);
    cep_profiler* profiler = start();
    const int32_t is_recording = cep_recording(profiler);
    record_numbers(profiler, 101, 100);
    close_now(profiler);
    CHECK_EQ(kill(worker, SIGKILL), 0);
    CHECK_EQ(is_recording, 1);
    CHECK_EQ(count_all_messages(), 0);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(row_int(rows_last(&all, "run"), "attempt"), 2);
    check_has_numbers(RANK_FILE, 1, 200);
}

TEST_THAT(a_forked_child_does_not_keep_the_file_of_a_killed_parent, check_file_is_free_after_a_kill(false))
TEST_THAT(an_orphaned_grandchild_does_not_keep_the_file_of_a_killed_process, check_file_is_free_after_a_kill(true))

static void do_nothing(void) {}

TEST(a_forked_child_that_exits_does_not_free_the_parents_file) {
    cep_profiler* profiler = start_with_messages(100);
    CHECK_CHILD_PASSES(do_nothing);
    check_is_off(open_here());
    record_numbers(profiler, 101, 100);
    check_one_run(profiler, 200);
}

static cep_profiler* inherited;

static void close_the_inherited_profiler(void) {
    close_now(inherited);
}

TEST(a_forked_child_that_closes_does_not_free_the_parents_file) {
    inherited = start_with_messages(100);
    CHECK_CHILD_PASSES(close_the_inherited_profiler);
    check_is_off(open_here());
    record_numbers(inherited, 101, 100);
    check_one_run(inherited, 200);
}

TEST(a_second_profiler_is_off_though_its_lock_is_interrupted) {
    cep_profiler* profiler = start_with_messages(100);
    io_interrupt_locks(3);
    check_is_off(open_here());
    record_numbers(profiler, 101, 100);
    check_one_run(profiler, 200);
}

// ---- File systems without locks

static void run_without_locks(int error) {
    keep_messages();
    io_fail_locks(error);
    cep_profiler* profiler = start();
    CHECK(io_locks_tried() > 0);
    CHECK_EQ(cep_recording(profiler), 1);
    record_and_flush(profiler, 1, 100);
    close_now(profiler);
    check_has_numbers(RANK_FILE, 1, 100);
    check_exactly_once(profiler, RANK_FILE);
    CHECK_EQ(count_all_messages(), 0);
}

TEST_THAT(a_file_system_that_has_run_out_of_locks_works, run_without_locks(ENOLCK))
TEST_THAT(a_file_system_that_does_not_support_locks_works, run_without_locks(EOPNOTSUPP))
TEST_THAT(a_kernel_without_locks_works, run_without_locks(ENOSYS))
TEST_THAT(a_file_system_without_locks_works, run_without_locks(EINVAL))
