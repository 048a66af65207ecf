// SPDX-License-Identifier: Apache-2.0
//
// The struct of a region's attributes. Plain numbers and texts are converted here; the package converts all others, and
// raises for invalid ones.
#include "native.h"

#include <math.h>
#include <string.h>

static bool plain_integer(PyObject* given, int64_t* out) {
    if (given == Py_None) return true;
    if (!PyLong_CheckExact(given)) return false;
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(given, &overflow);
    if (overflow != 0 || value < 0) return false;
    *out = value;
    return true;
}

static bool plain_number(PyObject* given, double* out) {
    if (given == Py_None) return true;
    if (!PyFloat_CheckExact(given)) return false;
    *out = PyFloat_AsDouble(given);
    return isfinite(*out) && *out >= 0;
}

/// Gives the text to `owner`.
static bool plain_text(PyObject* given, PyObject** owner, const char** out) {
    if (given == Py_None) return true;
    if (!PyUnicode_CheckExact(given)) return false;
    PyObject* text = PyUnicode_AsUTF8String(given);
    if (text == NULL) return false;
    const Py_ssize_t size = PyBytes_Size(text);
    const char* bytes = PyBytes_AsString(text);
    *owner = text;
    *out = bytes;
    return 0 < size && size <= group_max_bytes && strlen(bytes) == (size_t)size;
}

static bool convert_plain(PyObject* given, cep_attrs* attrs, PyObject** owner) {
    const Py_ssize_t size = PyTuple_Size(given);
    if (size < attribute_count || PyTuple_GetItem(given, meta_at) != Py_None) return false;
    if (size > is_async_at && PyTuple_GetItem(given, is_async_at) == Py_True) attrs->flags = CEP_ATTRS_ASYNC;
    if (PyTuple_GetItem(given, coll_at) != Py_None && PyTuple_GetItem(given, group_at) == Py_None) return false;
    return plain_integer(PyTuple_GetItem(given, bytes_at), &attrs->bytes) &&
           plain_number(PyTuple_GetItem(given, flops_at), &attrs->flops) &&
           plain_integer(PyTuple_GetItem(given, coll_at), &attrs->coll) &&
           plain_text(PyTuple_GetItem(given, group_at), owner, &attrs->group);
}

/// The package's own conversion, which knows all types and raises.
static bool convert_by_package(PyObject* given, cep_attrs* attrs, PyObject** owner) {
    PyObject* made = PyObject_CallFunctionObjArgs(package.native_struct, given, NULL);
    if (made == NULL) return false;
    PyObject* keeper = PyTuple_GetItem(made, 0);
    PyObject* number = PyTuple_GetItem(made, 1);
    void* address = NULL;
    const bool converted = keeper != NULL && number != NULL && address_of(number, &address) && address != NULL;
    if (converted) {
        memcpy(attrs, address, sizeof *attrs);
        Py_INCREF(keeper);
        *owner = keeper;
    }
    Py_DECREF(made);
    return converted;
}

bool fill_attrs(region_object* self) {
    PyObject* owner = NULL;
    cep_attrs attrs = CEP_ATTRS_INIT;
    if (!convert_plain(self->attributes, &attrs, &owner)) {
        Py_CLEAR(owner);
        PyErr_Clear();
        attrs = (cep_attrs)CEP_ATTRS_INIT;
        if (!convert_by_package(self->attributes, &attrs, &owner)) return false;
    }
    if (self->has_attrs) {  // another thread was first, and may be using them
        Py_XDECREF(owner);
        return true;
    }
    self->attrs = attrs;
    self->attrs_owner = owner;
    self->has_attrs = true;
    return true;
}
