// SPDX-License-Identifier: Apache-2.0
//
// OptimizerCalls: the steps of an optimizer, and its hooks. See cep/torch/_instrument.py.
#include "native.h"

enum { begin_at, end_at, hook_count };

typedef struct {
    PyObject_HEAD PyObject* profiler;
    PyObject* phase;               ///< Phase
    PyObject* before;              ///< called before each step
    PyObject* after;               ///< a list of what is called after each, until one raises
    PyObject* is_nested;           ///< tells steps that others have called; None: there are none
    PyObject* places[hook_count];  ///< the optimizer's dictionaries of hooks
    PyObject* hooks[hook_count];
    char is_on;
} optimizer_object;

// ---- Hooks ---------------------------------------------------------------------------------------------------------

/// Whether another step() has called this one; −1 with an exception.
static int is_nested_step(const optimizer_object* self, PyObject* optimizer) {
    return is_given(self->is_nested) ? truth_of(call_with(self->is_nested, optimizer)) : 0;
}

static bool has_closure(PyObject* args, PyObject* keywords) {
    if (PyTuple_Size(args) > 1) return PyCallable_Check(PyTuple_GetItem(args, 1));
    PyObject* closure = keywords != NULL ? PyDict_GetItem(keywords, TEXT("closure")) : NULL;
    return closure != NULL && PyCallable_Check(closure);
}

/// In the place of a closure given to step(). The span, if one has begun, ends before the closure, whose forward and
/// backward are no part of it.
static PyObject* call_closure(hook_object* self, PyObject* args, PyObject* keywords) {
    const optimizer_object* timer = (optimizer_object*)self->owner;
    if (!end_keyed_span(timer->phase, this_thread(), NULL) && !note_failure()) return NULL;
    PyObject* result = PyObject_Call(self->original, args, keywords);
    if (result == NULL || !is_recording((profiler_object*)timer->profiler)) return result;
    return after_hook(begin_keyed_span(timer->phase, this_thread()), result, (taken_error){NULL, NULL, NULL});
}

static PyObject* with_timed_closure(optimizer_object* self, PyObject* args, PyObject* keywords) {
    const bool by_name = PyTuple_Size(args) < 2;
    PyObject* key = by_name ? TEXT("closure") : PyLong_FromLong(1);
    PyObject* changed = by_name ? PyDict_Copy(keywords) : PySequence_List(args);
    PyObject* closure = key != NULL && changed != NULL ? PyObject_GetItem(changed, key) : NULL;
    PyObject* timed = closure != NULL ? new_hook((PyObject*)self, closure, call_closure) : NULL;
    PyObject* result = NULL;
    if (timed != NULL && PyObject_SetItem(changed, key, timed) == 0)
        result =
            by_name ? Py_BuildValue("(OO)", args, changed) : Py_BuildValue("(NO)", PyList_AsTuple(changed), keywords);
    DROP(by_name ? NULL : key, changed, closure, timed);
    return result;
}

/// The step's arguments if they are others, or None; NULL with an exception.
static PyObject* begin_update(optimizer_object* self, PyObject* optimizer, PyObject* args, PyObject* keywords) {
    const bool recording = is_recording((profiler_object*)self->profiler);
    if (!recording && !has_open_spans(self->phase)) return new_none();
    const int nested = is_nested_step(self, optimizer);
    if (nested != 0) return nested > 0 ? new_none() : NULL;
    if (!is_done(PyObject_CallObject(self->before, NULL))) return NULL;
    const bool changes = has_closure(args, keywords);
    const unsigned long thread = this_thread();
    const bool done = recording && !changes ? begin_keyed_span(self->phase, thread)
                                            : end_keyed_span(self->phase, thread, hooks.not_finished);  // it raised
    if (!done || !changes) return none_if(done);
    return with_timed_closure(self, args, keywords);
}

static bool call_after(PyObject* after) {
    for (Py_ssize_t i = 0; i < PyList_Size(after); ++i)
        if (!is_done(PyObject_CallObject(PyList_GetItem(after, i), NULL))) {
            const taken_error error = take();
            (void)PyList_SetSlice(after, 0, PyList_Size(after), NULL);  // what fails once is left
            put_back(error);
            return false;
        }
    return true;
}

static PyObject* end_update(optimizer_object* self, PyObject* optimizer) {
    if (!has_open_spans(self->phase)) return new_none();
    const int nested = is_nested_step(self, optimizer);
    if (nested != 0) return nested > 0 ? new_none() : NULL;
    return none_if(end_keyed_span(self->phase, this_thread(), NULL) && call_after(self->after));
}

/// The arguments: the optimizer, those of its step(), and those by name.
static PyObject* call_begin(hook_object* self, PyObject* args, PyObject* unused) {
    PyObject *optimizer = NULL, *given = NULL, *named = NULL;
    const bool taken = PyArg_ParseTuple(args, "OOO", &optimizer, &given, &named);
    PyObject* result = taken ? begin_update((optimizer_object*)self->owner, optimizer, given, named) : NULL;
    return result == NULL && note_failure() ? new_none() : result;
}

static PyObject* call_end(hook_object* self, PyObject* args, PyObject* unused) {
    PyObject* optimizer = PyTuple_GetItem(args, 0);
    PyObject* result = optimizer != NULL ? end_update((optimizer_object*)self->owner, optimizer) : NULL;
    return result == NULL && note_failure() ? new_none() : result;
}

// ---- On and off ----------------------------------------------------------------------------------------------------

// A hook is its own key among the optimizer's.

static bool put_hooks(optimizer_object* self) {
    for (int at = 0; at < hook_count; ++at)
        if (PyObject_SetItem(self->places[at], self->hooks[at], self->hooks[at]) != 0) return false;
    return true;
}

static bool take_hooks(optimizer_object* self) {
    for (int at = 0; at < hook_count; ++at) {
        const int found = PySequence_Contains(self->places[at], self->hooks[at]);
        if (found < 0 || (found > 0 && PyObject_DelItem(self->places[at], self->hooks[at]) != 0)) return false;
    }
    return true;
}

static PyObject* optimizer_turn(optimizer_object* self, PyObject* given) {
    const bool on = given == Py_True;
    if (!on && has_open_spans(self->phase)) return PyBool_FromLong(1);
    if (on == self->is_on) return PyBool_FromLong(0);
    self->is_on = on;
    return (on ? put_hooks(self) : take_hooks(self)) ? PyBool_FromLong(0) : NULL;
}

// ---- The type ------------------------------------------------------------------------------------------------------

static int optimizer_init(optimizer_object* self, PyObject* args, PyObject* keywords) {
    if (TAKE_ARGUMENTS(self, args, profiler_type, open_spans_type, NULL, &PyList_Type, NULL, NULL, NULL) != 0)
        return -1;
    self->hooks[begin_at] = new_hook((PyObject*)self, NULL, call_begin);
    self->hooks[end_at] = new_hook((PyObject*)self, NULL, call_end);
    return self->hooks[begin_at] != NULL && self->hooks[end_at] != NULL ? 0 : -1;
}

CLEARS(optimizer, places[begin_at], hooks[end_at])

COLLECTED_TYPE(
    optimizer, "OptimizerCalls", Py_TPFLAGS_BASETYPE, hooks[end_at], nothing_else, SLOT(tp_init, optimizer_init),
    SLOT(tp_clear, optimizer_clear),
    METHODS(ROW(optimizer, turn, ONE_ARGUMENT,
                "Puts the hooks on, or takes them off where no step is open. Whether they are still to go off.")));
