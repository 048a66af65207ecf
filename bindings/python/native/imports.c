// SPDX-License-Identifier: Apache-2.0
//
// The table of a loaded library's imports, in which functions of this module can stand before those of other libraries.
#include "imports.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
static bool is_address_of_import(uint32_t type) {
    return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT;
}
#elif defined(__aarch64__)
static bool is_address_of_import(uint32_t type) {
    return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT;
}
#else
static bool is_address_of_import(uint32_t type) {
    return false;
}
#endif

typedef struct {
    const char* name;  ///< of the library's file
    const char* path;  ///< of the loaded one
    library_imports* found;
} search;

static uintptr_t page_of(uintptr_t address) {
    return address & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
}

// ---- Finding -------------------------------------------------------------------------------------------------------

/// What DT_* entries say of relocations and symbols. glibc's loader has made absolute addresses of them.
typedef struct {
    uintptr_t symbols, names, calls, others;
    size_t call_bytes, other_bytes, relative_count;
} dynamic_tables;

static dynamic_tables tables_in(const ElfW(Dyn) * entry) {
    dynamic_tables found = {0};
    for (; entry->d_tag != DT_NULL; ++entry) {
        const uintptr_t value = entry->d_un.d_ptr;
        if (entry->d_tag == DT_SYMTAB) found.symbols = value;
        if (entry->d_tag == DT_STRTAB) found.names = value;
        if (entry->d_tag == DT_JMPREL) found.calls = value;
        if (entry->d_tag == DT_PLTRELSZ) found.call_bytes = value;
        if (entry->d_tag == DT_RELA) found.others = value;
        if (entry->d_tag == DT_RELASZ) found.other_bytes = value;
        if (entry->d_tag == DT_RELACOUNT) found.relative_count = value;
    }
    return found;
}

static void add_slot(library_imports* found, const char* name, uintptr_t address) {
    for (size_t i = 0; i < found->count; ++i) {
        import* wanted = &found->imports[i];
        if (strcmp(wanted->name, name) == 0 && wanted->slot_count < slots_of_import && address % sizeof(void*) == 0)
            wanted->slots[wanted->slot_count++] = (void**)address;
    }
}

static void find_slots(library_imports* found, const dynamic_tables* tables, uintptr_t first, size_t bytes) {
    const ElfW(Sym)* symbols = (const ElfW(Sym)*)tables->symbols;
    const ElfW(Rela)* each = (const ElfW(Rela)*)first;
    for (size_t i = 0; i < bytes / sizeof *each; ++i)
        if (is_address_of_import((uint32_t)ELF64_R_TYPE(each[i].r_info))) {
            const uint32_t name = symbols[ELF64_R_SYM(each[i].r_info)].st_name;
            add_slot(found, (const char*)tables->names + name, found->base + each[i].r_offset);
        }
}

static void find_segments(library_imports* found, const struct dl_phdr_info* info, const ElfW(Dyn) * *dynamic) {
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr)* segment = &info->dlpi_phdr[i];
        const uintptr_t begin = info->dlpi_addr + segment->p_vaddr, end = begin + segment->p_memsz;
        if (segment->p_type == PT_DYNAMIC) *dynamic = (const ElfW(Dyn)*)begin;
        if (segment->p_type == PT_LOAD && end > found->end) found->end = end;
        if (segment->p_type != PT_GNU_RELRO) continue;
        found->read_only_begin = page_of(begin);  // as the loader rounds
        found->read_only_end = page_of(end);
    }
}

static int look_into(struct dl_phdr_info* info, size_t size, void* data) {
    search* wanted = data;
    const char* slash = strrchr(info->dlpi_name, '/');
    if (strcmp(slash != NULL ? slash + 1 : info->dlpi_name, wanted->name) != 0) return 0;
    library_imports* found = wanted->found;
    const ElfW(Dyn)* dynamic = NULL;
    found->base = info->dlpi_addr;
    find_segments(found, info, &dynamic);
    const dynamic_tables tables = dynamic != NULL ? tables_in(dynamic) : (dynamic_tables){0};
    if (tables.symbols <= found->base || tables.names <= found->base) return 1;  // not absolute: another loader
    const size_t relative_bytes = tables.relative_count * sizeof(ElfW(Rela));
    if (tables.calls > found->base) find_slots(found, &tables, tables.calls, tables.call_bytes);
    if (tables.others > found->base && tables.other_bytes > relative_bytes)
        find_slots(found, &tables, tables.others + relative_bytes, tables.other_bytes - relative_bytes);
    wanted->path = info->dlpi_name;
    return 1;
}

/// What the library calls: a slot has the address from the first call on, or from loading. Until then it leads into the
/// library itself, to what looks the function up.
static void* function_of(const library_imports* library, void* handle, const import* wanted) {
    void* address = __atomic_load_n(wanted->slots[0], __ATOMIC_ACQUIRE);
    if ((uintptr_t)address < library->base || (uintptr_t)address >= library->end) return address;
    address = dlsym(RTLD_DEFAULT, wanted->name);
    return address != NULL ? address : dlsym(handle, wanted->name);
}

static bool find_functions(const library_imports* found, void* handle) {
    for (size_t i = 0; i < found->count; ++i) {
        import* each = &found->imports[i];
        if (each->slot_count == 0) continue;
        if (each->function == NULL) each->function = function_of(found, handle, each);
        if (each->function == NULL) return false;
    }
    return true;
}

bool find_imports(const char* library, library_imports* found) {
    found->end = found->read_only_begin = found->read_only_end = 0;
    for (size_t i = 0; i < found->count; ++i) found->imports[i].slot_count = 0;
    search wanted = {library, NULL, found};
    if (dl_iterate_phdr(look_into, &wanted) == 0 || wanted.path == NULL) return false;
    void* handle = dlopen(wanted.path, RTLD_LAZY | RTLD_NOLOAD);  // not within the iteration, which has another lock
    const bool found_all = handle != NULL && find_functions(found, handle);
    if (handle != NULL) dlclose(handle);
    return found_all;
}

// ---- Replacing -----------------------------------------------------------------------------------------------------

static bool write_slot(const library_imports* library, void** slot, void* function) {
    const uintptr_t page = page_of((uintptr_t)slot);
    const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    const bool is_read_only = library->read_only_begin <= page && page < library->read_only_end;
    if (is_read_only && mprotect((void*)page, bytes, PROT_READ | PROT_WRITE) != 0) return false;
    __atomic_store_n(slot, function, __ATOMIC_RELEASE);
    if (is_read_only) (void)mprotect((void*)page, bytes, PROT_READ);
    return true;
}

static bool replace_import(const library_imports* library, const import* each) {
    for (int at = 0; at < each->slot_count; ++at) {
        void* now = __atomic_load_n(each->slots[at], __ATOMIC_ACQUIRE);
        // Somebody else's that came after ours and stayed calls ours: it is left, and never called by ours.
        if (library->was_replaced && now != each->function) continue;
        if (!write_slot(library, each->slots[at], each->replacement)) return false;
    }
    return true;
}

bool replace_imports(library_imports* library) {
    bool replaced = true;
    for (size_t i = 0; replaced && i < library->count; ++i) replaced = replace_import(library, &library->imports[i]);
    library->was_replaced = true;
    return replaced;
}

void put_back_imports(const library_imports* library) {
    for (size_t i = 0; i < library->count; ++i)
        for (int at = 0; at < library->imports[i].slot_count; ++at) {
            const import* each = &library->imports[i];
            if (__atomic_load_n(each->slots[at], __ATOMIC_ACQUIRE) == each->replacement)
                (void)write_slot(library, each->slots[at], each->function);
        }
}
