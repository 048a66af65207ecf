// SPDX-License-Identifier: Apache-2.0
//
// TimedFunction: a function each of whose calls is a span of a region: what a decorator makes of a plain function. Or,
// with two more arguments, a function in whose place another is called while a list is not empty. TimedCopy: such
// another one, which times copies of a batch to a device: see cep/integrations/_auto_parts.py.
#include "native.h"

// Part of the stable ABI since 3.12. CPython 3.9 has the same under the same number. Without the function, which 3.9 and
// 3.10 do not export, arguments are packed into a tuple.
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

static PyObject* timed_function_call(PyObject* object, PyObject* args, PyObject* keywords) {
    timed_function_object* self = (timed_function_object*)object;
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

static int is_on_cpu(const timed_copy_object* self, PyObject* tensor) {
    PyObject* device = ATTRIBUTE(tensor, "device");
    const int is_cpu = device != NULL ? PyObject_RichCompareBool(device, self->cpu, Py_EQ) : -1;
    Py_XDECREF(device);
    return is_cpu;
}

/// The bytes of a copy that is timed; NULL for other calls, and for a tensor without a size.
static PyObject* bytes_of_copy(const timed_copy_object* self, PyObject* args, PyObject* keywords) {
    PyObject* tensor = PyTuple_Size(args) > 0 ? PyTuple_GetItem(args, 0) : NULL;
    const bool may_be = tensor != NULL && this_thread() == self->thread &&
                        is_recording((profiler_object*)((region_object*)self->region)->profiler);
    const bool is_timed = may_be && is_copy(self, args, keywords) > 0 && is_on_cpu(self, tensor) > 0 &&
                          truth_of(PyObject_CallObject(self->is_compiling, NULL)) == 0;
    PyObject* bytes = is_timed ? ATTRIBUTE(tensor, "nbytes") : NULL;
    if (PyErr_Occurred() != NULL && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
    return bytes;
}

static PyObject* timed_copy_call(PyObject* object, PyObject* args, PyObject* keywords) {
    const timed_copy_object* self = (timed_copy_object*)object;
    PyObject* bytes = bytes_of_copy(self, args, keywords);
    if (bytes == NULL) return PyErr_Occurred() == NULL ? PyObject_Call(self->function, args, keywords) : NULL;
    PyObject* attributes = Py_BuildValue("(NOOOO)", bytes, Py_None, Py_None, Py_None, Py_None);
    PyObject* region = attributes != NULL ? region_with((region_object*)self->region, false, NULL, attributes) : NULL;
    PyObject* result = region != NULL ? call_timed((region_object*)region, self->function, args, keywords) : NULL;
    DROP(attributes, region);
    return result;
}

static int timed_copy_init(PyObject* object, PyObject* args, PyObject* keywords) {
    ((timed_copy_object*)object)->thread = this_thread();
    return TAKE_ARGUMENTS(object, args, region_type, NULL, NULL, NULL, NULL);
}

/// As a function's: binds methods.
static PyObject* timed_function_bind(PyObject* object, PyObject* instance, PyObject* type) {
    if (!is_given(instance)) {
        Py_INCREF(object);
        return object;
    }
    return PyObject_CallFunctionObjArgs(package.method_type, object, instance, NULL);
}

static int timed_function_init(PyObject* object, PyObject* args, PyObject* keywords) {
    timed_function_object* self = (timed_function_object*)object;
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

static PyObject* timed_function_repr(PyObject* object) {
    return PyUnicode_FromFormat("<timed %R>", ((timed_function_object*)object)->function);
}

static PyObject* timed_function_dict(PyObject* object, void* unused) {
    timed_function_object* self = (timed_function_object*)object;
    if (self->attributes == NULL) self->attributes = PyDict_New();
    Py_XINCREF(self->attributes);
    return self->attributes;
}

HAS_REFERENCES(timed_function, attributes)

static int timed_function_clear(PyObject* object) {
    timed_function_object* self = (timed_function_object*)object;
    Py_CLEAR(self->attributes);
    return 0;
}

static void timed_function_free(PyObject* object) {
    PyObject_GC_UnTrack(object);  // weak references may run code
    if (((timed_function_object*)object)->weak_references != NULL) PyObject_ClearWeakRefs(object);
    timed_function_drop(object);
}

static PyMemberDef members[] = {
    MEMBER(timed_function, "__dictoffset__", T_PYSSIZET, attributes, READONLY),
    MEMBER(timed_function, "__weaklistoffset__", T_PYSSIZET, weak_references, READONLY),
    MEMBER(timed_function, "__vectorcalloffset__", T_PYSSIZET, pass_on, READONLY),
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef properties[] = {
    {(char*)"__dict__", timed_function_dict, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"__reduce__", timed_function_reduce, METH_NOARGS, NULL},
    {"__copy__", timed_function_copy, METH_NOARGS, NULL},
    {"__deepcopy__", timed_function_copy, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot timed_function_slots[] = {
    {Py_tp_init, timed_function_init},
    {Py_tp_dealloc, timed_function_free},
    {Py_tp_traverse, timed_function_traverse},
    {Py_tp_clear, timed_function_clear},
    {Py_tp_call, timed_function_call},
    {Py_tp_descr_get, timed_function_bind},
    {Py_tp_repr, timed_function_repr},
    {Py_tp_members, members},
    {Py_tp_getset, properties},
    {Py_tp_methods, methods},
    {0, NULL},
};

DEFINE_TYPE(timed_function, "TimedFunction",
            Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_HAVE_VECTORCALL);

HAS_REFERENCES(timed_copy, is_compiling)

static PyType_Slot timed_copy_slots[] = {
    {Py_tp_init, timed_copy_init},
    {Py_tp_dealloc, timed_copy_drop},
    {Py_tp_traverse, timed_copy_traverse},
    {Py_tp_call, timed_copy_call},
    {0, NULL},
};

DEFINE_TYPE(timed_copy, "TimedCopy", Py_TPFLAGS_HAVE_GC);
