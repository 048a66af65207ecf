// SPDX-License-Identifier: Apache-2.0
//
// AsyncSpan: the span of an asynchronous collective, which its future or a side stream ends; and the indices of
// collectives. See cep/torch/_comm_span.py.
#include "native.h"

typedef struct async_span_object {
    PyObject_HEAD PyObject* region;
    PyObject* side;     ///< a SideStream; NULL: on the host clock
    PyObject* current;  ///< the stream that was current at the begin, as wait_on_side_stream() takes it
    PyObject* future;   ///< on the host: what it waits for
    struct async_span_object *before, *after;
    cep_span span;
    void* stream;
    bool is_open, is_listed, is_expected;
} async_span_object;

/// Those on the host that wait for their futures' callbacks. A callback needs the interpreter's lock, so it may run
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

static bool end_open_span(async_span_object* self, void* stream, PyObject* error) {
    if (!self->is_open) return true;
    self->is_open = false;
    unlist_span(self);
    const bool ended = end_span((region_object*)self->region, self->span, stream, error);
    Py_CLEAR(self->future);
    return ended;
}

/// A new span of a collective with the given attributes. `like` is a region of its name; `side` NULL: on the host.
PyObject* new_async_span(region_object* like, PyObject* side, PyObject* attributes) {
    PyObject* current = NULL;
    void* stream = CEP_HOST;
    if (side != NULL && (current = enter_side_stream(side, &stream)) == NULL) return NULL;
    async_span_object* self = (async_span_object*)PyType_GenericAlloc(async_span_type, 0);
    if (self != NULL) {
        self->current = current;
        set_reference(&self->side, side);
        self->region = region_with(like, true, stream, attributes);
        self->is_open = self->region != NULL && begin_span((region_object*)self->region, &self->span, &self->stream);
        if (!self->is_open) Py_CLEAR(self);
    } else {
        Py_XDECREF(current);
    }
    return (PyObject*)self;
}

static bool fail_unmeasured(async_span_object* self) {
    return end_open_span(self, self->stream, hooks.unmeasured);
}

static bool end_behind(async_span_object* self, PyObject* works) {
    PyObject* error = NULL;  // the collective has failed; the trainer's own wait raises it
    if (!wait_on_side_stream(self->side, works, self->current, &error)) return false;
    const bool ended = end_open_span(self, self->stream, error);
    Py_XDECREF(error);
    return ended;
}

static int is_future_done(PyObject* future) {
    return truth_of(PyObject_CallMethod(future, "done", NULL));
}

static bool end_by_callback(async_span_object* self, PyObject* future) {
    expect_callback(self);
    if (self->side == NULL) {
        set_reference(&self->future, future);
        list_span(self);
    }
    return is_done(PyObject_CallMethod(future, "add_done_callback", "O", self));
}

static bool end_with_future(async_span_object* self, PyObject* future) {
    if (!is_given(future)) return fail_unmeasured(self);
    const int done = self->side != NULL ? is_future_done(future) : 0;
    if (done < 0) return false;
    if (done == 0) return end_by_callback(self, future);
    PyObject* works = PyTuple_Pack(1, future);  // it holds the events of the running work
    const bool ended = works != NULL && end_behind(self, works);
    Py_XDECREF(works);
    return ended;
}

/// For other backends than NCCL: ends the span when the future of the first work is done.
static bool end_with_work(async_span_object* self, PyObject* works) {
    PyObject* work = PySequence_GetItem(works, 0);
    if (work == NULL) return false;
    PyObject* future = PyObject_CallMethod(work, "get_future", NULL);
    Py_DECREF(work);
    if (future == NULL) PyErr_Clear();  // gloo's messages have none
    const bool ended = end_with_future(self, future);
    Py_XDECREF(future);
    return ended;
}

/// Keeps the tensors for the trainer until its own wait.
static bool keep_tensors(async_span_object* self, PyObject* works, PyObject* tensors) {
    if (tensors == NULL || PySequence_Size(tensors) <= 0) return PyErr_Occurred() == NULL;
    PyObject* stream = PyObject_GetAttrString(self->side, "stream");
    ((profiler_object*)((region_object*)self->region)->profiler)->wants_steps = 1;  // which lets go of what is free
    bool kept = stream != NULL;
    for (Py_ssize_t i = 0, count = PySequence_Size(works); kept && i < count; ++i) {
        PyObject* work = PySequence_GetItem(works, i);
        kept = work != NULL && is_done(PyObject_CallFunctionObjArgs(hooks.keep_tensors, work, tensors, stream, NULL));
        Py_XDECREF(work);
    }
    Py_XDECREF(stream);
    return kept;
}

bool end_with_works(PyObject* object, PyObject* works, PyObject* tensors) {
    async_span_object* self = (async_span_object*)object;
    if (self->side == NULL || !is_on_device(self->side)) return end_with_work(self, works);
    if (waits_on_host(self->side)) return fail_unmeasured(self);
    return end_behind(self, works) && keep_tensors(self, works, tensors);
}

bool fail_async_span(PyObject* object, PyObject* error) {
    async_span_object* self = (async_span_object*)object;
    return end_open_span(self, self->stream, error);
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
        const int done = is_future_done(future);
        ended = done == 0 || (done > 0 && end_open_span(span, span->stream, NULL));
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
    PyObject *like = NULL, *side = NULL, *attributes = NULL;
    if (!PyArg_ParseTuple(args, "O!OO", region_type, &like, &side, &attributes)) return NULL;
    return new_async_span((region_object*)like, is_given(side) ? side : NULL, attributes);
}

/// What the future calls, on a thread of the backend, or on one that has waited for the result. The current stream of a
/// thread of the backend waits for the result.
static PyObject* async_span_call(PyObject* object, PyObject* args, PyObject* keywords) {
    async_span_object* self = (async_span_object*)object;
    void* stream = self->stream;
    if (!self->is_open) return new_none();
    profiler_object* profiler = (profiler_object*)((region_object*)self->region)->profiler;
    if (self->side != NULL && !current_stream(profiler, &stream)) return NULL;
    return none_if(end_open_span(self, stream, NULL));
}

static PyObject* async_span_fail(PyObject* object, PyObject* error) {
    return none_if(fail_async_span(object, error));
}

static PyObject* async_span_end_with_works(PyObject* object, PyObject* args) {
    PyObject *works = NULL, *tensors = NULL;
    if (!PyArg_ParseTuple(args, "OO", &works, &tensors)) return NULL;
    return none_if(end_with_works(object, works, tensors));
}

HAS_REFERENCES(async_span, future)

static void async_span_free(PyObject* object) {
    async_span_object* self = (async_span_object*)object;
    unlist_span(self);
    if (self->is_expected) --expected_count;
    async_span_drop(object);
}

static PyMethodDef methods[] = {
    {"fail", async_span_fail, METH_O, "Ends the span now: with an exception of this type, or None."},
    {"end_with_works", async_span_end_with_works, METH_VARARGS, "Ends the span when all of the works are done."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot async_span_slots[] = {
    {Py_tp_new, async_span_new},           {Py_tp_dealloc, async_span_free}, {Py_tp_call, async_span_call},
    {Py_tp_traverse, async_span_traverse}, {Py_tp_methods, methods},         {0, NULL},
};

DEFINE_TYPE(async_span, "AsyncSpan", Py_TPFLAGS_HAVE_GC);
