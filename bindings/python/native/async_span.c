// SPDX-License-Identifier: Apache-2.0
//
// AsyncSpan: the span on the host clock of an asynchronous collective, which its future ends.
#include "native.h"

typedef struct async_span_object {
    PyObject_HEAD PyObject* region;
    PyObject* future;  ///< what it waits for
    struct async_span_object *before, *after;
    cep_span span;
    bool is_open, is_listed, is_expected;
} async_span_object;

/// Those that wait for their futures' callbacks. A callback needs the interpreter's lock, so it may run
/// long after the work has ended: even in the next step. So who knows that it has ended calls end_done_spans().
static async_span_object* unended;
static int expected_count, ever_expected;

static void list_span(async_span_object* self) {
    self->after = unended;
    if (unended != NULL) unended->before = self;
    unended = self;
    self->is_listed = true;
}

static void unlist_span(async_span_object* self) {
    if (!self->is_listed) return;
    self->is_listed = false;
    if (self->before != NULL) self->before->after = self->after;
    if (self->after != NULL) self->after->before = self->before;
    if (unended == self) unended = self->after;
    self->before = self->after = NULL;
}

/// The interpreter's exit waits until the span, which a thread of the backend may free, is freed.
static void expect_callback(async_span_object* self) {
    if (self->is_expected) return;
    self->is_expected = true;
    ++expected_count;
    ever_expected = 1;
}

static bool end_open_span(async_span_object* self, PyObject* error) {
    if (!self->is_open) return true;
    self->is_open = false;
    unlist_span(self);
    const bool ended = end_span((region_object*)self->region, self->span, CEP_HOST, error);
    Py_CLEAR(self->future);
    return ended;
}

PyObject* new_async_span(region_object* like, PyObject* attributes) {
    async_span_object* self = (async_span_object*)PyType_GenericAlloc(async_span_type, 0);
    if (self == NULL) return NULL;
    void* stream = NULL;
    self->region = region_with(like, true, CEP_HOST, attributes);
    self->is_open = self->region != NULL && begin_span((region_object*)self->region, &self->span, &stream);
    if (!self->is_open) Py_CLEAR(self);
    return (PyObject*)self;
}

static bool end_with_future(async_span_object* self, PyObject* future) {
    if (!is_given(future)) return end_open_span(self, hooks.unmeasured);
    expect_callback(self);
    set_reference(&self->future, future);
    list_span(self);
    return is_done(CALL_METHOD(future, "add_done_callback", self, NULL));
}

bool end_with_work(PyObject* object, PyObject* work) {
    PyObject* future = CALL_METHOD(work, "get_future", NULL);
    if (future == NULL) PyErr_Clear();
    const bool ended = end_with_future((async_span_object*)object, future);
    Py_XDECREF(future);
    return ended;
}

bool fail_async_span(PyObject* object, PyObject* error) {
    return end_open_span((async_span_object*)object, error);
}

// ---- Spans whose work has ended ------------------------------------------------------------------------------------

static PyObject* unended_of(PyObject* profiler) {
    PyObject* found = PyList_New(0);
    for (async_span_object* span = unended; found != NULL && span != NULL; span = span->after)
        if (((region_object*)span->region)->profiler == profiler && PyList_Append(found, (PyObject*)span) != 0)
            Py_CLEAR(found);
    return found;
}

bool end_done_spans(PyObject* profiler) {
    if (unended == NULL) return true;
    PyObject* spans = unended_of(profiler);
    bool ended = spans != NULL;
    for (Py_ssize_t i = 0, count = spans != NULL ? PyList_Size(spans) : 0; ended && i < count; ++i) {
        async_span_object* span = (async_span_object*)PyList_GetItem(spans, i);
        PyObject* future = span->future;
        if (future == NULL) continue;
        Py_INCREF(future);
        const int done = truth_of(CALL_METHOD(future, "done", NULL));
        ended = done == 0 || (done > 0 && end_open_span(span, NULL));
        Py_DECREF(future);
    }
    Py_XDECREF(spans);
    return ended;
}

PyObject* expected_callbacks(PyObject* module, PyObject* unused) {
    return Py_BuildValue("(Ni)", PyBool_FromLong(ever_expected), expected_count);
}

// ---- The type ------------------------------------------------------------------------------------------------------

static PyObject* async_span_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
    PyObject *like = NULL, *attributes = NULL;
    if (!PyArg_ParseTuple(args, "O!O", region_type, &like, &attributes)) return NULL;
    return new_async_span((region_object*)like, attributes);
}

/// What the future calls, on a thread of the backend, or on one that has waited for the result.
static PyObject* async_span_call(async_span_object* self, PyObject* args, PyObject* keywords) {
    return none_if(end_open_span(self, NULL));
}

static PyObject* async_span_fail(async_span_object* self, PyObject* error) {
    return none_if(end_open_span(self, error));
}

static PyObject* async_span_end_with(PyObject* object, PyObject* work) {
    return none_if(end_with_work(object, work));
}

/// Whatever was to end it is gone. To end it may run code.
static void release_span(async_span_object* self) {
    const taken_error error = take();
    if (!end_open_span(self, hooks.unmeasured)) PyErr_Clear();
    put_back(error);
    if (self->is_expected) --expected_count;
}

COLLECTED_TYPE(async_span, "AsyncSpan", 0, future, release_span, SLOT(tp_new, async_span_new),
               SLOT(tp_call, async_span_call),
               METHODS(METHOD("fail", ONE_ARGUMENT(async_span_fail),
                              "Ends the span now: with an exception of this type, or None."),
                       METHOD("end_with", ONE_ARGUMENT(async_span_end_with), "Ends the span when a Work is done.")));
