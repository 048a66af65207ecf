// SPDX-License-Identifier: Apache-2.0
//
// Reads rank files strictly: the test fails unless every line is a complete JSON object.
#ifndef CEP_TESTS_API_ROWS_H
#define CEP_TESTS_API_ROWS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct row {
    char* text;  // the line, without its newline
    cJSON* json;
    long end_offset;  // offset in the file of the byte after the newline
} row;

// Rows stay allocated until the test's process ends.
typedef struct rows {
    row* items;
    size_t count;
} rows;

// Stands for span rows, which have no "type".
#define SPAN NULL

rows rows_read(const char* path);
// Keeps the complete rows, and skips incomplete lines.
rows rows_read_leniently(const char* path);
size_t rows_count(const rows* all, const char* type);
// The n-th row of a type, and the n-th span of a name; the test fails if there is none.
const row* rows_nth(const rows* all, const char* type, size_t n);
const row* rows_span(const rows* all, const char* name, size_t n);
size_t rows_spans_named(const rows* all, const char* name);
const row* rows_last(const rows* all, const char* type);

bool row_is(const row* r, const char* type);
bool row_has(const row* r, const char* key);
const char* row_text(const row* r, const char* key);
double row_number(const row* r, const char* key);
// Reads 64-bit integers exactly, unlike cJSON's doubles. The key must be at top level and unique in the row.
int64_t row_int(const row* r, const char* key);
// The value at a path of keys separated by '/', or NULL.
const cJSON* row_at(const row* r, const char* path);

// Counts span rows of a large file without keeping them.
uint64_t count_spans_in_file(const char* path);
long file_size(const char* path);
bool path_exists(const char* path);

#endif
