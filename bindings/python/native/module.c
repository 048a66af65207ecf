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

/// Has functions run other code, where nobody else has changed it: a list of (function, its own code, the other).
static PyObject* turn_codes(PyObject* module, PyObject* args) {
    PyObject* codes = NULL;
    int on = 0;
    if (!PyArg_ParseTuple(args, "O!p", &PyList_Type, &codes, &on)) return NULL;
    for (Py_ssize_t i = 0; i < PyList_Size(codes); ++i) {
        PyObject* row = PyList_GetItem(codes, i);
        PyObject* function = PyTuple_GetItem(row, 0);
        OWNED now = ATTRIBUTE(function, "__code__");
        if (now == NULL) return NULL;
        if (now == PyTuple_GetItem(row, on ? 1 : 2) &&
            !SET_ATTRIBUTE(function, "__code__", PyTuple_GetItem(row, on ? 2 : 1)))
            return NULL;
    }
    return PyBool_FromLong(0);
}

static PyObject* is_inside(PyObject* module, PyObject* unused) {
    return PyBool_FromLong(*inside_of_thread());
}

static PyMethodDef functions[] = {
    {"connect", connect, METH_VARARGS, NULL},
    {"connect_torch", connect_torch, METH_VARARGS, NULL},
    {"expected_callbacks", expected_callbacks, METH_NOARGS,
     "Whether there have been spans that a future ends, and how many are not freed."},
    {"turn_codes", turn_codes, METH_VARARGS,
     "Has functions run other code, or their own: a list of (function, its own, the other), and whether."},
    {"seldom", seldom, METH_O, "What calls a function, at most once a second."},
    {"is_inside", is_inside, METH_NOARGS,
     "Whether this thread is in a function of torch.distributed that is timed: those that it calls get no rows."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "cep._native",
    .m_size = -1,
    .m_methods = functions,
};

PyTypeObject EACH_TYPE(TYPE_OF);

static const struct {
    PyTypeObject** type;
    PyType_Spec* spec;
} types[] = {
#define TYPE_ROW(name) \
    { &name##_type, &name##_spec }
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
