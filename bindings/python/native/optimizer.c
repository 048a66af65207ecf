// SPDX-License-Identifier: Apache-2.0
//
// OptimizerCalls: the steps of an optimizer, and its hooks. See cep/torch/_optimizer.py.
#include "native.h"

enum { begin_at, end_at, hook_count };

typedef struct {
    PyObject_HEAD PyObject* profiler;
    PyObject* phase;               ///< OpenSpans
    PyObject* before;              ///< called before each step
    PyObject* after;               ///< a list of what is called after each, until one raises
    PyObject* is_nested;           ///< tells steps that others have called; None: there are none
    PyObject* places[hook_count];  ///< the optimizer's dictionaries of hooks
    PyObject* hooks[hook_count];
    char is_on;
} optimizer_object;

typedef struct {
    PyObject_HEAD PyObject* timer;
    int at;
} step_hook_object;

/// What takes the place of a closure given to step().
typedef struct {
    PyObject_HEAD PyObject* timer;
    PyObject* closure;
} timed_closure_object;

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

/// The span, if one has begun, ends before the closure, whose forward and backward are no part of it.
static PyObject* timed_closure_call(PyObject* object, PyObject* args, PyObject* keywords) {
    const timed_closure_object* self = (timed_closure_object*)object;
    const optimizer_object* timer = (optimizer_object*)self->timer;
    if (!end_keyed_span(timer->phase, this_thread(), NULL) && !note_failure()) return NULL;
    PyObject* result = PyObject_Call(self->closure, args, keywords);
    if (result == NULL || !is_recording((profiler_object*)timer->profiler)) return result;
    return after_hook(begin_keyed_span(timer->phase, this_thread()), result, (taken_error){NULL, NULL, NULL});
}

static PyObject* new_timed_closure(optimizer_object* self, PyObject* closure) {
    timed_closure_object* made = (timed_closure_object*)PyType_GenericAlloc(timed_closure_type, 0);
    if (made == NULL) return NULL;
    set_reference(&made->timer, (PyObject*)self);
    set_reference(&made->closure, closure);
    return (PyObject*)made;
}

static PyObject* with_timed_closure(optimizer_object* self, PyObject* args, PyObject* keywords) {
    const bool by_name = PyTuple_Size(args) < 2;
    PyObject* key = by_name ? TEXT("closure") : PyLong_FromLong(1);
    PyObject* changed = by_name ? PyDict_Copy(keywords) : PySequence_List(args);
    PyObject* closure = key != NULL && changed != NULL ? PyObject_GetItem(changed, key) : NULL;
    PyObject* timed = closure != NULL ? new_timed_closure(self, closure) : NULL;
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

static PyObject* step_hook_call(PyObject* object, PyObject* args, PyObject* unused) {
    const step_hook_object* self = (step_hook_object*)object;
    optimizer_object* timer = (optimizer_object*)self->timer;
    // The optimizer, the arguments of its step(), and those by name.
    if (PyTuple_Size(args) < 3) return PyErr_Format(PyExc_TypeError, "a step's hook takes 3 arguments, not %R", args);
    PyObject* optimizer = PyTuple_GetItem(args, 0);
    Py_INCREF(timer);
    PyObject* result = self->at == end_at
                           ? end_update(timer, optimizer)
                           : begin_update(timer, optimizer, PyTuple_GetItem(args, 1), PyTuple_GetItem(args, 2));
    if (result == NULL && note_failure()) result = new_none();
    Py_DECREF(timer);
    return result;
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

static PyObject* optimizer_turn(PyObject* object, PyObject* given) {
    optimizer_object* self = (optimizer_object*)object;
    const bool on = given == Py_True;
    if (!on && has_open_spans(self->phase)) return PyBool_FromLong(1);
    if (on == self->is_on) return PyBool_FromLong(0);
    self->is_on = on;
    return (on ? put_hooks(self) : take_hooks(self)) ? PyBool_FromLong(0) : NULL;
}

// ---- The types -----------------------------------------------------------------------------------------------------

static PyObject* new_hook(PyObject* timer, int at) {
    step_hook_object* made = (step_hook_object*)PyType_GenericAlloc(step_hook_type, 0);
    if (made == NULL) return NULL;
    set_reference(&made->timer, timer);
    made->at = at;
    return (PyObject*)made;
}

static int optimizer_init(PyObject* object, PyObject* args, PyObject* keywords) {
    optimizer_object* self = (optimizer_object*)object;
    if (TAKE_ARGUMENTS(object, args, profiler_type, open_spans_type, NULL, &PyList_Type, NULL, NULL, NULL) != 0)
        return -1;
    for (int at = 0; at < hook_count; ++at)
        if ((self->hooks[at] = new_hook(object, at)) == NULL) return -1;
    return 0;
}

HAS_REFERENCES(optimizer, hooks[end_at])

// The others stay: a hook that the collector has cleared may still be called.
static int optimizer_clear(PyObject* object) {
    optimizer_object* self = (optimizer_object*)object;
    for (PyObject** each = self->places; each < self->hooks + hook_count; ++each) Py_CLEAR(*each);
    return 0;
}

static PyMethodDef optimizer_methods[] = {
    {"turn", optimizer_turn, METH_O,
     "Puts the hooks on, or takes them off where no step is open, of another thread. Whether they are to go off."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot optimizer_slots[] = {
    {Py_tp_init, optimizer_init},   {Py_tp_dealloc, optimizer_drop},    {Py_tp_traverse, optimizer_traverse},
    {Py_tp_clear, optimizer_clear}, {Py_tp_methods, optimizer_methods}, {0, NULL},
};

DEFINE_TYPE(optimizer, "OptimizerCalls", Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC);

HAS_REFERENCES(timed_closure, closure)

static PyType_Slot timed_closure_slots[] = {
    {Py_tp_dealloc, timed_closure_drop},
    {Py_tp_traverse, timed_closure_traverse},
    {Py_tp_call, timed_closure_call},
    {0, NULL},
};

DEFINE_TYPE(timed_closure, "TimedClosure", Py_TPFLAGS_HAVE_GC);

HAS_REFERENCES(step_hook, timer)

static PyMethodDef step_hook_methods[] = {
    {"__reduce__", reduce_hook, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot step_hook_slots[] = {
    {Py_tp_dealloc, step_hook_drop},
    {Py_tp_traverse, step_hook_traverse},
    {Py_tp_call, step_hook_call},
    {Py_tp_methods, step_hook_methods},
    {0, NULL},
};

DEFINE_TYPE(step_hook, "StepHook", Py_TPFLAGS_HAVE_GC);
