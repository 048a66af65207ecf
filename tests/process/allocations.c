// SPDX-License-Identifier: Apache-2.0
#include "allocations.h"

#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#if !CHECK_SANITIZED && defined(__GLIBC__)

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* memory);

enum { max_ranges = 16 };

static struct { uintptr_t begin, end; } ranges[max_ranges];
static int ranges_count;

static _Thread_local unsigned long allocations;
static _Thread_local bool spared;
static _Thread_local long until_call;  // 0: nothing is called
static void (*function_to_call)(void);
static bool called;
static atomic_long countdown;  // 0: nothing fails
static atomic_long failures;
static atomic_bool all_later;
static atomic_long held_bytes;  // by all of the process's allocations
static atomic_long most_bytes;
static long bytes_before;

static int remember_code(struct dl_phdr_info* object, size_t size, void* unused) {
    static const char* const concerned[] = {"/libcep.so", "/libcjson.so", "/libc.so"};
    (void)size;
    (void)unused;
    bool wanted = false;
    for (size_t i = 0; i < sizeof concerned / sizeof *concerned; ++i)
        wanted |= strstr(object->dlpi_name, concerned[i]) != NULL;
    for (int i = 0; wanted && i < object->dlpi_phnum && ranges_count < max_ranges; ++i) {
        const ElfW(Phdr)* segment = &object->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_X) == 0) continue;
        ranges[ranges_count].begin = object->dlpi_addr + segment->p_vaddr;
        ranges[ranges_count++].end = object->dlpi_addr + segment->p_vaddr + segment->p_memsz;
    }
    return 0;
}

__attribute__((constructor)) static void find_code(void) {
    dl_iterate_phdr(remember_code, NULL);
}

static bool is_concerned(const void* caller) {
    for (int i = 0; i < ranges_count; ++i)
        if ((uintptr_t)caller >= ranges[i].begin && (uintptr_t)caller < ranges[i].end) return true;
    return false;
}

// Whether this allocation may succeed.
static bool allowed(const void* caller) {
    if (!is_concerned(caller)) return true;
    ++allocations;
    if (until_call > 0 && --until_call == 0) {
        called = true;
        function_to_call();
    }
    if (spared || countdown <= 0) return true;
    long left = atomic_fetch_sub(&countdown, 1);
    if (left > 1) return true;
    if (left < 1) return true;  // another thread has counted down the last one
    if (all_later) countdown = 1;
    ++failures;
    errno = ENOMEM;
    return false;
}

static void hold(long bytes) {
    const long now = atomic_fetch_add(&held_bytes, bytes) + bytes;
    long most = most_bytes;
    while (now > most && !atomic_compare_exchange_weak(&most_bytes, &most, now)) {
    }
}

static void* held(void* memory) {
    hold((long)malloc_usable_size(memory));
    return memory;
}

void* malloc(size_t size) {
    return allowed(__builtin_return_address(0)) ? held(__libc_malloc(size)) : NULL;
}

void* calloc(size_t count, size_t size) {
    return allowed(__builtin_return_address(0)) ? held(__libc_calloc(count, size)) : NULL;
}

void* realloc(void* memory, size_t size) {
    if (!allowed(__builtin_return_address(0))) return NULL;
    const long before = (long)malloc_usable_size(memory);
    void* const made = __libc_realloc(memory, size);
    if (made != NULL || size == 0) hold((long)malloc_usable_size(made) - before);
    return made;
}

void* aligned_alloc(size_t alignment, size_t size) {
    return allowed(__builtin_return_address(0)) ? held(__libc_memalign(alignment, size)) : NULL;
}

void* memalign(size_t alignment, size_t size) {
    return allowed(__builtin_return_address(0)) ? held(__libc_memalign(alignment, size)) : NULL;
}

int posix_memalign(void** memory, size_t alignment, size_t size) {
    if (!allowed(__builtin_return_address(0))) return ENOMEM;
    void* made = held(__libc_memalign(alignment, size));
    if (made == NULL) return ENOMEM;
    *memory = made;
    return 0;
}

void free(void* memory) {
    hold(-(long)malloc_usable_size(memory));
    __libc_free(memory);
}

void allocations_watch_bytes(void) {
    most_bytes = bytes_before = held_bytes;
}

long allocations_most_bytes(void) {
    return most_bytes - bytes_before;
}

bool allocations_can_be_counted(void) {
    return true;
}

unsigned long allocations_of_this_thread(void) {
    return allocations;
}

static void arm(long n, bool later) {
    failures = 0;
    all_later = later;
    countdown = n;
}

void allocations_fail_nth(long n) {
    arm(n, false);
}

void allocations_fail_from(long n) {
    arm(n, true);
}

long allocations_failed(void) {
    return failures;
}

void allocations_work(void) {
    countdown = 0;
}

void allocations_call_at_nth(long n, void (*function)(void)) {
    function_to_call = function;
    called = false;
    until_call = n;
}

bool allocations_called(void) {
    return called;
}

void allocations_spare_this_thread(void) {
    spared = true;
}

#else

bool allocations_can_be_counted(void) {
    return false;
}
void allocations_watch_bytes(void) {}
long allocations_most_bytes(void) {
    return 0;
}
unsigned long allocations_of_this_thread(void) {
    return 0;
}
void allocations_fail_nth(long n) {
    (void)n;
}
void allocations_fail_from(long n) {
    (void)n;
}
long allocations_failed(void) {
    return 0;
}
void allocations_work(void) {}
void allocations_call_at_nth(long n, void (*function)(void)) {
    (void)n;
    (void)function;
}
bool allocations_called(void) {
    return false;
}
void allocations_spare_this_thread(void) {}

#endif
