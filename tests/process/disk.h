// SPDX-License-Identifier: Apache-2.0
//
// Stands in for write(2) of the program it is linked into: a disk that stalls or refuses while a test says so. Only
// writes to rank files are concerned.
#ifndef CEP_TESTS_PROCESS_DISK_H
#define CEP_TESTS_PROCESS_DISK_H

// Writes wait from now on until disk_release().
void disk_stall(void);
void disk_release(void);
// Threads that wait in a write now.
int disk_waiting(void);
// Returns once a write waits; the test fails if none does.
void disk_wait_until_stalled(void);
// Writes fail with this errno from now on; 0: they work.
void disk_refuse(int error);

#endif
