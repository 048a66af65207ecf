// SPDX-License-Identifier: Apache-2.0
#include "rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "check.h"

// Keeps every row reachable, so that a leak checker reports only leaks of the library.
static struct kept {
    struct kept* next;
    row* items;
} * kept_rows;

typedef struct reader {
    FILE* file;
    const char* path;
    char* line;
    size_t capacity;
    int number;
} reader;

static reader reader_open(const char* path) {
    reader in = {fopen(path, "r"), path, NULL, 0, 0};
    if (in.file == NULL) check_fail(__FILE__, __LINE__, "%s: %s", path, strerror(errno));
    return in;
}

static void reader_close(reader* in) {
    free(in->line);
    fclose(in->file);
}

// Reads the next line's object, or NULL if the line is not an object. False at the end of the file.
static bool reader_next(reader* in, cJSON** json) {
    const ssize_t size = getline(&in->line, &in->capacity, in->file);
    if (size < 0) return false;
    ++in->number;
    *json = NULL;
    if (in->line[size - 1] != '\n') return true;
    in->line[size - 1] = '\0';
    if (strlen(in->line) + 1 != (size_t)size) return true;
    const char* end = NULL;
    *json = cJSON_ParseWithOpts(in->line, &end, true);
    if (*json != NULL && !cJSON_IsObject(*json)) {
        cJSON_Delete(*json);
        *json = NULL;
    }
    return true;
}

// Called at powers of two, so that reading stays linear.
static row* grow(row* items, size_t capacity) {
    row* grown = realloc(items, capacity * sizeof *items);
    CHECK(grown != NULL);
    return grown;
}

static rows read_all(const char* path, bool strictly) {
    rows all = {NULL, 0};
    cJSON* json = NULL;
    reader in = reader_open(path);
    while (reader_next(&in, &json)) {
        if (json == NULL && strictly) check_fail(path, in.number, "not one JSON object and a newline: %.200s", in.line);
        if (json == NULL) continue;
        if ((all.count & (all.count - 1)) == 0) all.items = grow(all.items, 2 * all.count + 1);
        all.items[all.count++] = (row){strdup(in.line), json, ftell(in.file)};
    }
    reader_close(&in);
    struct kept* keep = malloc(sizeof *keep);
    CHECK(keep != NULL);
    *keep = (struct kept){kept_rows, all.items};
    kept_rows = keep;
    return all;
}

rows rows_read(const char* path) {
    return read_all(path, true);
}
rows rows_read_leniently(const char* path) {
    return read_all(path, false);
}

static bool json_is(const cJSON* json, const char* type) {
    const cJSON* actual = cJSON_GetObjectItemCaseSensitive(json, "type");
    if (type == SPAN) return actual == NULL;
    return cJSON_IsString(actual) && strcmp(actual->valuestring, type) == 0;
}

bool row_is(const row* r, const char* type) {
    return json_is(r->json, type);
}

static bool is_span_named(const row* r, const char* name) {
    return row_is(r, SPAN) && strcmp(row_text(r, "name"), name) == 0;
}

static size_t count_of(const rows* all, bool (*matches)(const row*, const char*), const char* wanted) {
    size_t count = 0;
    for (size_t i = 0; i < all->count; ++i) count += matches(&all->items[i], wanted);
    return count;
}

static const row* nth_of(const rows* all, bool (*matches)(const row*, const char*), const char* wanted, size_t n) {
    size_t seen = 0;
    for (size_t i = 0; i < all->count; ++i)
        if (matches(&all->items[i], wanted) && seen++ == n) return &all->items[i];
    check_fail(__FILE__, __LINE__, "no %s number %zu among %zu rows", wanted == SPAN ? "span" : wanted, n, all->count);
}

size_t rows_count(const rows* all, const char* type) {
    return count_of(all, row_is, type);
}

const row* rows_nth(const rows* all, const char* type, size_t n) {
    return nth_of(all, row_is, type, n);
}

const row* rows_last(const rows* all, const char* type) {
    const size_t count = rows_count(all, type);
    return rows_nth(all, type, count == 0 ? 0 : count - 1);
}

size_t rows_spans_named(const rows* all, const char* name) {
    return count_of(all, is_span_named, name);
}

const row* rows_span(const rows* all, const char* name, size_t n) {
    return nth_of(all, is_span_named, name, n);
}

bool row_has(const row* r, const char* key) {
    return cJSON_GetObjectItemCaseSensitive(r->json, key) != NULL;
}

const char* row_text(const row* r, const char* key) {
    const cJSON* value = cJSON_GetObjectItemCaseSensitive(r->json, key);
    if (!cJSON_IsString(value)) check_fail(__FILE__, __LINE__, "no text \"%s\" in %s", key, r->text);
    return value->valuestring;
}

double row_number(const row* r, const char* key) {
    const cJSON* value = cJSON_GetObjectItemCaseSensitive(r->json, key);
    if (!cJSON_IsNumber(value)) check_fail(__FILE__, __LINE__, "no number \"%s\" in %s", key, r->text);
    return value->valuedouble;
}

int64_t row_int(const row* r, const char* key) {
    char pattern[128];
    snprintf(pattern, sizeof pattern, "\"%s\":", key);
    const char* at = strstr(r->text, pattern);
    if (at == NULL) check_fail(__FILE__, __LINE__, "no \"%s\" in %s", key, r->text);
    char* end = NULL;
    const int64_t value = strtoll(at + strlen(pattern), &end, 10);
    if (*end != ',' && *end != '}') check_fail(__FILE__, __LINE__, "\"%s\" is no integer in %s", key, r->text);
    return value;
}

const cJSON* row_at(const row* r, const char* path) {
    const cJSON* at = r->json;
    while (at != NULL && *path != '\0') {
        char key[128];
        const size_t size = strcspn(path, "/");
        snprintf(key, sizeof key, "%.*s", (int)size, path);
        at = cJSON_GetObjectItemCaseSensitive(at, key);
        path += size + (path[size] == '/');
    }
    return at;
}

uint64_t count_spans_in_file(const char* path) {
    uint64_t count = 0;
    cJSON* json = NULL;
    reader in = reader_open(path);
    while (reader_next(&in, &json)) {
        if (json == NULL) check_fail(path, in.number, "not one JSON object and a newline: %.200s", in.line);
        count += json_is(json, SPAN);
        cJSON_Delete(json);
    }
    reader_close(&in);
    return count;
}

long file_size(const char* path) {
    struct stat status;
    if (stat(path, &status) != 0) check_fail(__FILE__, __LINE__, "%s: %s", path, strerror(errno));
    return (long)status.st_size;
}

bool path_exists(const char* path) {
    struct stat status;
    return lstat(path, &status) == 0;
}
