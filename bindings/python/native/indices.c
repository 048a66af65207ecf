// SPDX-License-Identifier: Apache-2.0
//
// Indices: the indices of a group's collectives: see cep/torch/_groups.py.
#include "native.h"

enum { collectives_per_step = 1000000 };  // in decimal, so that people can read the step in an index

typedef struct {
    PyObject_HEAD long long next;
} indices_object;

long long take_index(PyObject* object, long long step, long long count) {
    long long* next = &((indices_object*)object)->next;
    const long long first = step * collectives_per_step;
    long long seen = __atomic_load_n(next, __ATOMIC_RELAXED), taken = 0;
    do {
        taken = seen < first ? first : seen;
    } while (!__atomic_compare_exchange_n(next, &seen, taken + count, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return taken;
}

static PyObject* indices_take(PyObject* object, PyObject* args) {
    long long step = 0, count = 1;
    if (!PyArg_ParseTuple(args, "L|L", &step, &count)) return NULL;
    return PyLong_FromLongLong(take_index(object, step, count));
}

static PyObject* indices_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
    return PyType_GenericAlloc(type, 0);
}

static void indices_free(PyObject* object) {
    free_object(object, 0);
}

DEFINE_TYPE(indices, "Indices", 0, SLOT(tp_new, indices_new), SLOT(tp_dealloc, indices_free),
            METHODS(METHOD("take", ARGUMENTS(indices_take),
                           "The next index in a step; the one after it is `count` higher.")));
