// SPDX-License-Identifier: Apache-2.0
//
// Replaces the allocator of a program that links it. Counts and refuses allocations of libcep and of the libraries that
// it calls (libcjson, the C library). The test's own allocations pass through.
#ifndef CEP_TESTS_PROCESS_ALLOCATIONS_H
#define CEP_TESTS_PROCESS_ALLOCATIONS_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// False under a sanitizer, whose allocator cannot be replaced.
bool allocations_can_be_counted(void);

// From now on counts the bytes that the process has allocated and not freed, of all threads and libraries.
void allocations_watch_bytes(void);
// The most that these have been above what they were then.
long allocations_most_bytes(void);

// The library's allocations on the calling thread.
unsigned long allocations_of_this_thread(void);

// The n-th allocation from now on fails, on any thread; n from 1.
void allocations_fail_nth(long n);
// The n-th and all later ones fail.
void allocations_fail_from(long n);
// The number of failed allocations since the last call of one of the two functions above.
long allocations_failed(void);
// No more failures.
void allocations_work(void);
// The n-th of the library's allocations on the calling thread from now on first calls this function; n from 1.
void allocations_call_at_nth(long n, void (*function)(void));
// Whether it has been called.
bool allocations_called(void);
// Allocations of the calling thread never fail.
void allocations_spare_this_thread(void);

#ifdef __cplusplus
}
#endif

#endif
