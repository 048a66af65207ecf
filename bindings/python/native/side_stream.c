// SPDX-License-Identifier: Apache-2.0
//
// SideStream: a stream of the profiler's own, which waits for collectives: see cep/torch/_comm_span.py.
#include "native.h"

enum {
    current_address_at,
    current_at,
    identify_at,
    record_at,
    wait_at,
    waiter_at,
    use_at,
    get_device_at,
    set_device_at
};

typedef struct {
    PyObject_HEAD PyObject* device;         ///< its index
    PyObject* stream;                       ///< PyTorch's object
    PyObject* calls[side_stream_calls];     ///< PyTorch's functions, by the names above
    PyObject* arguments;                    ///< that name this stream to use()
    PyObject *current, *current_arguments;  ///< the stream that was current last, and as use() takes it
    void* current_address;                  ///< the same
    char on_device;                         ///< whether the group's collectives run on the device
    char waits_on_host;                     ///< whether to wait for a Work blocks the thread
    PyThread_type_lock lock;                ///< from the record of the waiter's event to the wait for it
    unsigned long owner;                    ///< the thread that has the lock; 0 for none
} side_stream_object;

static PyObject* call(const side_stream_object* self, int at, PyObject* argument) {
    return PyObject_CallFunctionObjArgs(self->calls[at], argument, NULL);
}

/// Keeps the current stream, and makes PyTorch's object of it where it is another than the last time.
static bool find_current(side_stream_object* self) {
    void* address = NULL;
    const bool has_address = is_given(self->calls[current_address_at]);
    if (has_address) {
        PyObject* found = call(self, current_address_at, self->device);
        const bool converted = found != NULL && address_of(found, &address);
        Py_XDECREF(found);
        if (!converted) return false;
        if (self->current != NULL && address == self->current_address) return true;
    }
    PyObject* current = call(self, current_at, self->device);
    PyObject* arguments = current != NULL ? call(self, identify_at, current) : NULL;
    if (arguments != NULL) {
        set_reference(&self->current, current);
        set_reference(&self->current_arguments, arguments);
        self->current_address = address;
    }
    Py_XDECREF(current);
    return is_done(arguments);
}

static void take_lock(side_stream_object* self) {
    if (PyThread_acquire_lock(self->lock, NOWAIT_LOCK) == 0) {
        Py_BEGIN_ALLOW_THREADS;
        PyThread_acquire_lock(self->lock, WAIT_LOCK);
        Py_END_ALLOW_THREADS;
    }
    self->owner = PyThread_get_thread_ident();
}

static void let_go(side_stream_object* self) {
    self->owner = 0;
    PyThread_release_lock(self->lock);
}

/// Has this stream wait for the current one, which it returns as use() takes it: a new reference. PyTorch gives the
/// interpreter's lock up meanwhile, and all threads have one event. A handler of a signal may come in between, on the
/// thread that has the lock, and make a collective itself.
static PyObject* wait_for_current(side_stream_object* self) {
    const bool is_within = self->owner == PyThread_get_thread_ident();
    if (!is_within) take_lock(self);
    PyObject* arguments = NULL;
    if (find_current(self) && is_done(call(self, record_at, self->current)) &&
        is_done(call(self, wait_at, self->calls[waiter_at])))
        set_reference(&arguments, self->current_arguments);
    if (!is_within) let_go(self);
    return arguments;
}

PyObject* enter_side_stream(PyObject* object, void** address) {
    side_stream_object* self = (side_stream_object*)object;
    PyObject* arguments = wait_for_current(self);
    PyObject* number = arguments != NULL ? attribute_of(self->stream, "cuda_stream") : NULL;
    if (number == NULL || !address_of(number, address)) Py_CLEAR(arguments);
    Py_XDECREF(number);
    return arguments;
}

static bool use(const side_stream_object* self, PyObject* arguments) {
    return is_done(PyObject_CallObject(self->calls[use_at], arguments));
}

/// PyTorch's use() makes the stream's device current, too.
static bool go_back(const side_stream_object* self, PyObject* current, PyObject* device) {
    if (!use(self, current)) return false;
    const int same = PyObject_RichCompareBool(device, self->device, Py_EQ);
    return same > 0 || (same == 0 && is_done(call(self, set_device_at, device)));
}

bool wait_on_side_stream(PyObject* object, PyObject* works, PyObject* current, PyObject** error) {
    const side_stream_object* self = (side_stream_object*)object;
    PyObject* device = PyObject_CallObject(self->calls[get_device_at], NULL);
    if (device == NULL || !use(self, self->arguments)) {
        Py_XDECREF(device);
        return false;
    }
    *error = NULL;
    for (Py_ssize_t i = 0, count = PySequence_Size(works); i < count && *error == NULL; ++i) {
        PyObject* work = PySequence_GetItem(works, i);
        const bool waited = work != NULL && is_done(PyObject_CallMethod(work, "wait", NULL));
        Py_XDECREF(work);
        if (!waited) *error = take_error();
    }
    const bool went_back = go_back(self, current, device);
    Py_DECREF(device);
    if (!went_back) Py_CLEAR(*error);
    return went_back;
}

bool is_on_device(PyObject* object) {
    return ((side_stream_object*)object)->on_device;
}

bool waits_on_host(PyObject* object) {
    return ((side_stream_object*)object)->waits_on_host;
}

// ---- The type ------------------------------------------------------------------------------------------------------

static int side_stream_init(PyObject* object, PyObject* args, PyObject* keywords) {
    side_stream_object* self = (side_stream_object*)object;
    PyObject *device = NULL, *stream = NULL, *calls = NULL;
    int on_device = 0, waits = 0;
    if (!PyArg_ParseTuple(args, "OOO!pp", &device, &stream, &PyTuple_Type, &calls, &on_device, &waits)) return -1;
    for (Py_ssize_t i = 0; i < side_stream_calls; ++i) {
        PyObject* given = PyTuple_GetItem(calls, i);
        if (given == NULL) return -1;
        set_reference(&self->calls[i], given);
    }
    set_reference(&self->device, device);
    set_reference(&self->stream, stream);
    self->on_device = (char)(on_device != 0);
    self->waits_on_host = (char)(waits != 0);
    if (self->lock == NULL) self->lock = PyThread_allocate_lock();
    if (self->lock == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    PyObject* arguments = call(self, identify_at, stream);
    if (arguments == NULL) return -1;
    set_reference(&self->arguments, arguments);
    Py_DECREF(arguments);
    return 0;
}

HAS_REFERENCES(side_stream, current_arguments)

static void side_stream_free(PyObject* object) {
    const PyThread_type_lock lock = ((side_stream_object*)object)->lock;
    if (lock != NULL) PyThread_free_lock(lock);
    side_stream_drop(object);
}

static PyMemberDef members[] = {
    {(char*)"stream", T_OBJECT, offsetof(side_stream_object, stream), READONLY, (char*)"PyTorch's object."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot side_stream_slots[] = {
    {Py_tp_init, side_stream_init},
    {Py_tp_dealloc, side_stream_free},
    {Py_tp_traverse, side_stream_traverse},
    {Py_tp_members, members},
    {0, NULL},
};

DEFINE_TYPE(side_stream, "SideStream", Py_TPFLAGS_HAVE_GC);
