// SPDX-License-Identifier: Apache-2.0
//
// BackwardCalls: the backward of models. See cep/torch/_backward.py.
#include "native.h"

typedef struct {
    PyObject_HEAD PyObject* profiler;
    PyObject* phase;           ///< OpenSpans
    PyObject* queue_callback;  ///< of the autograd engine
    PyObject* after;           ///< called at the end; NULL or None: nothing
    PyObject* leaf_hooks;      ///< of outputs that are parameters or inputs, by id(); others' go with their graph
    char is_running;           ///< from the first gradient to the end
    char has_watched;          ///< an output of the last forward
} backward_object;

static PyObject* none_or_failure(bool done) {
    return done || note_failure() ? new_none() : NULL;
}

static bool remove_leaf_hooks(backward_object* self) {
    PyObject* hooks_then = self->leaf_hooks;
    if (hooks_then == NULL) return true;
    self->leaf_hooks = NULL;
    PyObject *key = NULL, *handle = NULL;
    bool removed = true;
    for (Py_ssize_t at = 0; PyDict_Next(hooks_then, &at, &key, &handle);)
        removed = is_done(CALL_METHOD(handle, "remove", NULL)) && removed;
    Py_DECREF(hooks_then);
    return removed;
}

/// At the end of the engine's run, or where that was not seen, with an error.
static bool finish(backward_object* self, PyObject* error) {
    // DDP has waited for its all-reduces.
    const bool ended = end_done_spans(self->profiler) && end_keyed_span(self->phase, 0, error) &&
                       (!is_given(self->after) || is_done(PyObject_CallObject(self->after, NULL))) &&
                       remove_leaf_hooks(self);
    self->is_running = false;
    return ended;
}

static bool queue(PyObject* self, PyObject* (*call)(hook_object*, PyObject*, PyObject*)) {
    PyObject* hook = new_hook(self, NULL, call);
    PyObject* queued = call_with(((backward_object*)self)->queue_callback, hook);
    Py_XDECREF(hook);
    return is_done(queued);
}

static PyObject* call_finish(hook_object* hook, PyObject* args, PyObject* keywords) {
    return none_or_failure(finish((backward_object*)hook->owner, NULL));
}

/// Queues the end behind the callbacks of DDP and FSDP, which were queued after this one.
static PyObject* call_queue_last(hook_object* hook, PyObject* args, PyObject* keywords) {
    return none_or_failure(queue(hook->owner, call_finish));
}

const profiler_object* profiler_of_backward(PyObject* object) {
    return (profiler_object*)((backward_object*)object)->profiler;
}

/// As the hook of a tensor: at a gradient of an output.
static PyObject* backward_call(backward_object* self, PyObject* args, PyObject* keywords) {
    if (self->is_running || !is_recording((profiler_object*)self->profiler)) return new_none();
    self->is_running = true;
    return none_or_failure(begin_keyed_span(self->phase, 0) && queue((PyObject*)self, call_queue_last));
}

bool abandon_backward(PyObject* object) {
    backward_object* self = (backward_object*)object;
    return !self->is_running || finish(self, hooks.not_finished);
}

bool end_before_optimizer(PyObject* object) {
    return end_done_spans(((backward_object*)object)->profiler) && abandon_backward(object);
}

static PyObject* backward_abandon(PyObject* object, PyObject* unused) {
    return none_or_failure(end_before_optimizer(object));
}

/// What register_hook() does, without the Python in it. The hook is its own key.
static bool hook_output(backward_object* self, PyObject* tensor, PyObject* node) {
    if ((PyObject*)Py_TYPE(tensor) != hooks.tensor) return is_done(CALL_METHOD(tensor, "register_hook", self, NULL));
    PyObject* place = ATTRIBUTE(tensor, "_backward_hooks");
    if (place == NULL) return false;
    const bool is_new = place == Py_None;
    if (is_new) Py_DECREF(place);
    if (is_new) place = PyObject_CallObject(hooks.ordered_dict, NULL);
    bool added = place != NULL && PyObject_SetItem(place, (PyObject*)self, (PyObject*)self) == 0;
    if (is_new)
        added = added && SET_ATTRIBUTE(tensor, "_backward_hooks", place) &&
                is_done(CALL_METHOD(node, "_register_hook_dict", tensor, NULL));
    Py_XDECREF(place);
    return added;
}

static bool hook_leaf(backward_object* self, PyObject* tensor) {
    if (self->leaf_hooks == NULL && (self->leaf_hooks = PyDict_New()) == NULL) return false;
    PyObject* key = PyLong_FromVoidPtr(tensor);
    PyObject* handle = key != NULL && PyDict_Contains(self->leaf_hooks, key) == 0
                           ? CALL_METHOD(tensor, "register_hook", self, NULL)
                           : NULL;
    const bool hooked = handle == NULL || PyDict_SetItem(self->leaf_hooks, key, handle) == 0;
    DROP(key, handle);
    return hooked && PyErr_Occurred() == NULL;
}

static bool watch_tensor(backward_object* self, PyObject* tensor) {
    PyObject* node = ATTRIBUTE(tensor, "grad_fn");
    const bool is_leaf = node == Py_None;
    const bool hooked = node != NULL && !is_leaf && hook_output(self, tensor, node);
    Py_XDECREF(node);
    self->has_watched |= hooked;
    if (!is_leaf) return hooked;
    const int has_gradient = truth_of(ATTRIBUTE(tensor, "requires_grad"));
    return has_gradient == 0 || (has_gradient > 0 && hook_leaf(self, tensor));
}

bool is_backward_running(PyObject* object) {
    return ((backward_object*)object)->is_running;
}

bool has_watched_output(PyObject* object) {
    return ((backward_object*)object)->has_watched;
}

bool watch_output(PyObject* object, PyObject* output) {
    backward_object* self = (backward_object*)object;
    self->has_watched = false;
    const int is_tensor = PyObject_IsInstance(output, hooks.tensor);
    if (is_tensor != 0) return is_tensor > 0 && watch_tensor(self, output);
    PyObject* tensors = PyObject_CallFunctionObjArgs(hooks.tensors_in, output, NULL);
    for (Py_ssize_t i = 0, count = tensors != NULL ? PyList_Size(tensors) : 0; i < count; ++i) {
        if (watch_tensor(self, PyList_GetItem(tensors, i))) continue;
        Py_DECREF(tensors);
        return false;
    }
    return is_done(tensors);
}

static PyObject* backward_watch(PyObject* object, PyObject* output) {
    return none_if(watch_output(object, output));
}

static PyObject* backward_unwatch(backward_object* self, PyObject* unused) {
    return none_if(remove_leaf_hooks(self));
}

static int backward_init(PyObject* object, PyObject* args, PyObject* keywords) {
    return TAKE_ARGUMENTS(object, args, profiler_type, open_spans_type, NULL);
}

CLEARS(backward, after, leaf_hooks)

COLLECTED_TYPE(
    backward, "BackwardCalls", Py_TPFLAGS_BASETYPE, leaf_hooks, nothing_else, SLOT(tp_init, backward_init),
    SLOT(tp_clear, backward_clear), SLOT(tp_call, backward_call),
    MEMBERS(MEMBER(backward, "after", T_OBJECT, after, 0)),
    METHODS(
        METHOD("watch", ONE_ARGUMENT(backward_watch),
               "Has the phase begin at the first gradient of a recorded forward's output."),
        METHOD("unwatch", NO_ARGUMENT(backward_unwatch), "Removes the hooks of parameters and inputs."),
        METHOD("__reduce__", NO_ARGUMENT(reduce_hook), NULL),
        METHOD("abandon", NO_ARGUMENT(backward_abandon),
               "Ends what an optimizer's step ends: collectives that are done, and a backward whose engine raised.")));
