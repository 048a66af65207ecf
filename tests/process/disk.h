// SPDX-License-Identifier: Apache-2.0
//
// Replaces write(2) in a program that links it: a disk that stalls or fails on command. It affects only writes to rank
// files.
#ifndef CEP_TESTS_PROCESS_DISK_H
#define CEP_TESTS_PROCESS_DISK_H

// Writes wait from now on until disk_release().
void disk_stall(void);
void disk_release(void);
// The number of threads that wait in a write now.
int disk_waiting(void);
// Returns once a write waits. The test fails if that does not happen.
void disk_wait_until_stalled(void);
// Writes fail with this errno from now on; 0: they succeed.
void disk_refuse(int error);

#endif
