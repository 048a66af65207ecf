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

static PyObject* connect(PyObject* module, PyObject* args) {
    package_objects given;
    PyObject* addresses = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!OO!OOOO!O", &PyTuple_Type, &addresses, &given.host, &PyDict_Type, &given.kinds,
                          &given.whole_number, &given.native_struct, &given.find_stream, &PyTuple_Type,
                          &given.not_failures, &given.method_type))
        return NULL;
    if (!connect_library(addresses)) return NULL;
    PyObject** objects = (PyObject**)&given;
    for (size_t i = 0; i < sizeof given / sizeof(void*); ++i) Py_INCREF(objects[i]);  // for the life of the process
    package = given;
    return new_none();
}

static PyObject* connect_torch(PyObject* module, PyObject* args) {
    torch_objects given;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOOO", &given.note_failure, &given.not_finished, &given.unmeasured,
                          &given.keep_tensors, &given.tensor, &given.tensors_in))
        return NULL;
    PyObject** objects = (PyObject**)&given;
    for (size_t i = 0; i < sizeof given / sizeof(void*); ++i) Py_INCREF(objects[i]);  // for the life of the process
    hooks = given;
    return new_none();
}

static PyObject* end_done(PyObject* module, PyObject* profiler) {
    (void)module;
    return end_done_spans(profiler) ? new_none() : NULL;
}

static PyObject* expected_callbacks(PyObject* module, PyObject* unused) {
    (void)module;
    (void)unused;
    return count_callbacks();
}

static PyMethodDef functions[] = {
    {"connect", connect, METH_VARARGS, NULL},
    {"connect_torch", connect_torch, METH_VARARGS, NULL},
    {"end_done_spans", end_done, METH_O,
     "Ends the spans of asynchronous collectives on the host whose work has ended. Cheap if there are none."},
    {"expected_callbacks", expected_callbacks, METH_NOARGS,
     "Whether there have been spans that a future ends, and how many are not freed."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "cep._native",
    .m_size = -1,
    .m_methods = functions,
};

#define DEFINE_TYPE(name) PyTypeObject* name##_type;
EACH_TYPE(DEFINE_TYPE)

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
