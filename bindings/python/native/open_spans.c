// SPDX-License-Identifier: Apache-2.0
//
// OpenSpans: the open spans of a phase that hooks begin and end, at most one for each key: a thread, or None for the
// process.
#include "native.h"

typedef struct {
    PyObject_HEAD PyObject* region;  ///< one of its own, like that of the phase: its blocks are the spans
} open_spans_object;

static region_object* region_of(PyObject* object) {
    return (region_object*)((open_spans_object*)object)->region;
}

static bool key_of(PyObject* given, unsigned long* key) {
    *key = given == Py_None ? 0 : PyLong_AsUnsignedLong(given);
    return PyErr_Occurred() == NULL;
}

bool end_keyed_span(PyObject* object, unsigned long key, PyObject* error) {
    region_object* region = region_of(object);
    block ending;
    return !pop_block(region, key, &ending) || end_span(region, ending.span, ending.stream, error);
}

bool begin_keyed_span(PyObject* object, unsigned long key) {
    block begun = {key, CEP_SPAN_NONE, NULL};
    return end_keyed_span(object, key, hooks.not_finished) &&
           begin_span(region_of(object), &begun.span, &begun.stream) && push_block(region_of(object), begun);
}

bool has_keyed_span(PyObject* object, unsigned long key) {
    const region_object* region = region_of(object);
    for (Py_ssize_t i = 0; i < region->block_count; ++i)
        if (region->blocks[i].key == key) return true;
    return false;
}

bool has_open_spans(PyObject* object) {
    return region_of(object)->block_count > 0;
}

static PyObject* open_spans_begin(PyObject* object, PyObject* given) {
    unsigned long key = 0;
    return none_if(key_of(given, &key) && begin_keyed_span(object, key));
}

static PyObject* open_spans_end(PyObject* object, PyObject* const* args, Py_ssize_t count) {
    unsigned long key = 0;
    if (count < 1 || count > 2) {
        PyErr_SetString(PyExc_TypeError, "end() takes a key and an exception's type");
        return NULL;
    }
    return none_if(key_of(args[0], &key) && end_keyed_span(object, key, count > 1 ? args[1] : NULL));
}

/// A `with` block: a span of the process's key, if a recorded step is under way.
static PyObject* open_spans_enter(PyObject* object, PyObject* unused) {
    const profiler_object* profiler = (profiler_object*)region_of(object)->profiler;
    return none_if(!is_recording(profiler) || begin_keyed_span(object, 0));
}

static PyObject* open_spans_exit(PyObject* object, PyObject* const* args, Py_ssize_t count) {
    return none_if(end_keyed_span(object, 0, count > 0 ? args[0] : NULL));
}

static PyObject* open_spans_abandon(PyObject* object, PyObject* unused) {
    const region_object* region = region_of(object);
    while (region->block_count > 0)
        if (!end_keyed_span(object, region->blocks[0].key, hooks.not_finished)) return NULL;
    return new_none();
}

static int open_spans_bool(PyObject* object) {
    return has_open_spans(object);
}

static int open_spans_init(open_spans_object* self, PyObject* args, PyObject* keywords) {
    if (TAKE_ARGUMENTS(self, args, region_type) != 0) return -1;
    region_object* like = (region_object*)self->region;
    PyObject* own = region_with(like, like->has_stream, like->stream, like->attributes);
    set_reference(&self->region, own);
    Py_XDECREF(own);
    return own != NULL ? 0 : -1;
}

COLLECTED_TYPE(open_spans, "OpenSpans", Py_TPFLAGS_BASETYPE, region, nothing_else, SLOT(tp_init, open_spans_init),
               SLOT(nb_bool, open_spans_bool),
               METHODS(METHOD("begin", ONE_ARGUMENT(open_spans_begin),
                              "Begins a span. A span of the key that is still open ends as NotFinished."),
                       METHOD("end", FAST(open_spans_end), "Ends the key's span, if any."),
                       METHOD("__enter__", NO_ARGUMENT(open_spans_enter),
                              "Begins a span of the key None on a recorded step."),
                       METHOD("__exit__", FAST(open_spans_exit), NULL),
                       METHOD("abandon", NO_ARGUMENT(open_spans_abandon), "Ends all open spans as NotFinished.")));
