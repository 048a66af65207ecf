// SPDX-License-Identifier: Apache-2.0
//
// Directories and files that cannot be made, permissions, and the file after a start.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "faulty_io.h"
#include "scene.h"

static void check_fails(const cep_options* options, const char* part, const char* other_part) {
    cep_profiler* profiler = (cep_profiler*)(intptr_t)1;
    CHECK_EQ(cep_open(options, &profiler), CEP_EIO);
    CHECK(profiler == NULL);
    CHECK_CONTAINS(cep_last_error(), part);
    CHECK_CONTAINS(cep_last_error(), other_part);
    CHECK_EQ(rank_file_descriptor(), -1);
    record_spans(profiler, "forward", 10);
    CHECK_EQ(cep_step(profiler, 2), CEP_OK);
}

// The next open, without the fault, works.
static void check_open_fails_with(int error) {
    const cep_options options = quiet_options();
    io_fail_opens(error, IO_FOR_EVER);
    check_fails(&options, RANK_FILE, strerror(error));
    io_fail_opens(0, 0);
    cep_profiler* profiler = start();
    record_numbers(profiler, 1, 10);
    close_and_check(profiler);
}

TEST_THAT(a_file_without_permission_is_an_error_that_names_it, check_open_fails_with(EACCES))
TEST_THAT(a_read_only_file_system_is_an_error_that_names_the_file, check_open_fails_with(EROFS))
TEST_THAT(a_quota_that_is_used_up_at_the_start_is_an_error_that_names_the_file, check_open_fails_with(EDQUOT))
TEST_THAT(too_many_open_files_are_an_error_that_names_the_file, check_open_fails_with(EMFILE))

static void check_directory_fails_with(int error) {
    const cep_options options = quiet_options();
    io_fail_directories(error);
    check_fails(&options, "out", strerror(error));
    CHECK(!path_exists("out"));
    io_fail_directories(0);
    close_now(start());
}

TEST_THAT(a_directory_that_cannot_be_made_is_an_error_that_names_it, check_directory_fails_with(EACCES))
TEST_THAT(a_directory_on_a_read_only_file_system_is_an_error_that_names_it, check_directory_fails_with(EROFS))

TEST(a_file_in_place_of_the_directory_is_an_error_that_names_it) {
    write_text("out", "kept\n");
    const cep_options options = quiet_options();
    check_fails(&options, "out", "");
    check_text_is("out", "kept\n");
}

TEST(missing_parents_of_the_directory_are_made) {
    PROFILER_WITH(start_with, quiet_options, directory = "a/b/../b//c/");
    record_numbers(profiler, 1, 10);
    close_now(profiler);
    check_has_numbers("a/b/c/cuda_events_rank_0.jsonl", 1, 10);
}

static void check_too_long(size_t part_bytes, size_t parts, const char* reason) {
    char* path = calloc(parts * (part_bytes + 1) + 1, 1);
    CHECK(path != NULL);
    for (size_t part = 0; part < parts; ++part) {
        memset(path + strlen(path), 'd', part_bytes);
        strcat(path, "/");
    }
    cep_options options = quiet_options();
    options.directory = path;
    check_fails(&options, "ddd", reason);
    free(path);
}

TEST_THAT(a_directory_with_a_name_too_long_is_an_error_that_names_it, check_too_long(300, 1, strerror(ENAMETOOLONG)))
TEST_THAT(a_path_too_long_is_an_error_that_names_it, check_too_long(200, 30, ""))
TEST_THAT(a_path_of_a_megabyte_is_an_error, check_too_long(1 << 20, 1, ""))

// The path of the directory is short enough, that of the file is not. The directories are too deep for nftw(3).
static void open_with_a_path_too_long_for_the_file(void) {
    check_too_long(203, 20, "");
}

TEST(a_path_too_long_for_the_file_is_an_error) {
    const int status = check_in_child(open_with_a_path_too_long_for_the_file);
    CHECK_EQ(system("rm -rf d*"), 0);
    CHECK_EQ(status, 0);
}

// ---- The file after a start

static mode_t mode_under(mode_t mask) {
    (void)umask(mask);
    close_now(start());
    struct stat status;
    CHECK_EQ(stat(RANK_FILE, &status), 0);
    return status.st_mode & 07777;
}

TEST_THAT(the_file_has_the_permissions_of_the_usual_umask, CHECK_EQ(mode_under(0022), 0644))
TEST_THAT(the_file_is_private_if_the_umask_says_so, CHECK_EQ(mode_under(0077), 0600))
TEST_THAT(the_file_is_shared_if_the_umask_says_so, CHECK_EQ(mode_under(0002), 0664))

static void check_directory_modes_under(mode_t mask, mode_t mode) {
    (void)umask(mask);
    cep_options options = quiet_options();
    options.directory = "a/b";
    close_now(start_with(&options));
    struct stat status;
    CHECK_EQ(stat("a", &status), 0);
    CHECK_EQ(status.st_mode & 07777, mode);
    CHECK_EQ(stat("a/b", &status), 0);
    CHECK_EQ(status.st_mode & 07777, mode);
}

TEST_THAT(the_directories_have_the_rights_that_the_usual_umask_leaves, check_directory_modes_under(0022, 0755))
TEST_THAT(the_directories_are_private_where_the_umask_says_so, check_directory_modes_under(0077, 0700))
TEST_THAT(the_directories_may_be_shared_where_the_umask_says_so, check_directory_modes_under(0002, 0775))

TEST(a_directory_and_a_file_that_are_there_keep_their_rights) {
    (void)umask(0022);
    make_directory();
    CHECK_EQ(chmod("out", 0701), 0);
    write_text(RANK_FILE, "");
    CHECK_EQ(chmod(RANK_FILE, 0604), 0);
    close_now(start());
    struct stat status;
    CHECK_EQ(stat("out", &status), 0);
    CHECK_EQ(status.st_mode & 07777, 0701);
    CHECK_EQ(stat(RANK_FILE, &status), 0);
    CHECK_EQ(status.st_mode & 07777, 0604);
}

TEST(the_umask_of_the_trainer_does_not_change) {
    (void)umask(0027);
    close_now(start());
    CHECK_EQ(umask(0), 0027);
}

static void open_and_vanish(void) {
    (void)open_here();
    _exit(0);
}

TEST(a_process_that_is_killed_right_after_open_has_written_its_run_row) {
    CHECK_CHILD_PASSES(open_and_vanish);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(all.count, 1);
    CHECK(row_is(first_row(&all), "run"));
    CHECK_EQ(row_int(first_row(&all), "attempt"), 1);
}

TEST(the_run_row_is_written_once_if_nothing_changes) {
    CHECK_CHILD_PASSES(open_and_vanish);
    cep_profiler* profiler = start_and_write(10);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, "run"), 2);
    CHECK_EQ(row_int(rows_last(&all, "run"), "attempt"), 2);
}

TEST(later_facts_repeat_the_run_row_with_the_same_attempt) {
    cep_profiler* profiler = start();
    CHECK_EQ(cep_set_meta(profiler, "{\"dp\":3}"), CEP_OK);
    record_and_flush(profiler, 1, 10);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, "run"), 2);
    CHECK(!row_has(rows_nth(&all, "run", 0), "dp"));
    CHECK_EQ(row_int(rows_nth(&all, "run", 1), "dp"), 3);
    CHECK_EQ(row_int(rows_nth(&all, "run", 1), "attempt"), 1);
}

TEST(the_flat_layout_has_an_empty_file_after_open) {
    PROFILER_WITH(start_with, quiet_options, layout = CEP_LAYOUT_FLAT);
    CHECK_EQ(file_size(RANK_FILE), 0);
    close_now(profiler);
    CHECK_EQ(file_size(RANK_FILE), 0);
}
