// SPDX-License-Identifier: Apache-2.0
//
// The floor for a region in Python: a type whose `with` block makes two bare cuEventRecord() calls and nothing else.
// For price.py.
#include <Python.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <structmember.h>

#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080
#endif

static int (*event_create)(void** event, unsigned flags);
static int (*event_record)(void* event, void* stream);

typedef struct {
    PyObject_HEAD void** events;
    Py_ssize_t count, next;
    void* stream;
} bare_records;

static PyObject* failed(const char* what, int code) {
    return PyErr_Format(PyExc_RuntimeError, "%s: error %d", what, code);
}

static int load_driver(void) {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == NULL) return -1;
    *(void**)&event_create = dlsym(driver, "cuEventCreate");
    *(void**)&event_record = dlsym(driver, "cuEventRecord");
    return event_create != NULL && event_record != NULL ? 0 : -1;
}

static int bare_records_init(PyObject* object, PyObject* args, PyObject* keywords) {
    bare_records* self = (bare_records*)object;
    unsigned long long stream = 0;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "Kn", &stream, &self->count)) return -1;
    if (event_record == NULL && load_driver() != 0) {
        PyErr_SetString(PyExc_RuntimeError, "no CUDA driver");
        return -1;
    }
    self->stream = (void*)(uintptr_t)stream;
    self->events = calloc((size_t)self->count, sizeof *self->events);
    for (Py_ssize_t i = 0; self->events != NULL && i < self->count; ++i) {
        const int code = event_create(&self->events[i], 0);
        if (code != 0) return failed("cuEventCreate", code) == NULL ? -1 : 0;
    }
    return self->events != NULL ? 0 : -1;
}

static PyObject* record(PyObject* object) {
    bare_records* self = (bare_records*)object;
    const int code = event_record(self->events[self->next], self->stream);
    self->next = self->next + 1 == self->count ? 0 : self->next + 1;
    if (code != 0) return failed("cuEventRecord", code);
    Py_INCREF(Py_None);
    return Py_None;
}

static PyObject* bare_records_record(PyObject* object, PyObject* unused) {
    (void)unused;
    return record(object);
}

static PyObject* bare_records_exit(PyObject* object, PyObject* const* args, Py_ssize_t count) {
    (void)args, (void)count;
    return record(object);
}

static void bare_records_free(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    free(((bare_records*)object)->events);  // the events stay: the process is about to end
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"__enter__", bare_records_record, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))bare_records_exit, METH_FASTCALL, NULL},
    {"record", bare_records_record, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_init, bare_records_init}, {Py_tp_dealloc, bare_records_free}, {Py_tp_methods, methods}, {0, NULL}};

static PyType_Spec spec = {
    .name = "bare_records.BareRecords",
    .basicsize = sizeof(bare_records),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

static struct PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT, .m_name = "bare_records", .m_size = -1};

PyMODINIT_FUNC PyInit_bare_records(void);
PyMODINIT_FUNC PyInit_bare_records(void) {
    PyObject* module = PyModule_Create(&definition);
    PyObject* type = module != NULL ? PyType_FromSpec(&spec) : NULL;
    if (type != NULL && PyModule_AddObject(module, "BareRecords", type) == 0) return module;
    Py_XDECREF(type);
    Py_XDECREF(module);
    return NULL;
}
