// SPDX-License-Identifier: Apache-2.0
#include "native.h"

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

static PyMethodDef functions[] = {
    {"connect", connect, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "cep._native",
    .m_size = -1,
    .m_methods = functions,
};

static PyObject* add_type(PyObject* module, PyType_Spec* spec, const char* name) {
    PyObject* type = PyType_FromSpec(spec);
    if (type == NULL) return NULL;
    Py_INCREF(type);
    if (PyModule_AddObject(module, name, type) == 0) return type;
    Py_DECREF(type);
    Py_DECREF(type);
    return NULL;
}

static bool add_types(PyObject* module) {
    profiler_type = (PyTypeObject*)add_type(module, &profiler_spec, "ProfilerCalls");
    region_type = (PyTypeObject*)add_type(module, &region_spec, "RegionCalls");
    PyObject* timed_function = add_type(module, &timed_function_spec, "TimedFunction");
    PyObject* open_spans = add_type(module, &open_spans_spec, "OpenSpans");
    return profiler_type != NULL && region_type != NULL && timed_function != NULL && open_spans != NULL &&
           add_with_calls();
}

PyMODINIT_FUNC PyInit__native(void);
PyMODINIT_FUNC PyInit__native(void) {
    PyObject* module = PyModule_Create(&definition);
    if (module == NULL || add_types(module)) return module;
    Py_DECREF(module);
    return NULL;
}
