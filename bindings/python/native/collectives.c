// SPDX-License-Identifier: Apache-2.0
//
// Indices: those of a group's collectives: see cep/torch/_operations.py. AsyncSpan: the span on the host clock of an
// asynchronous collective, which its future ends. CollectiveCalls: calls of the functions of torch.distributed on
// recorded steps: see cep/torch/_collectives.py.
#include "native.h"

// ---- Indices --------------------------------------------------------------------------------------------------------

enum { collectives_per_step = 1000000 };  // in decimal, so that people can read the step in an index

typedef struct {
    PyObject_HEAD long long next;
} indices_object;

long long take_index(PyObject* object, long long step, long long count) {
    long long* next = &((indices_object*)object)->next;
    const long long first = step * collectives_per_step;
    long long seen = __atomic_load_n(next, __ATOMIC_RELAXED), taken = 0;
    do {
        taken = seen < first ? first : seen;
    } while (!__atomic_compare_exchange_n(next, &seen, taken + count, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return taken;
}

static PyObject* indices_take(PyObject* object, PyObject* args) {
    long long step = 0, count = 1;
    if (!PyArg_ParseTuple(args, "L|L", &step, &count)) return NULL;
    return PyLong_FromLongLong(take_index(object, step, count));
}

static PyObject* indices_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
    return PyType_GenericAlloc(type, 0);
}

static void indices_free(PyObject* object) {
    free_object(object, 0);
}

DEFINE_TYPE(indices, "Indices", 0, SLOT(tp_new, indices_new), SLOT(tp_dealloc, indices_free),
            METHODS(ROW(indices, take, ARGUMENTS, "The next index in a step; the one after it is `count` higher.")));

// ---- AsyncSpan ------------------------------------------------------------------------------------------------------

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
static int expected_count;
static bool ever_expected;

static void unlist_span(async_span_object* self) {
    if (!self->is_listed) return;
    self->is_listed = false;
    if (self->before != NULL) self->before->after = self->after;
    if (self->after != NULL) self->after->before = self->before;
    if (unended == self) unended = self->after;
    self->before = self->after = NULL;
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
    // The interpreter's exit waits until the span, which a thread of the backend may free, is freed.
    expected_count += !self->is_expected;
    self->is_expected = ever_expected = true;
    set_reference(&self->future, future);
    self->after = unended;
    if (unended != NULL) unended->before = self;
    unended = self;
    self->is_listed = true;
    return is_done(CALL_METHOD(future, "add_done_callback", self, NULL));
}

bool end_with_work(PyObject* object, PyObject* work) {
    OWNED future = CALL_METHOD(work, "get_future", NULL);
    if (future == NULL) PyErr_Clear();
    return end_with_future((async_span_object*)object, future);
}

bool fail_async_span(PyObject* object, PyObject* error) {
    return end_open_span((async_span_object*)object, error);
}

static PyObject* unended_of(PyObject* profiler) {
    PyObject* found = PyList_New(0);
    for (async_span_object* span = unended; found != NULL && span != NULL; span = span->after)
        if (((region_object*)span->region)->profiler == profiler && PyList_Append(found, (PyObject*)span) != 0)
            Py_CLEAR(found);
    return found;
}

bool end_done_spans(PyObject* profiler) {
    if (unended == NULL) return true;
    OWNED spans = unended_of(profiler);
    for (Py_ssize_t i = 0; spans != NULL && i < PyList_Size(spans); ++i) {
        async_span_object* span = (async_span_object*)PyList_GetItem(spans, i);
        OWNED future = span->future;
        if (future == NULL) continue;
        Py_INCREF(future);
        const int done = truth_of(CALL_METHOD(future, "done", NULL));
        if (done < 0 || (done > 0 && !end_open_span(span, NULL))) return false;
    }
    return spans != NULL;
}

PyObject* expected_callbacks(PyObject* module, PyObject* unused) {
    return Py_BuildValue("(Ni)", PyBool_FromLong(ever_expected), expected_count);
}

static PyObject* async_span_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
    PyObject *like = NULL, *attributes = NULL;
    if (!PyArg_ParseTuple(args, "O!O", region_type, &like, &attributes)) return NULL;
    return new_async_span((region_object*)like, attributes);
}

/// What the future calls, on a thread of the backend, or on one that has waited for the result.
static PyObject* async_span_call(async_span_object* self, PyObject* args, PyObject* keywords) {
    return none_if(end_open_span(self, NULL));
}

NONE_METHOD(async_span, fail, end_open_span(self, argument))
NONE_METHOD(async_span, end_with, end_with_work((PyObject*)self, argument))

/// Whatever was to end it is gone. To end it may run code.
static void release_span(async_span_object* self) {
    const taken_error error = take();
    if (!end_open_span(self, hooks.unmeasured)) PyErr_Clear();
    put_back(error);
    if (self->is_expected) --expected_count;
}

COLLECTED_TYPE(async_span, "AsyncSpan", 0, future, release_span, SLOT(tp_new, async_span_new),
               SLOT(tp_call, async_span_call),
               METHODS(ROW(async_span, fail, ONE_ARGUMENT,
                           "Ends the span now: with an exception of this type, or None."),
                       ROW(async_span, end_with, ONE_ARGUMENT, "Ends the span when a Work is done.")));

// ---- CollectiveCalls ------------------------------------------------------------------------------------------------

typedef struct {
    PyObject_HEAD PyObject* profiler;
    PyObject* known;       ///< a dictionary of the groups, by their addresses: a weak reference to each, and its Group
    PyObject* coalescing;  ///< a dictionary, not empty while calls are only collected, to run as one later
    PyObject* world;       ///< what has PyTorch's default group
} collective_calls_object;

typedef struct {
    collective_calls_object* owner;
    PyObject* function;  ///< a Function of _operations.py
    PyObject* given;     ///< all arguments by name, a dictionary
    PyObject *original, *args, *keywords;
    bool is_async;  ///< returns before its result is ready
    bool on_nccl;
} collective_call;

// ---- What a span says of a call ------------------------------------------------------------------------------------

/// The Group of a call, if it has been found before; NULL without an exception.
static PyObject* known_group(const collective_call* call) {
    PyObject* group = PyDict_GetItem(call->given, TEXT("group"));
    OWNED found = is_given(group) ? (Py_INCREF(group), group) : ATTRIBUTE(call->owner->world, "default_pg");
    OWNED address = PyLong_FromVoidPtr(found);
    PyObject* known = address != NULL ? PyDict_GetItem(call->owner->known, address) : NULL;
    OWNED alive = known != NULL ? PyObject_CallObject(PyTuple_GetItem(known, 0), NULL) : NULL;
    PyObject* result = alive != NULL && alive == found ? PyTuple_GetItem(known, 1) : NULL;
    Py_XINCREF(result);
    PyErr_Clear();
    return result;
}

/// The tensor that a collective moves the whole of (borrowed); NULL without an exception: there is no such.
static PyObject* whole_tensor(const collective_call* call) {
    OWNED name = ATTRIBUTE(call->function, "whole_tensor");
    PyObject* tensor = is_given(name) ? PyDict_GetItem(call->given, name) : NULL;
    PyErr_Clear();
    return tensor != NULL && PyObject_IsInstance(tensor, hooks.tensor) > 0 ? tensor : NULL;
}

static PyObject* new_attributes(const collective_call* call, PyObject* bytes, PyObject* group, PyObject* coll) {
    PyObject* has_flag = call->is_async && !call->on_nccl ? Py_True : Py_False;
    return PyTuple_Pack(attribute_count + 1, bytes, Py_None, group, coll, Py_None, has_flag);
}

static PyObject* attributes_in(collective_call* call, PyObject* group, PyObject* tensor) {
    OWNED bytes = ATTRIBUTE(tensor, "nbytes");
    const int on_device = bytes != NULL ? truth_of(ATTRIBUTE(tensor, "is_cuda")) : -1;
    if (on_device < 0) return NULL;
    const long long step = ((profiler_object*)call->owner->profiler)->step;
    OWNED coll = PyLong_FromLongLong(take_index(PyTuple_GetItem(group, group_indices_at), step, 1));
    call->on_nccl = on_device > 0 && PyTuple_GetItem(group, group_on_device_at) == Py_True;
    const bool is_empty = PyObject_IsTrue(bytes) == 0;
    PyObject* name = PyTuple_GetItem(group, group_name_at);
    return coll != NULL ? new_attributes(call, is_empty ? Py_None : bytes, name, coll) : NULL;
}

/// The attributes of most calls, which have one tensor and a group that is known. NULL without an exception: it is
/// another call.
static PyObject* usual_attributes(collective_call* call) {
    PyObject* tensor = whole_tensor(call);
    OWNED group = tensor != NULL ? known_group(call) : NULL;
    return group != NULL ? attributes_in(call, group, tensor) : NULL;
}

static PyObject* unusual_attributes(collective_call* call) {
    OWNED found = CALL_METHOD(call->owner, "_find", call->function, call->given, NULL);
    if (!is_given(found)) return NULL;
    call->on_nccl = PyTuple_GetItem(found, 3) == Py_True;
    return new_attributes(call, PyTuple_GetItem(found, 0), PyTuple_GetItem(found, 1), PyTuple_GetItem(found, 2));
}

/// NULL: the call gets no row, or with an exception.
static PyObject* attributes_of(collective_call* call) {
    if (PyDict_Size(call->owner->coalescing) > 0) return NULL;
    PyObject* usual = usual_attributes(call);
    return usual != NULL || PyErr_Occurred() != NULL ? usual : unusual_attributes(call);
}

/// A region of the call's name.
static PyObject* region_like(const collective_call* call) {
    OWNED name = ATTRIBUTE(call->function, "name");
    if (name == NULL) return NULL;
    PyObject* found = PyDict_GetItem(((profiler_object*)call->owner->profiler)->regions, name);
    if (found == NULL) return CALL_METHOD(call->owner->profiler, "region", name, TEXT("comm"), NULL);
    Py_INCREF(found);
    return found;
}

/// Sets is_async. False with an exception.
static bool find_whether_async(collective_call* call) {
    PyObject* async_op = PyDict_GetItem(call->given, TEXT("async_op"));
    const int asked = async_op != NULL ? PyObject_IsTrue(async_op) : 0;
    const int is_async = asked != 0 ? asked : truth_of(ATTRIBUTE(call->function, "is_message"));
    call->is_async = is_async > 0;
    return is_async >= 0;
}

// ---- Ways to time a call -------------------------------------------------------------------------------------------

enum way { without_row, announced, until_done, within, failed };

static enum way way_of(const collective_call* call) {
    if (!call->on_nccl) return call->is_async ? until_done : within;
    OWNED calls = ATTRIBUTE((PyObject*)call->owner, "nccl");
    if (is_given(calls)) return announced;
    if (!is_done(CALL_METHOD(call->owner, "tell_of_unseen", NULL))) return failed;
    return call->is_async ? without_row : within;
}

/// Sets `*timer` to what times the call: a span or a region. `failed` with an exception.
static enum way begin_call(collective_call* call, PyObject** timer) {
    const bool is_ready = end_done_spans(call->owner->profiler) && find_whether_async(call);
    OWNED attributes = is_ready ? attributes_of(call) : NULL;
    OWNED like = attributes != NULL ? region_like(call) : NULL;
    const enum way way = like != NULL ? way_of(call) : PyErr_Occurred() != NULL ? failed : without_row;
    if (way == announced) return announce_call(like, attributes) ? announced : failed;
    if (way == until_done) *timer = new_async_span((region_object*)like, attributes);
    if (way == within) *timer = region_with((region_object*)like, !call->on_nccl, CEP_HOST, attributes);
    return (way == until_done || way == within) && *timer == NULL ? failed : way;
}

/// A call that is announced is timed where PyTorch calls NCCL. One until it is done is on the host clock, where a
/// thread of the backend may end it.
static bool end_call(const collective_call* call, enum way way, PyObject* timer, PyObject* result, PyObject* error) {
    if (way == announced)
        return withdraw_call() != NULL || result == NULL ||
               is_done(CALL_METHOD(call->owner, "_tell_if_unseen", call->function, call->given, NULL));
    if (way != until_done) return true;
    if (result == NULL) return fail_async_span(timer, error);
    if (truth_of(ATTRIBUTE(call->function, "is_message")) > 0)
        return is_done(CALL_METHOD(call->owner, "_end_after_wait", result, timer, NULL));
    return end_with_work(timer, result);
}

static PyObject* time_call(collective_call* call) {
    OWNED timer = NULL;
    cep_span span = CEP_SPAN_NONE;
    void* stream = NULL;
    const enum way way = begin_call(call, &timer);
    const bool begun = way != failed && (way != within || begin_span((region_object*)timer, &span, &stream));
    if (!begun && !note_failure()) return NULL;
    PyObject* result = PyObject_Call(call->original, call->args, call->keywords);
    const taken_error error = take();
    // If NCCL runs on a stream of its own, the current stream waits for it, and so does the end of the span.
    const bool ended = span != CEP_SPAN_NONE ? end_span((region_object*)timer, span, stream, error.type)
                                             : end_call(call, way, timer, result, error.type);
    return after_hook(ended, result, error);
}

static PyObject* calls_run(collective_calls_object* self, PyObject* args) {
    collective_call call = {.owner = self};
    if (!PyArg_ParseTuple(args, "OO!O!O!", &call.function, &PyDict_Type, &call.given, &PyTuple_Type, &call.args,
                          &PyDict_Type, &call.keywords))
        return NULL;
    call.original = ATTRIBUTE(call.function, "original");
    if (call.original == NULL) return NULL;
    *inside_of_thread() = true;  // PyTorch's functions call each other: only the outermost is a row
    PyObject* result = time_call(&call);
    *inside_of_thread() = false;
    Py_DECREF(call.original);
    return result;
}

TAKES(collective_calls, profiler_type, &PyDict_Type, &PyDict_Type, NULL)
COLLECTED_TYPE(collective_calls, "CollectiveCalls", Py_TPFLAGS_BASETYPE, world, nothing_else,
               SLOT(tp_init, collective_calls_init),
               METHODS(ROW(calls, run, ARGUMENTS,
                           "Makes a call of a function of torch.distributed on a recorded step, and times it: a "
                           "Function, all arguments by name, and those that are passed on.")));
