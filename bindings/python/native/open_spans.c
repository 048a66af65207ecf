// SPDX-License-Identifier: Apache-2.0
//
// OpenSpans: the open spans of a phase that hooks begin and end.
#include "native.h"

#include <string.h>

typedef struct {
    unsigned long key;  ///< a thread, or 0 for the whole process
    cep_span span;
    void* stream;
} open_span;

typedef struct {
    PyObject_HEAD PyObject* region;
    PyObject* not_finished;
    open_span* spans;
    Py_ssize_t count, capacity;
} open_spans_object;

static bool key_of(PyObject* given, unsigned long* key) {
    *key = given == Py_None ? 0 : PyLong_AsUnsignedLong(given);
    return PyErr_Occurred() == NULL;
}

static Py_ssize_t find_key(const open_spans_object* self, unsigned long key) {
    for (Py_ssize_t i = 0; i < self->count; ++i)
        if (self->spans[i].key == key) return i;
    return -1;
}

static bool end_at(open_spans_object* self, Py_ssize_t at, PyObject* error) {
    const open_span ending = self->spans[at];
    self->spans[at] = self->spans[--self->count];
    return end_span((region_object*)self->region, ending.span, ending.stream, error);
}

static bool end_key(open_spans_object* self, unsigned long key, PyObject* error) {
    const Py_ssize_t at = find_key(self, key);
    return at < 0 || end_at(self, at, error);
}

static bool make_room(open_spans_object* self) {
    if (self->count < self->capacity) return true;
    const Py_ssize_t capacity = self->capacity == 0 ? 4 : 2 * self->capacity;
    open_span* spans = PyMem_Realloc(self->spans, (size_t)capacity * sizeof *spans);
    if (spans == NULL) return PyErr_NoMemory() != NULL;
    self->spans = spans;
    self->capacity = capacity;
    return true;
}

bool begin_keyed_span(PyObject* object, unsigned long key) {
    open_spans_object* self = (open_spans_object*)object;
    open_span begun = {key, CEP_SPAN_NONE, NULL};
    if (!end_key(self, key, self->not_finished)) return false;
    if (!begin_span((region_object*)self->region, &begun.span, &begun.stream)) return false;
    if (!make_room(self)) return false;
    self->spans[self->count++] = begun;
    return true;
}

bool end_keyed_span(PyObject* object, unsigned long key, PyObject* error) {
    return end_key((open_spans_object*)object, key, error);
}

bool has_keyed_span(PyObject* object, unsigned long key) {
    return find_key((open_spans_object*)object, key) >= 0;
}

static PyObject* open_spans_begin(PyObject* object, PyObject* given) {
    unsigned long key = 0;
    return key_of(given, &key) && begin_keyed_span(object, key) ? new_none() : NULL;
}

static PyObject* open_spans_end(PyObject* object, PyObject* const* args, Py_ssize_t count) {
    unsigned long key = 0;
    if (count < 1 || count > 2) {
        PyErr_SetString(PyExc_TypeError, "end() takes a key and an exception's type");
        return NULL;
    }
    if (!key_of(args[0], &key)) return NULL;
    return end_key((open_spans_object*)object, key, count > 1 ? args[1] : NULL) ? new_none() : NULL;
}

static PyObject* open_spans_abandon(PyObject* object, PyObject* unused) {
    open_spans_object* self = (open_spans_object*)object;
    (void)unused;
    while (self->count > 0)
        if (!end_at(self, self->count - 1, self->not_finished)) return NULL;
    return new_none();
}

static int open_spans_bool(PyObject* object) {
    return ((open_spans_object*)object)->count > 0;
}

static int open_spans_init(PyObject* object, PyObject* args, PyObject* keywords) {
    open_spans_object* self = (open_spans_object*)object;
    PyObject *region = NULL, *not_finished = NULL;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "O!O", region_type, &region, &not_finished)) return -1;
    set_reference(&self->region, region);
    set_reference(&self->not_finished, not_finished);
    return 0;
}

HAS_REFERENCES(open_spans, not_finished)

static void open_spans_free(PyObject* object) {
    PyMem_Free(((open_spans_object*)object)->spans);
    open_spans_drop(object);
}

static PyMethodDef open_spans_methods[] = {
    {"begin", open_spans_begin, METH_O, "Begins a span. A span of the key that is still open ends as NotFinished."},
    {"end", (PyCFunction)(void (*)(void))(fast_function)open_spans_end, METH_FASTCALL, "Ends the key's span, if any."},
    {"abandon", open_spans_abandon, METH_NOARGS, "Ends all open spans as NotFinished."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot open_spans_slots[] = {
    {Py_tp_init, open_spans_init},       {Py_tp_dealloc, open_spans_free}, {Py_tp_traverse, open_spans_traverse},
    {Py_tp_methods, open_spans_methods}, {Py_nb_bool, open_spans_bool},    {0, NULL},
};

PyType_Spec open_spans_spec = {
    .name = "cep._native.OpenSpans",
    .basicsize = sizeof(open_spans_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = open_spans_slots,
};
