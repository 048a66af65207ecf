// SPDX-License-Identifier: Apache-2.0
//
// What all files here use: the library's functions and the package's objects, addresses, streams and devices.
#include "native.h"

#include <pthread.h>
#include <time.h>

library_calls library;
package_objects package;
torch_objects hooks;

PyObject* reduce_hook(PyObject* hook, PyObject* unused) {
    Py_INCREF(hooks.inert);
    return hooks.inert;
}

static PyObject** references_of(PyObject* object) {
    return (PyObject**)(object + 1);
}

int take_arguments(PyObject* object, PyObject* args, PyTypeObject* const* types, Py_ssize_t count) {
    if (PyTuple_Size(args) != count) {
        PyErr_Format(PyExc_TypeError, "%R takes %zd arguments", Py_TYPE(object), count);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* given = PyTuple_GetItem(args, i);
        if (types[i] != NULL && !PyObject_TypeCheck(given, types[i])) {
            PyErr_Format(PyExc_TypeError, "argument %zd is to be %R, not %R", i, types[i], given);
            return -1;
        }
        set_reference(&references_of(object)[i], given);
    }
    return 0;
}

int visit_references(PyObject* object, size_t count, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(object));
    for (size_t i = 0; i < count; ++i) Py_VISIT(references_of(object)[i]);
    return 0;
}

void clear_references(PyObject** first, PyObject** last) {
    for (PyObject** each = first; each <= last; ++each) Py_CLEAR(*each);
}

void free_object(PyObject* object, size_t count) {
    PyTypeObject* type = Py_TYPE(object);
    for (size_t i = 0; i < count; ++i) Py_CLEAR(references_of(object)[i]);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

unsigned long this_thread(void) {
    return (unsigned long)pthread_self();  // as threading.get_ident()
}

bool make_room(void** items, Py_ssize_t count, Py_ssize_t* capacity, size_t item_bytes) {
    if (count < *capacity) return true;
    const Py_ssize_t wanted = *capacity == 0 ? 2 : 2 * *capacity;
    void* moved = PyMem_Realloc(*items, (size_t)wanted * item_bytes);
    if (moved == NULL) return PyErr_NoMemory() != NULL;
    *items = moved;
    *capacity = wanted;
    return true;
}

bool address_of(PyObject* integer, void** address) {
    *address = PyLong_AsVoidPtr(integer);
    return *address != NULL || PyErr_Occurred() == NULL;
}

bool stream_address_of(PyObject* stream, void** address) {
    if (stream == package.host) {
        *address = CEP_HOST;
        return true;
    }
    const bool is_number = PyLong_CheckExact(stream);
    OWNED number = is_number ? (Py_INCREF(stream), stream) : ATTRIBUTE(stream, "cuda_stream");
    const bool found = number != NULL && PyLong_CheckExact(number) && address_of(number, address);
    PyErr_Clear();
    return found;
}

// ---- Exceptions in hooks -------------------------------------------------------------------------------------------

bool note_failure(void) {
    if (PyErr_Occurred() == NULL) return true;
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return false;
    taken_error error = take();
    PyErr_NormalizeException(&error.type, &error.value, &error.traceback);
    if (!is_done(call_with(hooks.note_failure, error.value))) PyErr_Clear();
    DROP(error.type, error.value, error.traceback);
    return true;
}

PyObject* after_hook(bool succeeded, PyObject* result, taken_error error) {
    if (succeeded || note_failure()) {
        put_back(error);
        return result;
    }
    DROP(result, error.type, error.value, error.traceback);
    return NULL;
}

// ---- Streams -------------------------------------------------------------------------------------------------------

bool current_stream(profiler_object* self, void** stream) {
    *stream = NULL;
    if (self->stream_source == NULL) return true;
    OWNED found = self->stream_function != NULL
                      ? self->stream_function(self->stream_self, self->stream_argument)
                      : PyObject_CallFunctionObjArgs(self->stream_source, self->stream_argument, NULL);
    return found != NULL && address_of(found, stream);
}

bool set_stream_source(profiler_object* self, PyObject* pair) {
    PyObject* function = PyTuple_GetItem(pair, 0);
    PyObject* argument = PyTuple_GetItem(pair, 1);
    if (function == NULL || argument == NULL) return false;
    set_reference(&self->stream_source, function);
    set_reference(&self->stream_argument, argument != Py_None ? argument : NULL);
    // A C function of one argument can be called directly, which halves the cost.
    const bool is_plain =
        argument != Py_None && Py_TYPE(function) == &PyCFunction_Type && PyCFunction_GetFlags(function) == METH_O;
    self->stream_function = is_plain ? PyCFunction_GetFunction(function) : NULL;
    self->stream_self = is_plain ? PyCFunction_GetSelf(function) : NULL;
    return true;
}

/// Finds PyTorch's current stream once this process uses CUDA through PyTorch.
bool find_stream_source(profiler_object* self) {
    PyObject* modules = PySys_GetObject("modules");
    if (modules == NULL || PyDict_GetItem(modules, TEXT("torch")) == NULL) return true;
    OWNED found = PyObject_CallFunctionObjArgs(package.find_stream, NULL);
    return found != NULL && (found == Py_None || set_stream_source(self, found));
}

PyObject* enter_device(profiler_object* self) {
    if (self->device == NULL || PyErr_Occurred() != NULL) return NULL;
    PyObject* before = call_with(self->exchange_device, self->device);
    if (before == NULL) PyErr_Clear();
    return before;
}

void leave_device(profiler_object* self, PyObject* before) {
    if (before == NULL) return;
    if (!is_done(call_with(self->exchange_device, before))) PyErr_Clear();
    Py_DECREF(before);
}

// ---- Hooks ---------------------------------------------------------------------------------------------------------

PyObject* new_hook(PyObject* owner, PyObject* original, PyObject* (*call)(hook_object*, PyObject*, PyObject*)) {
    hook_object* made = (hook_object*)PyType_GenericAlloc(hook_type, 0);
    if (made == NULL) return NULL;
    set_reference(&made->owner, owner);
    set_reference(&made->original, original);
    made->call = call;
    return (PyObject*)made;
}

static PyObject* hook_call(hook_object* self, PyObject* args, PyObject* keywords) {
    Py_INCREF(self);  // the call may drop it
    PyObject* result = self->call(self, args, keywords);
    Py_DECREF(self);
    return result;
}

static PyObject* call_when_due(hook_object* self, PyObject* args, PyObject* keywords) {
    const long long second_ns = 1000000000;
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    const long long now_ns = now.tv_sec * second_ns + now.tv_nsec;
    if (now_ns < self->due_ns) return new_none();
    self->due_ns = now_ns + second_ns;
    return PyObject_CallObject(self->owner, NULL);
}

PyObject* seldom(PyObject* module, PyObject* function) {
    return new_hook(function, NULL, call_when_due);
}

/// A copy of a model, deep or pickled, is not timed: DistributedDataParallel takes what is in the place of its call
/// along.
static PyObject* hook_reduce(hook_object* self, PyObject* unused) {
    return self->original != NULL ? Py_BuildValue("O()", Py_TYPE(Py_None)) : reduce_hook((PyObject*)self, NULL);
}

COLLECTED_TYPE(hook, "Hook", 0, original, nothing_else, SLOT(tp_call, hook_call),
               MEMBERS(MEMBER(hook, "due_ns", T_LONGLONG, due_ns, 0)),
               METHODS(METHOD("__reduce__", NO_ARGUMENT(hook_reduce), NULL)));
