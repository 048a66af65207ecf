// SPDX-License-Identifier: Apache-2.0
//
// A program of any language that loads this library has a context of libcuda.so.1 on the thread that loads it, as the
// framework of a trainer makes one.
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

__attribute__((constructor)) static void make_context(void) {
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void* context = NULL;
    if (driver == NULL) abort();
    int (*init)(unsigned);
    int (*retain)(void**, int);
    int (*set_current)(void*);
    *(void**)&init = dlsym(driver, "cuInit");
    *(void**)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
    *(void**)&set_current = dlsym(driver, "cuCtxSetCurrent");
    if (init(0) != 0 || retain(&context, 0) != 0 || set_current(context) != 0) abort();
}
