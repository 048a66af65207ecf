// SPDX-License-Identifier: Apache-2.0
//
// Stands in for the allocator of the program it is linked into. Counts and refuses what libcep and what it calls
// (libcjson, the C library) ask for; the test's own allocations are let through.
#ifndef CEP_TESTS_PROCESS_ALLOCATIONS_H
#define CEP_TESTS_PROCESS_ALLOCATIONS_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// False under a sanitizer, whose allocator cannot be stood in for.
bool allocations_can_be_counted(void);

// Of the calling thread, by the library.
unsigned long allocations_of_this_thread(void);

// The n-th allocation from here on fails, on any thread; n from 1.
void allocations_fail_nth(long n);
// The n-th and all later ones fail.
void allocations_fail_from(long n);
// Allocations that failed since the last call of one of the two above.
long allocations_failed(void);
// No more failures.
void allocations_work(void);
// Allocations of the calling thread never fail.
void allocations_spare_this_thread(void);

#ifdef __cplusplus
}
#endif

#endif
