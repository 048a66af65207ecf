// SPDX-License-Identifier: Apache-2.0
//
// What all files here use: the library's functions and the package's objects, addresses, streams and devices.
#include "native.h"

#include <pthread.h>

library_calls library;
package_objects package;
torch_objects hooks;

static PyObject** references_of(PyObject* object) {
    return (PyObject**)(object + 1);
}

int visit_references(PyObject* object, size_t count, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(object));
    for (size_t i = 0; i < count; ++i) Py_VISIT(references_of(object)[i]);
    return 0;
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

bool address_of(PyObject* integer, void** address) {
    *address = PyLong_AsVoidPtr(integer);
    return *address != NULL || PyErr_Occurred() == NULL;
}

bool stream_address_of(PyObject* stream, void** address) {
    if (stream == package.host) {
        *address = CEP_HOST;
        return true;
    }
    PyObject* number = NULL;
    if (PyLong_CheckExact(stream)) {
        Py_INCREF(stream);
        number = stream;
    } else {
        number = PyObject_GetAttrString(stream, "cuda_stream");
    }
    const bool found = number != NULL && PyLong_CheckExact(number) && address_of(number, address);
    Py_XDECREF(number);
    PyErr_Clear();
    return found;
}

// ---- Exceptions in hooks -------------------------------------------------------------------------------------------

PyObject* take_error(void) {
    PyObject *type = NULL, *value = NULL, *traceback = NULL;
    PyErr_Fetch(&type, &value, &traceback);
    if (type != NULL && !PyErr_GivenExceptionMatches(type, PyExc_Exception)) PyErr_SetInterrupt();
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return type;
}

bool note_failure(void) {
    if (PyErr_Occurred() == NULL) return true;
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return false;
    PyObject *type = NULL, *value = NULL, *traceback = NULL;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject* noted = PyObject_CallFunctionObjArgs(hooks.note_failure, value, NULL);
    if (noted == NULL) PyErr_Clear();
    Py_XDECREF(noted);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return true;
}

PyObject* after_hook(bool succeeded, PyObject* result, taken_error* error) {
    if (succeeded || note_failure()) {
        PyErr_Restore(error->type, error->value, error->traceback);
        return result;
    }
    Py_XDECREF(result);
    Py_XDECREF(error->type);
    Py_XDECREF(error->value);
    Py_XDECREF(error->traceback);
    return NULL;
}

// ---- Streams -------------------------------------------------------------------------------------------------------

static PyObject* call_stream_source(profiler_object* self) {
    if (self->stream_function != NULL) return self->stream_function(self->stream_self, self->stream_argument);
    return PyObject_CallFunctionObjArgs(self->stream_source, self->stream_argument, NULL);
}

bool current_stream(profiler_object* self, void** stream) {
    *stream = NULL;
    if (self->stream_source == NULL) return true;
    PyObject* found = call_stream_source(self);
    if (found == NULL) return false;
    const bool converted = address_of(found, stream);
    Py_DECREF(found);
    return converted;
}

/// A C function of one argument can be called directly, which halves the cost.
static void note_function(profiler_object* self) {
    self->stream_function = NULL;
    self->stream_self = NULL;
    if (self->stream_argument == NULL || Py_TYPE(self->stream_source) != &PyCFunction_Type) return;
    if (PyCFunction_GetFlags(self->stream_source) != METH_O) return;
    self->stream_function = PyCFunction_GetFunction(self->stream_source);
    self->stream_self = PyCFunction_GetSelf(self->stream_source);
}

bool set_stream_source(profiler_object* self, PyObject* pair) {
    PyObject* function = PyTuple_GetItem(pair, 0);
    PyObject* argument = PyTuple_GetItem(pair, 1);
    if (function == NULL || argument == NULL) return false;
    set_reference(&self->stream_source, function);
    Py_CLEAR(self->stream_argument);
    if (argument != Py_None) {
        Py_INCREF(argument);
        self->stream_argument = argument;
    }
    note_function(self);
    return true;
}

/// Finds PyTorch's current stream once this process uses CUDA through PyTorch.
bool find_stream_source(profiler_object* self) {
    PyObject* modules = PySys_GetObject("modules");
    if (modules == NULL || PyDict_GetItemString(modules, "torch") == NULL) return true;
    PyObject* found = PyObject_CallFunctionObjArgs(package.find_stream, NULL);
    if (found == NULL) return false;
    const bool done = found == Py_None || set_stream_source(self, found);
    Py_DECREF(found);
    return done;
}

// ---- Device --------------------------------------------------------------------------------------------------------

PyObject* enter_device(profiler_object* self) {
    if (self->device == NULL || PyErr_Occurred() != NULL) return NULL;
    PyObject* before = PyObject_CallFunctionObjArgs(self->exchange_device, self->device, NULL);
    if (before == NULL) PyErr_Clear();
    return before;
}

void leave_device(profiler_object* self, PyObject* before) {
    if (before == NULL) return;
    PyObject* left = PyObject_CallFunctionObjArgs(self->exchange_device, before, NULL);
    if (left == NULL) PyErr_Clear();
    Py_XDECREF(left);
    Py_DECREF(before);
}
