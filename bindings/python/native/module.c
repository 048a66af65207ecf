// SPDX-License-Identifier: Apache-2.0
#include "native.h"

#include <string.h>

/// Reads the functions' addresses, a sequence in the order of library_calls.
static bool connect_library(PyObject* addresses) {
    enum { count = sizeof(library_calls) / sizeof(void*) };
    void** functions = (void**)&library;
    if (PyTuple_Size(addresses) != count) {
        if (PyErr_Occurred() == NULL) PyErr_Format(PyExc_ValueError, "connect() takes %d addresses", (int)count);
        return false;
    }
    for (Py_ssize_t i = 0; i < count; ++i)
        if (!address_of(PyTuple_GetItem(addresses, i), &functions[i])) return false;
    return true;
}

/// Takes the objects of a tuple into a struct of them, for the life of the process.
static bool take_objects(PyObject* given, void* taken, size_t size) {
    const Py_ssize_t count = (Py_ssize_t)(size / sizeof(PyObject*));
    if (PyTuple_Size(given) != count) return PyErr_Format(PyExc_ValueError, "%zd objects are needed", count) != NULL;
    for (Py_ssize_t i = 0; i < count; ++i) set_reference((PyObject**)taken + i, PyTuple_GetItem(given, i));
    return true;
}

static PyObject* connect(PyObject* module, PyObject* args) {
    PyObject *addresses = NULL, *objects = NULL;
    if (!PyArg_ParseTuple(args, "OO", &addresses, &objects)) return NULL;
    return none_if(connect_library(addresses) && take_objects(objects, &package, sizeof package));
}

static PyObject* connect_torch(PyObject* module, PyObject* objects) {
    return none_if(take_objects(objects, &hooks, sizeof hooks));
}

static PyObject* end_done(PyObject* module, PyObject* profiler) {
    return none_if(end_done_spans(profiler));
}

static PyObject* get_place(PyObject* module, PyObject* unused) {
    return PyLong_FromLong(*place_of_thread());
}

static PyObject* set_place(PyObject* module, PyObject* place) {
    *place_of_thread() = (int)PyLong_AsLong(place);
    return PyErr_Occurred() == NULL ? new_none() : NULL;
}

static PyObject* watch(PyObject* module, PyObject* unused) {
    watch_nccl_calls();
    return new_none();
}

static PyObject* end_watching(PyObject* module, PyObject* unused) {
    return PyLong_FromVoidPtr(end_watching_nccl_calls());
}

static PyMethodDef functions[] = {
    {"connect", connect, METH_VARARGS, NULL},
    {"connect_torch", connect_torch, METH_VARARGS, NULL},
    {"end_done_spans", end_done, METH_O,
     "Ends the spans of asynchronous collectives on the host whose work has ended. Cheap if there are none."},
    {"expected_callbacks", expected_callbacks, METH_NOARGS,
     "Whether there have been spans that a future ends, and how many are not freed."},
    {"get_place", get_place, METH_NOARGS,
     "Where this thread is: one of cep.torch._hooks' OUTSIDE, IN_TIMED and IN_PASSED."},
    {"set_place", set_place, METH_O, "Says so."},
    {"watch_nccl_calls", watch, METH_NOARGS,
     "Begins to note the communicator of this thread's calls of NCCL, and times none."},
    {"end_watching_nccl_calls", end_watching, METH_NOARGS,
     "Ends that. Returns the last one's address; 0: there was none."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "cep._native",
    .m_size = -1,
    .m_methods = functions,
};

#define TYPE_VARIABLE(name) PyTypeObject* name##_type;
EACH_TYPE(TYPE_VARIABLE)

static const struct {
    PyTypeObject** type;
    PyType_Spec* spec;
} types[] = {
#define TYPE_ROW(name) {&name##_type, &name##_spec},
    EACH_TYPE(TYPE_ROW)};

static bool add_types(PyObject* module) {
    for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
        PyObject* type = PyType_FromSpec(types[i].spec);
        if (type == NULL) return false;
        *types[i].type = (PyTypeObject*)type;  // for the life of the process
        Py_INCREF(type);
        if (PyModule_AddObject(module, strrchr(types[i].spec->name, '.') + 1, type) != 0) return false;
    }
    return add_with_calls();
}

PyMODINIT_FUNC PyInit__native(void);
PyMODINIT_FUNC PyInit__native(void) {
    PyObject* module = PyModule_Create(&definition);
    if (module == NULL || add_types(module)) return module;
    Py_DECREF(module);
    return NULL;
}
