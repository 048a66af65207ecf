// SPDX-License-Identifier: Apache-2.0
//
// The rank file's path is not a regular file of this job. The library refuses it and writes nothing through it.
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "scene.h"

static void check_open_is_refused(const char* reason) {
    const cep_options options = quiet_options();
    cep_profiler* profiler = (cep_profiler*)(intptr_t)1;
    CHECK_EQ(cep_open(&options, &profiler), CEP_EIO);
    CHECK(profiler == NULL);
    CHECK_CONTAINS(cep_last_error(), RANK_FILE);
    CHECK_CONTAINS(cep_last_error(), reason);
    CHECK_EQ(rank_file_descriptor(), -1);
}

TEST_AFTER(make_directory, a_symbolic_link_is_refused) {
    write_text("theirs", "kept\n");
    CHECK_EQ(symlink("../theirs", RANK_FILE), 0);
    check_open_is_refused("symbolic link");
    check_text_is("theirs", "kept\n");
}

TEST_AFTER(make_directory, a_symbolic_link_to_nothing_is_refused_and_makes_nothing) {
    CHECK_EQ(symlink("../theirs", RANK_FILE), 0);
    check_open_is_refused("symbolic link");
    CHECK(!path_exists("theirs"));
}

TEST(a_directory_that_is_a_symbolic_link_is_followed) {
    CHECK_EQ(mkdir("elsewhere", S_IRWXU), 0);
    CHECK_EQ(symlink("elsewhere", "out"), 0);
    cep_profiler* profiler = start();
    record_numbers(profiler, 1, 10);
    close_now(profiler);
    check_has_numbers("elsewhere/cuda_events_rank_0.jsonl", 1, 10);
}

TEST_AFTER(make_directory, a_file_with_a_second_link_is_refused) {
    write_text("theirs", "kept\n");
    CHECK_EQ(link("theirs", RANK_FILE), 0);
    check_open_is_refused("link");
    check_text_is("theirs", "kept\n");
}

TEST_AFTER(make_directory, a_fifo_without_a_reader_is_refused_at_once) {
    CHECK_EQ(mkfifo(RANK_FILE, 0600), 0);
    check_open_is_refused("FIFO");
}

static void check_fifo_is_empty(int reader) {
    char byte = 0;
    CHECK(read(reader, &byte, 1) <= 0);
}

TEST_AFTER(make_directory, a_fifo_with_a_reader_is_refused_and_gets_nothing) {
    CHECK_EQ(mkfifo("fifo", 0600), 0);
    const int reader = open("fifo", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    CHECK(reader >= 0);
    CHECK_EQ(rename("fifo", RANK_FILE), 0);
    const cep_options options = quiet_options();
    cep_profiler* profiler = NULL;
    CHECK_EQ(cep_open(&options, &profiler), CEP_EIO);
    CHECK_CONTAINS(cep_last_error(), RANK_FILE);
    CHECK_CONTAINS(cep_last_error(), "FIFO");
    check_fifo_is_empty(reader);
}

TEST_AFTER(make_directory, a_directory_is_refused) {
    CHECK_EQ(mkdir(RANK_FILE, S_IRWXU), 0);
    check_open_is_refused("");
}

TEST_AFTER(make_directory, a_device_is_refused) {
    const dev_t null_device = makedev(1, 3);
    if (mknod(RANK_FILE, S_IFCHR | 0600, null_device) != 0) check_skip("no right to make a device node");
    check_open_is_refused("not a regular file");
}

TEST_AFTER(make_directory, a_socket_is_refused) {
    const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = RANK_FILE};
    if (descriptor < 0 || bind(descriptor, (struct sockaddr*)&address, sizeof address) != 0) check_skip("no sockets");
    check_open_is_refused("");
}

// ---- Put there while the profiler runs

static cep_profiler* start_and_remove_the_file(void) {
    cep_profiler* profiler = start_with_messages(100);
    CHECK_EQ(unlink(RANK_FILE), 0);
    return profiler;
}

static void record_and_close(cep_profiler* profiler) {
    record_numbers(profiler, 101, 100);
    const int32_t code = cep_close(profiler, 500);
    CHECK(code == CEP_OK || code == CEP_EIO);
    CHECK_EQ(stats_of(profiler).pending, 0);
    (void)accounted_stats_of(profiler);
    CHECK(count_messages(RANK_FILE, "") >= 1);
}

TEST(a_symbolic_link_in_place_of_a_removed_file_is_not_followed) {
    cep_profiler* profiler = start_and_remove_the_file();
    write_text("theirs", "kept\n");
    CHECK_EQ(symlink("../theirs", RANK_FILE), 0);
    record_and_close(profiler);
    check_text_is("theirs", "kept\n");
}

TEST(a_symbolic_link_to_nothing_in_place_of_a_removed_file_makes_nothing) {
    cep_profiler* profiler = start_and_remove_the_file();
    CHECK_EQ(symlink("../theirs", RANK_FILE), 0);
    record_and_close(profiler);
    CHECK(!path_exists("theirs"));
}

TEST(a_file_with_a_second_link_in_place_of_a_removed_file_does_not_change) {
    cep_profiler* profiler = start_and_remove_the_file();
    write_text("theirs", "kept\n");
    CHECK_EQ(link("theirs", RANK_FILE), 0);
    record_and_close(profiler);
    check_text_is("theirs", "kept\n");
}

TEST(a_fifo_in_place_of_a_removed_file_gets_nothing_and_blocks_no_thread) {
    cep_profiler* profiler = start_and_remove_the_file();
    CHECK_EQ(mkfifo(RANK_FILE, 0600), 0);
    record_and_close(profiler);
    CHECK(path_exists(RANK_FILE));
}

TEST(a_fifo_with_a_reader_in_place_of_a_removed_file_gets_nothing) {
    cep_profiler* profiler = start_and_remove_the_file();
    CHECK_EQ(mkfifo("fifo", 0600), 0);
    const int reader = open("fifo", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    CHECK(reader >= 0);
    CHECK_EQ(rename("fifo", RANK_FILE), 0);
    record_and_close(profiler);
    check_fifo_is_empty(reader);
}

TEST(a_directory_in_place_of_a_removed_file_causes_no_crash) {
    cep_profiler* profiler = start_and_remove_the_file();
    CHECK_EQ(mkdir(RANK_FILE, S_IRWXU), 0);
    record_and_close(profiler);
}
