// SPDX-License-Identifier: Apache-2.0
//
// What the static C++ runtime of this machine's compiler takes from a newer C library than the wheel may need, in terms
// of an older one. It is linked into each C++ binary of the wheel and exported by none.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // dl_iterate_phdr()
#endif
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

// Since 2.32. Not 0 only if the process has one thread; 0 is always safe.
char __libc_single_threaded = 0;

// Since 2.36. std::random_device reads it.
uint32_t arc4random(void) {
    uint32_t value;
    if (getentropy(&value, sizeof value) != 0) abort();
    return value;
}

// _dl_find_object(), since 2.35. The unwinder asks for the object that a return address is in, and reads the object's
// table of frames.
struct found_object {
    unsigned long long flags;
    void* map_start;
    void* map_end;
    struct link_map* link_map;
    void* eh_frame;
    unsigned long long reserved[7];
};

struct search {
    uintptr_t address;
    struct found_object* found;
};

static int look_into(struct dl_phdr_info* object, size_t size, void* data) {
    (void)size;
    const struct search* search = data;
    const ElfW(Phdr)* holding = NULL;
    const ElfW(Phdr)* frames = NULL;
    for (int i = 0; i < object->dlpi_phnum; ++i) {
        const ElfW(Phdr)* header = &object->dlpi_phdr[i];
        if (header->p_type == PT_LOAD && search->address - (object->dlpi_addr + header->p_vaddr) < header->p_memsz)
            holding = header;
        if (header->p_type == PT_GNU_EH_FRAME) frames = header;
    }
    if (holding == NULL || frames == NULL) return 0;
    memset(search->found, 0, sizeof *search->found);
    search->found->map_start = (void*)(object->dlpi_addr + holding->p_vaddr);
    search->found->map_end = (void*)(object->dlpi_addr + holding->p_vaddr + holding->p_memsz);
    search->found->eh_frame = (void*)(object->dlpi_addr + frames->p_vaddr);
    return 1;
}

// Newer headers declare the name, with a structure of their own.
int find_object(void* address, struct found_object* found) __asm__("_dl_find_object");

int find_object(void* address, struct found_object* found) {
    struct search search = {(uintptr_t)address, found};
    return dl_iterate_phdr(look_into, &search) == 1 ? 0 : -1;
}
