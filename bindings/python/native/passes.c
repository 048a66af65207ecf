// SPDX-License-Identifier: Apache-2.0
//
// BackwardCalls, ForwardCalls and OptimizerCalls: the passes of models, and the steps of optimizers with their hooks:
// see cep/torch/_instrument.py.
#include "native.h"

// ---- Backward -------------------------------------------------------------------------------------------------------

typedef struct {
    PyObject_HEAD PyObject* profiler;
    PyObject* phase;           ///< Phase
    PyObject* queue_callback;  ///< of the autograd engine
    PyObject* after;           ///< called at the end; NULL or None: nothing
    PyObject* leaf_hooks;      ///< of outputs that are parameters or inputs, by id(); others' go with their graph
    char is_running;           ///< from the first gradient to the end
    char has_watched;          ///< whether the last output had a tensor whose gradient begins this
} backward_object;

static bool remove_leaf_hooks(backward_object* self) {
    OWNED hooks_then = self->leaf_hooks;
    if (hooks_then == NULL) return true;
    self->leaf_hooks = NULL;
    PyObject *key = NULL, *handle = NULL;
    bool removed = true;
    for (Py_ssize_t at = 0; PyDict_Next(hooks_then, &at, &key, &handle);)
        removed = is_done(CALL_METHOD(handle, "remove", NULL)) && removed;
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
    OWNED hook = new_hook(self, NULL, call);
    return is_done(call_with(((backward_object*)self)->queue_callback, hook));
}

static PyObject* call_finish(hook_object* hook, PyObject* args, PyObject* keywords) {
    return none_if(finish((backward_object*)hook->owner, NULL) || note_failure());
}

/// Queues the end behind the callbacks of DDP and FSDP, which were queued after this one.
static PyObject* call_queue_last(hook_object* hook, PyObject* args, PyObject* keywords) {
    return none_if(queue(hook->owner, call_finish) || note_failure());
}

/// As the hook of a tensor: at a gradient of an output.
static PyObject* backward_call(backward_object* self, PyObject* args, PyObject* keywords) {
    if (self->is_running || !is_recording((profiler_object*)self->profiler)) return new_none();
    self->is_running = true;
    return none_if((begin_keyed_span(self->phase, 0) && queue((PyObject*)self, call_queue_last)) || note_failure());
}

/// Ends one whose end was not seen.
static bool abandon_backward(backward_object* self) {
    return !self->is_running || finish(self, hooks.not_finished);
}

/// Ends what an optimizer's step ends: also the collectives that are done.
static bool end_before_optimizer(backward_object* self) {
    return end_done_spans(self->profiler) && abandon_backward(self);
}

NONE_METHOD(backward, abandon, end_before_optimizer(self) || note_failure())

/// What register_hook() does, without the Python in it. The hook is its own key.
static bool hook_output(backward_object* self, PyObject* tensor, PyObject* node) {
    if ((PyObject*)Py_TYPE(tensor) != hooks.tensor) return is_done(CALL_METHOD(tensor, "register_hook", self, NULL));
    OWNED place = ATTRIBUTE(tensor, "_backward_hooks");
    if (place == NULL) return false;
    if (place != Py_None) return PyObject_SetItem(place, (PyObject*)self, (PyObject*)self) == 0;
    OWNED made = PyObject_CallObject(hooks.ordered_dict, NULL);
    return made != NULL && PyObject_SetItem(made, (PyObject*)self, (PyObject*)self) == 0 &&
           SET_ATTRIBUTE(tensor, "_backward_hooks", made) &&
           is_done(CALL_METHOD(node, "_register_hook_dict", tensor, NULL));
}

static bool hook_leaf(backward_object* self, PyObject* tensor) {
    if (self->leaf_hooks == NULL && (self->leaf_hooks = PyDict_New()) == NULL) return false;
    OWNED key = PyLong_FromVoidPtr(tensor);
    if (key == NULL || PyDict_Contains(self->leaf_hooks, key) != 0) return PyErr_Occurred() == NULL;
    OWNED handle = CALL_METHOD(tensor, "register_hook", self, NULL);
    return handle != NULL && PyDict_SetItem(self->leaf_hooks, key, handle) == 0;
}

static bool watch_tensor(backward_object* self, PyObject* tensor) {
    OWNED node = ATTRIBUTE(tensor, "grad_fn");
    if (node != Py_None) {
        const bool hooked = node != NULL && hook_output(self, tensor, node);
        self->has_watched |= hooked;
        return hooked;
    }
    const int has_gradient = truth_of(ATTRIBUTE(tensor, "requires_grad"));
    return has_gradient == 0 || (has_gradient > 0 && hook_leaf(self, tensor));
}

/// Has the backward begin at the first gradient of a forward's output.
static bool watch_output(backward_object* self, PyObject* output) {
    self->has_watched = false;
    const int is_tensor = PyObject_IsInstance(output, hooks.tensor);
    if (is_tensor != 0) return is_tensor > 0 && watch_tensor(self, output);
    OWNED tensors = PyObject_CallFunctionObjArgs(hooks.tensors_in, output, NULL);
    for (Py_ssize_t i = 0; tensors != NULL && i < PyList_Size(tensors); ++i)
        if (!watch_tensor(self, PyList_GetItem(tensors, i))) return false;
    return tensors != NULL;
}

NONE_METHOD(backward, watch, watch_output(self, argument))
NONE_METHOD(backward, unwatch, remove_leaf_hooks(self))
TAKES(backward, profiler_type, open_spans_type, NULL)
CLEARS(backward, after, leaf_hooks)

COLLECTED_TYPE(
    backward, "BackwardCalls", Py_TPFLAGS_BASETYPE, leaf_hooks, nothing_else, SLOT(tp_init, backward_init),
    SLOT(tp_clear, backward_clear), SLOT(tp_call, backward_call),
    MEMBERS(MEMBER(backward, "after", T_OBJECT, after, 0)),
    METHODS(ROW(backward, watch, ONE_ARGUMENT,
                "Has the phase begin at the first gradient of a recorded forward's output."),
            ROW(backward, unwatch, NO_ARGUMENT, "Removes the hooks of parameters and inputs."),
            METHOD("__reduce__", NO_ARGUMENT(reduce_hook), NULL),
            ROW(backward, abandon, NO_ARGUMENT,
                "Ends what an optimizer's step ends: collectives that are done, and a backward whose engine raised.")));

// ---- Forward --------------------------------------------------------------------------------------------------------

enum { forward_at, no_grad_at, backward_at, graph_task_at, is_grad_enabled_at, part_count };

typedef struct {
    PyObject_HEAD PyObject* model;
    PyObject* parts[part_count];
    PyObject* before;  ///< called with the model before each of its calls, recorded or not; NULL or None: nothing
    PyObject* after;   ///< called with the output of a forward with gradients; NULL or None: nothing
    PyObject* timed;   ///< a hook_object: what takes the place of the model's call
    PyObject* beside;  ///< what was in that place before; NULL: nothing
    bool is_on, is_placed;
    bool asks_engine;  ///< whether a call is inside of a backward: others are known to be outside
    int asked;
} forward_object;

enum { first_calls = 16 };

static backward_object* backward_of(const forward_object* self) {
    return (backward_object*)self->parts[backward_at];
}

/// A call inside of a backward repeats one that was made without gradients, or whose output has begun that backward, or
/// the model has been called so from the first. The engine is not asked of others, which takes microseconds.
static bool is_in_graph_task(forward_object* self) {
    const bool is_new = self->asked < first_calls;
    if (!is_new && !self->asks_engine && !backward_of(self)->is_running) return false;
    OWNED task = PyObject_CallObject(self->parts[graph_task_at], NULL);
    const bool found = task != NULL && PyLong_AsLongLong(task) != -1;
    self->asked += is_new;
    self->asks_engine |= found;
    return found;
}

/// The phase that times a call (borrowed); NULL for one inside of a call or of a backward (activation checkpointing),
/// which is part of that, or with an exception.
static PyObject* begin_forward(forward_object* self) {
    if (!self->is_on || !is_recording((profiler_object*)backward_of(self)->profiler) || is_in_graph_task(self))
        return NULL;
    if (!abandon_backward(backward_of(self))) return NULL;
    const unsigned long thread = this_thread();
    if (has_keyed_span(self->parts[forward_at], thread) || has_keyed_span(self->parts[no_grad_at], thread)) return NULL;
    const bool has_gradients = truth_of(PyObject_CallObject(self->parts[is_grad_enabled_at], NULL)) > 0;
    PyObject* phase = self->parts[has_gradients ? forward_at : no_grad_at];
    self->asks_engine |= !has_gradients;
    return PyErr_Occurred() == NULL && begin_keyed_span(phase, thread) ? phase : NULL;
}

static bool end_forward(forward_object* self, PyObject* phase, PyObject* output, PyObject* error) {
    const unsigned long thread = this_thread();
    if (!has_keyed_span(phase, thread)) return true;  // abandoned
    if (!end_keyed_span(phase, thread, error)) return false;
    if (output == NULL || phase != self->parts[forward_at]) return true;
    if (!watch_output(backward_of(self), output)) return false;
    self->asks_engine |= !backward_of(self)->has_watched;
    return !is_given(self->after) || is_done(PyObject_CallFunctionObjArgs(self->after, output, NULL));
}

static PyObject* call_model(hook_object* hook, PyObject* args, PyObject* keywords) {
    forward_object* self = (forward_object*)hook->owner;
    if (is_given(self->before) && !is_done(call_with(self->before, self->model)) && !note_failure()) return NULL;
    PyObject* phase = begin_forward(self);
    if (phase == NULL && !note_failure()) return NULL;
    PyObject* output = PyObject_Call(hook->original, args, keywords);
    if (phase == NULL) return output;
    taken_error error = take();
    return after_hook(end_forward(self, phase, output, error.type), output, error);
}

// The place is that of module.compile(). Unlike a hook it is no part of what torch.compile compiles, and it is neither
// copied nor pickled with the module. A module of PyTorch's looks at what setattr() sets for long: this goes past it.

#define PLACE TEXT("_compiled_call_impl")

static bool put_in_place(forward_object* self, PyObject* attributes) {
    PyObject* beside = PyDict_GetItem(attributes, PLACE);
    if (self->timed == NULL || beside != self->beside) {
        OWNED original = is_given(beside) ? (Py_INCREF(beside), beside) : ATTRIBUTE(self->model, "_call_impl");
        OWNED made = original != NULL ? new_hook((PyObject*)self, original, call_model) : NULL;
        set_reference(&self->timed, made);
        set_reference(&self->beside, beside);
    }
    self->is_placed = self->timed != NULL;
    return self->is_placed && PyDict_SetItem(attributes, PLACE, self->timed) == 0;
}

/// Puts back what was there, without the calls that are no longer wanted. If somebody has replaced this since, that
/// stays, and what it calls does no more than the original.
static bool take_away(forward_object* self, PyObject* attributes) {
    self->is_placed = false;
    if (PyDict_GetItem(attributes, PLACE) != self->timed) return true;
    PyObject* found = self->beside;
    while (found != NULL && Py_TYPE(found) == hook_type && ((hook_object*)found)->call == call_model) {
        const forward_object* other = (forward_object*)((hook_object*)found)->owner;
        if (other->is_placed) break;
        found = other->beside;
    }
    return (found != NULL ? PyDict_SetItem(attributes, PLACE, found) : PyDict_DelItem(attributes, PLACE)) == 0;
}

/// The model's call is replaced while it is timed, and while each call is announced.
static bool follow(forward_object* self) {
    const bool wanted = self->is_on || is_given(self->before);
    if (wanted == self->is_placed) return true;
    OWNED attributes = ATTRIBUTE(self->model, "__dict__");
    return attributes != NULL && (wanted ? put_in_place(self, attributes) : take_away(self, attributes));
}

static PyObject* forward_turn(forward_object* self, PyObject* on) {
    if (on == Py_False && (has_open_spans(self->parts[forward_at]) || has_open_spans(self->parts[no_grad_at])))
        return PyBool_FromLong(1);
    self->is_on = on == Py_True;
    return follow(self) ? PyBool_FromLong(0) : NULL;
}

NONE_METHOD(forward, announce, (set_reference(&self->before, argument), follow(self)))

NONE_METHOD(forward, abandon,
            end_keyed_span(self->parts[forward_at], this_thread(), hooks.not_finished) &&
                end_keyed_span(self->parts[no_grad_at], this_thread(), hooks.not_finished) &&
                end_before_optimizer(backward_of(self)))

TAKES(forward, NULL, open_spans_type, open_spans_type, backward_type, NULL, NULL)
CLEARS(forward, before, beside)

COLLECTED_TYPE(
    forward, "ForwardCalls", Py_TPFLAGS_BASETYPE, beside, nothing_else, SLOT(tp_init, forward_init),
    SLOT(tp_clear, forward_clear), MEMBERS(MEMBER(forward, "after", T_OBJECT, after, 0)),
    METHODS(ROW(forward, turn, ONE_ARGUMENT,
                "Times calls; no more where no call is open, of another thread; None: no more. Whether it goes on."),
            ROW(forward, announce, ONE_ARGUMENT, "Has a function called before each call of the model; None: no more."),
            ROW(forward, abandon, NO_ARGUMENT,
                "Ends what an optimizer's step ends: also a forward of this thread, in which it steps.")));

// ---- Optimizers -----------------------------------------------------------------------------------------------------

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
    OWNED second = PyLong_FromLong(1);
    PyObject* key = by_name ? TEXT("closure") : second;
    OWNED changed = by_name ? PyDict_Copy(keywords) : PySequence_List(args);
    OWNED closure = key != NULL && changed != NULL ? PyObject_GetItem(changed, key) : NULL;
    OWNED timed = closure != NULL ? new_hook((PyObject*)self, closure, call_closure) : NULL;
    if (timed == NULL || PyObject_SetItem(changed, key, timed) != 0) return NULL;
    if (by_name) return Py_BuildValue("(OO)", args, changed);
    return Py_BuildValue("(NO)", PyList_AsTuple(changed), keywords);
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

/// A hook is its own key among the optimizer's.
static PyObject* optimizer_turn(optimizer_object* self, PyObject* given) {
    const bool on = given == Py_True;
    if (!on && has_open_spans(self->phase)) return PyBool_FromLong(1);
    for (int at = 0; at < hook_count && on != self->is_on; ++at) {
        PyObject *place = self->places[at], *hook = self->hooks[at];
        const int found = on ? 0 : PySequence_Contains(place, hook);
        if (found < 0 || (found > 0 && PyObject_DelItem(place, hook) != 0)) return NULL;
        if (on && PyObject_SetItem(place, hook, hook) != 0) return NULL;
    }
    self->is_on = on;
    return PyBool_FromLong(0);
}

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
