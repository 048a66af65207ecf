// SPDX-License-Identifier: Apache-2.0
//
// TimedFunction: a function each of whose calls is a span of a region: what a decorator makes of a plain function. Or,
// with two more arguments, a function in whose place another is called while a list is not empty. TimedCopy: such
// another one, which times copies of a batch to a device: see cep/integrations/_auto.py.
#include "native.h"

// Part of the stable ABI since 3.12. CPython 3.9 has the same under the same number. Without the function, which 3.9
// and 3.10 do not export, arguments are packed into a tuple.
#ifndef Py_TPFLAGS_HAVE_VECTORCALL
#define Py_TPFLAGS_HAVE_VECTORCALL (1UL << 11)
#endif
typedef PyObject* (*vector_function)(PyObject* function, PyObject* const* args, size_t count, PyObject* names);
extern PyObject* PyObject_Vectorcall(PyObject* function, PyObject* const* args, size_t count, PyObject* names)
    __attribute__((weak));

typedef struct {
    PyObject_HEAD PyObject* region;
    PyObject* function;
    PyObject* other;       ///< called while `switched` is not empty; NULL: the function, timed
    PyObject* switched;    ///< a list
    PyObject* attributes;  ///< __dict__, which functools.wraps() fills
    PyObject* weak_references;
    vector_function pass_on;  ///< NULL: PyObject_Call() serves
} timed_function_object;

typedef struct {
    PyObject_HEAD PyObject* region;
    PyObject* function;  ///< a method of tensors
    PyObject* devices;   ///< types, by which its first argument names a device; None: it always copies to one
    PyObject* cpu;
    PyObject* is_compiling;
    unsigned long thread;  ///< whose copies are timed
} timed_copy_object;

static PyObject* call_timed(region_object* region, PyObject* function, PyObject* args, PyObject* keywords) {
    cep_span span = CEP_SPAN_NONE;
    void* stream = NULL;
    const bool is_early = ((profiler_object*)region->profiler)->step < 0;
    if (is_early ? !note_early(region, true) : !begin_span(region, &span, &stream)) return NULL;
    PyObject* result = PyObject_Call(function, args, keywords);
    const taken_error error = take();
    const bool ended = end_span(region, span, stream, error.type) && (!is_early || note_early(region, false));
    if (result == NULL)
        put_back(error);  // in the place of one of the span's
    else if (!ended)
        Py_CLEAR(result);
    return result;
}

static PyObject* chosen(const timed_function_object* self) {
    return PyList_Size(self->switched) > 0 ? self->other : self->function;
}

/// Tensor.to() is called once for each parameter where gradients are clipped: so arguments are not packed.
static PyObject* pass_on(PyObject* object, PyObject* const* args, size_t count, PyObject* names) {
    return PyObject_Vectorcall(chosen((timed_function_object*)object), args, count, names);
}

static PyObject* timed_function_call(timed_function_object* self, PyObject* args, PyObject* keywords) {
    region_object* region = (region_object*)self->region;
    if (self->other != NULL) return PyObject_Call(chosen(self), args, keywords);
    if (!is_initialised(region)) return NULL;
    const profiler_object* profiler = (profiler_object*)region->profiler;
    if (!is_recording(profiler) && profiler->step >= 0) return PyObject_Call(self->function, args, keywords);
    Py_INCREF(region);  // the call may drop this object
    PyObject* result = call_timed(region, self->function, args, keywords);
    Py_DECREF(region);
    return result;
}

static int is_copy(const timed_copy_object* self, PyObject* args, PyObject* keywords) {
    if (self->devices == Py_None) return 1;
    const int names_device = PyTuple_Size(args) > 1 ? PyObject_IsInstance(PyTuple_GetItem(args, 1), self->devices) : 0;
    if (names_device != 0 || keywords == NULL) return names_device;
    return PyDict_GetItem(keywords, TEXT("device")) != NULL || PyDict_GetItem(keywords, TEXT("other")) != NULL;
}

/// The bytes of a copy that is timed; NULL for other calls, and for a tensor without a size.
static PyObject* bytes_of_copy(const timed_copy_object* self, PyObject* args, PyObject* keywords) {
    PyObject* tensor = PyTuple_Size(args) > 0 ? PyTuple_GetItem(args, 0) : NULL;
    const bool may_be = tensor != NULL && this_thread() == self->thread &&
                        is_recording((profiler_object*)((region_object*)self->region)->profiler);
    OWNED device = may_be && is_copy(self, args, keywords) > 0 ? ATTRIBUTE(tensor, "device") : NULL;
    const bool is_timed = device != NULL && PyObject_RichCompareBool(device, self->cpu, Py_EQ) > 0 &&
                          truth_of(PyObject_CallObject(self->is_compiling, NULL)) == 0;
    PyObject* bytes = is_timed ? ATTRIBUTE(tensor, "nbytes") : NULL;
    if (PyErr_Occurred() != NULL && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
    return bytes;
}

static PyObject* timed_copy_call(timed_copy_object* self, PyObject* args, PyObject* keywords) {
    PyObject* bytes = bytes_of_copy(self, args, keywords);
    if (bytes == NULL) return PyErr_Occurred() == NULL ? PyObject_Call(self->function, args, keywords) : NULL;
    OWNED attributes = Py_BuildValue("(NOOOO)", bytes, Py_None, Py_None, Py_None, Py_None);
    OWNED region = attributes != NULL ? region_with((region_object*)self->region, false, NULL, attributes) : NULL;
    return region != NULL ? call_timed((region_object*)region, self->function, args, keywords) : NULL;
}

static int timed_copy_init(timed_copy_object* self, PyObject* args, PyObject* keywords) {
    self->thread = this_thread();
    return TAKE_ARGUMENTS(self, args, region_type, NULL, NULL, NULL, NULL);
}

/// As a function's: binds methods.
static PyObject* timed_function_bind(PyObject* object, PyObject* instance, PyObject* type) {
    if (!is_given(instance)) {
        Py_INCREF(object);
        return object;
    }
    return PyObject_CallFunctionObjArgs(package.method_type, object, instance, NULL);
}

static int timed_function_init(timed_function_object* self, PyObject* args, PyObject* keywords) {
    PyObject *region = NULL, *function = NULL, *other = NULL, *switched = NULL;
    if (!PyArg_ParseTuple(args, "OO|OO!", &region, &function, &other, &PyList_Type, &switched)) return -1;
    if (switched == NULL && !PyObject_TypeCheck(region, region_type))
        return PyErr_Format(PyExc_TypeError, "a region is needed, not %R", region), -1;
    set_reference(&self->region, region);
    set_reference(&self->switched, switched);
    set_reference(&self->other, switched != NULL ? other : NULL);
    set_reference(&self->function, function);
    self->pass_on = switched != NULL && PyObject_Vectorcall != NULL ? pass_on : NULL;
    return 0;
}

/// As functions are: pickled by name, never copied.
static PyObject* timed_function_reduce(PyObject* object, PyObject* unused) {
    return PyObject_GetAttrString(object, "__qualname__");
}

static PyObject* timed_function_copy(PyObject* object, PyObject* unused) {
    Py_INCREF(object);
    return object;
}

static PyObject* timed_function_repr(timed_function_object* self) {
    return PyUnicode_FromFormat("<timed %R>", self->function);
}

static PyObject* timed_function_dict(timed_function_object* self, void* unused) {
    if (self->attributes == NULL) self->attributes = PyDict_New();
    Py_XINCREF(self->attributes);
    return self->attributes;
}

CLEARS(timed_function, attributes, attributes)

static void release_weak_references(timed_function_object* self) {
    if (self->weak_references != NULL) PyObject_ClearWeakRefs((PyObject*)self);
}

static PyGetSetDef properties[] = {
    {(char*)"__dict__", (getter)(void (*)(void))timed_function_dict, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

COLLECTED_TYPE(timed_function, "TimedFunction", Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_HAVE_VECTORCALL, attributes,
               release_weak_references, SLOT(tp_init, timed_function_init), SLOT(tp_clear, timed_function_clear),
               SLOT(tp_call, timed_function_call), SLOT(tp_descr_get, timed_function_bind),
               SLOT(tp_repr, timed_function_repr), SLOT(tp_getset, properties),
               MEMBERS(MEMBER(timed_function, "__dictoffset__", T_PYSSIZET, attributes, READONLY),
                       MEMBER(timed_function, "__weaklistoffset__", T_PYSSIZET, weak_references, READONLY),
                       MEMBER(timed_function, "__vectorcalloffset__", T_PYSSIZET, pass_on, READONLY)),
               METHODS(METHOD("__reduce__", NO_ARGUMENT(timed_function_reduce), NULL),
                       METHOD("__copy__", NO_ARGUMENT(timed_function_copy), NULL),
                       METHOD("__deepcopy__", ONE_ARGUMENT(timed_function_copy), NULL)));

COLLECTED_TYPE(timed_copy, "TimedCopy", 0, is_compiling, nothing_else, SLOT(tp_init, timed_copy_init),
               SLOT(tp_call, timed_copy_call));
