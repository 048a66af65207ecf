// SPDX-License-Identifier: Apache-2.0
//
// ForwardCalls: the forwards of a model, and what takes the place of its call. See cep/torch/_instrument.py.
#include "native.h"

enum { forward_at, no_grad_at, backward_at, graph_task_at, is_grad_enabled_at, part_count };

typedef struct {
    PyObject_HEAD PyObject* model;
    PyObject* parts[part_count];
    PyObject* before;  ///< called with the model before each of its calls, recorded or not; NULL or None: nothing
    PyObject* after;   ///< called with the output of a forward with gradients; NULL or None: nothing
    PyObject* timed;   ///< a hook_object: what takes the place of the model's call
    PyObject* beside;  ///< what was in that place before; NULL: nothing
    const profiler_object* profiler;  ///< which `backward` keeps
    bool is_on, is_placed;
    bool asks_engine;  ///< whether a call is inside of a backward: others are known to be outside
    int asked;
} forward_object;

enum { first_calls = 16 };

/// A call inside of a backward repeats one that was made without gradients, or whose output has begun that backward, or
/// the model has been called so from the first. The engine is not asked of others, which takes microseconds.
static bool is_in_graph_task(forward_object* self) {
    const bool is_new = self->asked < first_calls;
    if (!is_new && !self->asks_engine && !is_backward_running(self->parts[backward_at])) return false;
    PyObject* task = PyObject_CallObject(self->parts[graph_task_at], NULL);
    const bool found = task != NULL && PyLong_AsLongLong(task) != -1;
    Py_XDECREF(task);
    self->asked += is_new;
    self->asks_engine |= found;
    return found;
}

static bool makes_gradients(const forward_object* self) {
    return truth_of(PyObject_CallObject(self->parts[is_grad_enabled_at], NULL)) > 0;
}

/// The phase that times a call (borrowed); NULL for one inside of a call or of a backward (activation checkpointing),
/// which is part of that, or with an exception.
static PyObject* begin_forward(forward_object* self) {
    if (!self->is_on || !is_recording(self->profiler) || is_in_graph_task(self)) return NULL;
    if (!abandon_backward(self->parts[backward_at])) return NULL;
    const unsigned long thread = this_thread();
    if (has_keyed_span(self->parts[forward_at], thread) || has_keyed_span(self->parts[no_grad_at], thread)) return NULL;
    const bool has_gradients = makes_gradients(self);
    PyObject* phase = self->parts[has_gradients ? forward_at : no_grad_at];
    self->asks_engine |= !has_gradients;
    return PyErr_Occurred() == NULL && begin_keyed_span(phase, thread) ? phase : NULL;
}

static bool end_forward(forward_object* self, PyObject* phase, PyObject* output, PyObject* error) {
    const unsigned long thread = this_thread();
    if (!has_keyed_span(phase, thread)) return true;  // abandoned
    if (!end_keyed_span(phase, thread, error)) return false;
    if (output == NULL || phase != self->parts[forward_at]) return true;
    if (!watch_output(self->parts[backward_at], output)) return false;
    self->asks_engine |= !has_watched_output(self->parts[backward_at]);
    return !is_given(self->after) || is_done(PyObject_CallFunctionObjArgs(self->after, output, NULL));
}

static bool call_before(forward_object* self) {
    return !is_given(self->before) || is_done(call_with(self->before, self->model)) || note_failure();
}

static PyObject* time_forward(forward_object* self, PyObject* original, PyObject* args, PyObject* keywords) {
    if (!call_before(self)) return NULL;
    PyObject* phase = begin_forward(self);
    if (phase == NULL) return note_failure() ? PyObject_Call(original, args, keywords) : NULL;
    PyObject* output = PyObject_Call(original, args, keywords);
    taken_error error = take();
    return after_hook(end_forward(self, phase, output, error.type), output, error);
}

static PyObject* timed_forward_call(hook_object* self, PyObject* args, PyObject* keywords) {
    return time_forward((forward_object*)self->owner, self->original, args, keywords);
}

// The place is that of module.compile(). Unlike a hook it is no part of what torch.compile compiles, and it is neither
// copied nor pickled with the module. A module of PyTorch's looks at what setattr() sets for long: this goes past it.

static PyObject* place_name(void) {
    return TEXT("_compiled_call_impl");
}

static bool make_timed(forward_object* self, PyObject* beside) {
    PyObject* original = is_given(beside) ? (Py_INCREF(beside), beside) : ATTRIBUTE(self->model, "_call_impl");
    PyObject* made = original != NULL ? new_hook((PyObject*)self, original, timed_forward_call) : NULL;
    Py_XDECREF(original);
    if (made == NULL) return false;
    set_reference(&self->timed, made);
    set_reference(&self->beside, beside);
    Py_DECREF(made);
    return true;
}

static bool put_in_place(forward_object* self, PyObject* attributes) {
    PyObject* beside = PyDict_GetItem(attributes, place_name());
    if ((self->timed == NULL || beside != self->beside) && !make_timed(self, beside)) return false;
    self->is_placed = true;
    return PyDict_SetItem(attributes, place_name(), self->timed) == 0;
}

/// What is to be in the place without the calls that are no longer wanted; NULL: nothing.
static PyObject* wanted_beside(const forward_object* self) {
    PyObject* found = self->beside;
    while (found != NULL && Py_TYPE(found) == hook_type && ((hook_object*)found)->call == timed_forward_call) {
        const forward_object* other = (forward_object*)((hook_object*)found)->owner;
        if (other->is_placed) break;
        found = other->beside;
    }
    return found;
}

/// If somebody has replaced it since, that stays, and what it calls does no more than the original.
static bool take_away(forward_object* self, PyObject* attributes) {
    self->is_placed = false;
    if (PyDict_GetItem(attributes, place_name()) != self->timed) return true;
    PyObject* beside = wanted_beside(self);
    if (beside != NULL) return PyDict_SetItem(attributes, place_name(), beside) == 0;
    return PyDict_DelItem(attributes, place_name()) == 0;
}

/// The model's call is replaced while it is timed, and while each call is announced.
static bool follow(forward_object* self) {
    const bool wanted = self->is_on || is_given(self->before);
    if (wanted == self->is_placed) return true;
    PyObject* attributes = ATTRIBUTE(self->model, "__dict__");
    const bool followed = attributes != NULL && (wanted ? put_in_place(self, attributes) : take_away(self, attributes));
    Py_XDECREF(attributes);
    return followed;
}

static int forward_bool(forward_object* self) {
    return has_open_spans(self->parts[forward_at]) || has_open_spans(self->parts[no_grad_at]);
}

static PyObject* forward_turn(forward_object* self, PyObject* on) {
    if (on == Py_False && forward_bool(self)) return PyBool_FromLong(1);
    self->is_on = on == Py_True;
    return follow(self) ? PyBool_FromLong(0) : NULL;
}

static PyObject* forward_announce(forward_object* self, PyObject* before) {
    set_reference(&self->before, before);
    return none_if(follow(self));
}

static PyObject* forward_abandon(forward_object* self, PyObject* unused) {
    const unsigned long thread = this_thread();
    const bool ended = end_keyed_span(self->parts[forward_at], thread, hooks.not_finished) &&
                       end_keyed_span(self->parts[no_grad_at], thread, hooks.not_finished);
    return none_if(ended && end_before_optimizer(self->parts[backward_at]));
}

static int forward_init(forward_object* self, PyObject* args, PyObject* keywords) {
    const int taken = TAKE_ARGUMENTS(self, args, NULL, open_spans_type, open_spans_type, backward_type, NULL, NULL);
    if (taken == 0) self->profiler = profiler_of_backward(self->parts[backward_at]);
    return taken;
}

CLEARS(forward, before, beside)

COLLECTED_TYPE(
    forward, "ForwardCalls", Py_TPFLAGS_BASETYPE, beside, nothing_else, SLOT(tp_init, forward_init),
    SLOT(tp_clear, forward_clear), MEMBERS(MEMBER(forward, "after", T_OBJECT, after, 0)),
    METHODS(
        METHOD("turn", ONE_ARGUMENT(forward_turn),
               "Turns the timing of the model's calls on; off where no call is open, of another thread; None: off.\n"
               "Whether it is to go off."),
        METHOD("announce", ONE_ARGUMENT(forward_announce),
               "Has a function called before each call of the model; None: no more."),
        METHOD("abandon", NO_ARGUMENT(forward_abandon),
               "Ends what an optimizer's step ends: also a forward of this thread, in which it steps.")));
