// SPDX-License-Identifier: Apache-2.0
#ifndef CEP_PYTHON_IMPORTS_H
#define CEP_PYTHON_IMPORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { slots_of_import = 2 };  // for calls, and for the function's address

/// A function that a library imports, and one that is to be called in its place.
typedef struct {
    const char* name;
    void* replacement;
    void* function;  ///< what the library calls without us
    void** slots[slots_of_import];
    int slot_count;
} import;

typedef struct {
    import* imports;
    size_t count;
    uintptr_t base, end;                       ///< of the loaded library
    uintptr_t read_only_begin, read_only_end;  ///< pages that the loader has made so after it had filled them in
    bool was_replaced;
} library_imports;

/// Finds the slots and functions of those imports that a loaded library has. False where it is not loaded, or the
/// format of the machine's libraries is not known.
bool find_imports(const char* library, library_imports* found);
/// Has the library call the replacements. False if a page cannot be written.
bool replace_imports(library_imports* library);
/// Has it call what it called before, but for what somebody else has put into its place since.
void put_back_imports(const library_imports* library);

#endif
