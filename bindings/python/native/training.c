// SPDX-License-Identifier: Apache-2.0
//
// StepSpans: the steps of a training: see cep/torch/_training.py. TrainingWatch: what tells where steps of a training
// end that knows nothing of cep: see cep/integrations/_auto.py.
#include "native.h"

typedef struct {
    PyObject_HEAD PyObject* profiler;
    PyObject* span;  ///< Phase
    long long next_step, made;
    char is_under_way;
} steps_object;

// ---- StepSpans -----------------------------------------------------------------------------------------------------

static bool begin_next(steps_object* self) {
    profiler_object* profiler = (profiler_object*)self->profiler;
    if (self->is_under_way) return true;
    if (!go_to_step(profiler, self->next_step, true)) return false;
    self->is_under_way = true;
    return !is_recording(profiler) || begin_keyed_span(self->span, 0);
}

static bool end_step(steps_object* self, PyObject* error) {
    if (!self->is_under_way) return true;
    self->is_under_way = false;
    ++self->next_step;
    self->made += !is_given(error);
    return end_keyed_span(self->span, 0, error);
}

static PyObject* steps_begin(steps_object* self, PyObject* const* args, Py_ssize_t count) {
    const long long step = count > 0 ? PyLong_AsLongLong(args[0]) : self->next_step;
    if (step == -1 && PyErr_Occurred() != NULL) return NULL;
    if (!self->is_under_way) self->next_step = step;
    return none_if(begin_next(self));
}

NONE_METHOD(steps, end, end_step(self, NULL))
NONE_METHOD(steps, abandon, end_step(self, hooks.not_finished))

static int steps_init(steps_object* self, PyObject* args, PyObject* keywords) {
    PyObject *profiler = NULL, *span = NULL;
    if (!PyArg_ParseTuple(args, "O!O!L", profiler_type, &profiler, open_spans_type, &span, &self->next_step)) return -1;
    set_reference(&self->profiler, profiler);
    set_reference(&self->span, span);
    return 0;
}

COLLECTED_TYPE(
    steps, "StepSpans", Py_TPFLAGS_BASETYPE, span, nothing_else, SLOT(tp_init, steps_init),
    MEMBERS(MEMBER(steps, "profiler", T_OBJECT, profiler, READONLY),
            MEMBER(steps, "next_step", T_LONGLONG, next_step, 0), MEMBER(steps, "made", T_LONGLONG, made, 0),
            MEMBER(steps, "is_under_way", T_BOOL, is_under_way, READONLY)),
    METHODS(ROW(steps, begin, FAST,
                "Begins the next step, unless it has begun: the one after the last, unless its number is given."),
            ROW(steps, end, NO_ARGUMENT, "Ends the step, if it has begun."),
            ROW(steps, abandon, NO_ARGUMENT, "Ends the step, if it has begun, as not finished.")));

// ---- TrainingWatch -------------------------------------------------------------------------------------------------

typedef struct {
    PyObject_HEAD PyObject* optimizers;  ///< a dictionary of those that have stepped, by id()
    PyObject* stepped;                   ///< a set: those of this step, by id()
    PyObject* needed;                    ///< a set: those of the step before
    PyObject* switched;                  ///< a list, which is not empty while copies of batches are timed
    PyObject* last_loader;               ///< waited for last; None: known
    PyObject* cuda;                      ///< the dictionary of torch.cuda; None: this PyTorch has no CUDA
    PyObject* captures;                  ///< whether the current stream is being captured
    PyObject* is_grad_enabled;
    PyObject* training_loaders;  ///< a set of their numbers
    PyObject* models;            ///< a list of ModelWatches
    PyObject* load;              ///< the region of waits for a DataLoader; None: recording has not begun
    PyObject* get_next;          ///< what waits
    PyObject* open_profilers;    ///< a set
    PyObject* steps;             ///< a steps_object; None: recording has not begun
    block_list running;          ///< the optimizers whose step() each thread is in
    long long updates;           ///< by optimizers in this step
    long long most_updates;
    long long next_recorded;  ///< the step, while it is quiet
    long long replays;        ///< of CUDA graphs since an optimizer has stepped
    unsigned long thread;
    char watches, is_off, is_quiet, has_fetched, has_forward;
    char has_found;  ///< the models that are called
} watch_object;

/// NULL also where another thread has just ended the instrumentation. Who has found them may go on to use them.
static steps_object* steps_of(const watch_object* self) {
    return is_given(self->steps) ? (steps_object*)self->steps : NULL;
}

static Py_ssize_t running_of(const watch_object* self) {
    Py_ssize_t count = 0;
    for (Py_ssize_t i = 0; i < self->running.count; ++i) count += self->running.items[i].key == this_thread();
    return count;
}

/// Drops this thread's updates from that of the optimizer on: it has ended, or its step() raised.
static void leave_update(watch_object* self, const PyObject* optimizer) {
    Py_ssize_t kept = 0;
    bool was_found = false;
    for (Py_ssize_t i = 0; i < self->running.count; ++i) {
        const block each = self->running.items[i];
        was_found |= each.key == this_thread() && each.stream == optimizer;
        if (!was_found || each.key != this_thread()) self->running.items[kept++] = each;
    }
    self->running.count = kept;
}

/// The result, or None where an exception, which does not reach the trainer, has ended the instrumentation.
static PyObject* result_or_failure(watch_object* self, PyObject* result) {
    if (result != NULL || !PyErr_ExceptionMatches(PyExc_Exception)) return result;
    taken_error error = take();
    PyErr_NormalizeException(&error.type, &error.value, &error.traceback);
    PyObject* told = CALL_METHOD(self, "fail", error.value, NULL);
    DROP(error.type, error.value, error.traceback);
    return told;
}

/// Whether what this thread does now is captured, to be made later; −1 with an exception.
static int is_capturing(const watch_object* self) {
    const bool may_be = is_given(self->cuda) && PyDict_GetItem(self->cuda, TEXT("_initialized")) == Py_True;
    return may_be ? truth_of(PyObject_CallObject(self->captures, NULL)) : 0;
}

static PyObject* before_update(watch_object* self, PyObject* optimizer) {
    leave_update(self, optimizer);
    if (!push_block(&self->running, (block){.key = this_thread(), .stream = optimizer})) return NULL;
    steps_object* steps = steps_of(self);
    // Before the first phase of a step: all of it is in a closure.
    const bool begins = steps != NULL && !steps->is_under_way && running_of(self) == 1 && this_thread() == self->thread;
    const int captures = begins ? is_capturing(self) : 1;
    return none_if(captures > 0 || (captures == 0 && begin_next(steps)));
}

static PyObject* watch_before_optimizer(watch_object* self, PyObject* const* args, Py_ssize_t count) {
    if (self->is_quiet || !self->watches || count < 1) return new_none();
    return result_or_failure(self, before_update(self, args[0]));
}

static bool has_all_needed(const watch_object* self) {
    const int has_all = PyObject_RichCompareBool(self->needed, self->stepped, Py_LE);
    if (has_all < 0) PyErr_Clear();
    return has_all > 0;
}

/// Has copies of batches timed on a recorded step, or no more.
static bool switch_copies(watch_object* self, bool on) {
    const steps_object* steps = on ? steps_of(self) : NULL;
    PyObject* recording = steps != NULL ? ((profiler_object*)steps->profiler)->recording : NULL;
    return PyList_SetSlice(self->switched, 0, PyList_Size(self->switched), recording) == 0;
}

/// Ends the step of the training.
static bool end_training_step(watch_object* self) {
    steps_object* steps = steps_of(self);
    PyObject* stepped = self->stepped;
    if (steps == NULL) return true;
    self->stepped = self->needed;
    self->needed = stepped;
    self->updates = 0;
    self->has_fetched = self->has_forward = false;
    const bool ended = switch_copies(self, false) && PySet_Clear(self->stepped) == 0 && end_step(steps, NULL);
    if (!ended || PySet_Size(self->open_profilers) < 2) return ended;
    return is_done(CALL_METHOD(self, "_has_own_profiler", NULL));
}

static bool announce_models(watch_object* self, bool on) {
    for (Py_ssize_t i = 0; i < PyList_Size(self->models); ++i) {
        PyObject* model = PyList_GetItem(self->models, i);
        OWNED called = on ? ATTRIBUTE(model, "on_call") : new_none();
        if (called == NULL || !is_done(CALL_METHOD(model, "announce", called, NULL))) return false;
    }
    return true;
}

/// Until a recorded step comes: the models' calls are their own.
static bool be_quiet(watch_object* self) {
    const steps_object* steps = steps_of(self);
    if (steps == NULL) return true;
    self->next_recorded = next_recorded((profiler_object*)steps->profiler, steps->next_step);
    self->is_quiet = self->has_fetched = true;
    return announce_models(self, false);
}

static bool wake(watch_object* self) {
    steps_object* steps = steps_of(self);
    self->is_quiet = false;
    if (steps == NULL) return true;
    if (!begin_next(steps)) return false;  // where those before it were skipped
    if (self->updates > 0 && !is_done(CALL_METHOD(self->stepped, "update", self->needed, NULL))) return false;
    return announce_models(self, true);
}

/// An update of the training. Where neither a wait nor a forward tells, it ends the step once all have stepped again.
static bool note_update(watch_object* self, PyObject* id) {
    ++self->updates;
    // For a batch that was fetched ahead, as Accelerate does.
    if (PySet_Add(self->stepped, id) != 0 || !switch_copies(self, true)) return false;
    const bool is_end = !self->has_fetched && !self->has_forward && has_all_needed(self);
    return !is_end || end_training_step(self);
}

static PyObject* after_update(watch_object* self, PyObject* optimizer, PyObject* id) {
    const bool is_known = PyDict_Contains(self->optimizers, id) == 1, is_first = self->updates + 1 < self->most_updates;
    if (self->is_quiet) {
        if (this_thread() != self->thread) return new_none();
        if (is_known && is_first) return ++self->updates, new_none();
        if (!wake(self)) return NULL;
    }
    leave_update(self, optimizer);
    if (running_of(self) > 0) return new_none();
    const int captures = is_capturing(self);
    if (captures < 0) return NULL;
    if (captures == 0) self->replays = 0;
    const bool has_begun = steps_of(self) != NULL;
    if (has_begun && (captures > 0 || this_thread() != self->thread)) return new_none();
    const bool is_usual = has_begun && is_known && is_first && self->has_found;
    const int counts = is_usual ? 1 : truth_of(CALL_METHOD(self, "_note_unusual", optimizer, NULL));
    return none_if(counts == 0 || (counts > 0 && note_update(self, id)));
}

static PyObject* watch_after_optimizer(watch_object* self, PyObject* const* args, Py_ssize_t count) {
    if (!self->watches || count < 1) return new_none();
    OWNED id = PyLong_FromVoidPtr(args[0]);
    return result_or_failure(self, id != NULL ? after_update(self, args[0], id) : NULL);
}

/// The loader that was waited for last before a training forward has the training's data.
static bool learn_loader(watch_object* self) {
    if (!is_given(self->last_loader)) return true;
    const bool added = PySet_Add(self->training_loaders, self->last_loader) == 0;
    set_reference(&self->last_loader, Py_None);
    return added;
}

/// Looks past the __getattr__() of modules, for which Python looks before each look-up. A module that has it only there
/// answers too.
static bool is_training(const watch_object* self, PyObject* model) {
    PyObject* mode = PyObject_GenericGetAttr(model, TEXT("training"));
    if (mode == NULL) {
        PyErr_Clear();
        mode = ATTRIBUTE(model, "training");
    }
    return truth_of(mode) > 0 && truth_of(PyObject_CallObject(self->is_grad_enabled, NULL)) > 0;
}

static PyObject* before_forward(watch_object* self, steps_object* steps, PyObject* called, PyObject* model) {
    const bool trains = is_training(self, model);
    if (PyErr_Occurred() != NULL) return NULL;
    if (!trains) return set_reference(&self->last_loader, Py_None), new_none();  // its data are for evaluation
    const bool has_stepped = PySet_Size(self->stepped) > 0;
    if (!switch_copies(self, false)) return NULL;
    if (!self->has_found && !SET_ATTRIBUTE(called, "was_called", Py_True)) return NULL;
    const bool is_begin = has_stepped && !self->has_fetched && has_all_needed(self);
    if (!learn_loader(self) || (is_begin && !end_training_step(self))) return NULL;
    if (self->is_off) return new_none();
    self->has_forward = true;
    return none_if(begin_next(steps));
}

static PyObject* watch_before_forward(watch_object* self, PyObject* const* args, Py_ssize_t count) {
    steps_object* steps = steps_of(self);
    if (count < 2 || steps == NULL || self->is_off || this_thread() != self->thread) return new_none();
    return result_or_failure(self, before_forward(self, steps, args[0], args[1]));
}

/// Whether a wait is to be timed; −1 with an exception. `facts`: what patch_loaders() and PyTorch say of the iterator.
static int wants_wait(watch_object* self, PyObject* facts) {
    steps_object* steps = steps_of(self);
    PyObject* loader = PyDict_GetItem(facts, TEXT("_cep_loader"));
    if (loader == NULL) loader = Py_None;
    if (steps == NULL) return set_reference(&self->last_loader, loader), 0;
    if (this_thread() != self->thread) return 0;
    PyObject* yielded = PyDict_GetItem(facts, TEXT("_num_yielded"));
    PyObject* length = PyDict_GetItem(facts, TEXT("_cep_length"));
    const int is_over = yielded != NULL && length != NULL ? PyObject_RichCompareBool(yielded, length, Py_GE) : 0;
    const int is_known = PySet_Contains(self->training_loaders, loader);
    if (is_over < 0 || is_known < 0) return -1;
    if (self->is_quiet) {
        if (is_known && self->updates == 0 && !is_over) return 0;  // a further batch of a step that is not recorded
        if (is_known && !is_over) {
            self->updates = 0;
            steps->is_under_way = false;  // it ends, whether it had begun or not
            ++steps->made;
            if (!go_to_step((profiler_object*)steps->profiler, steps->next_step++, true)) return -1;
            if (steps->next_step < self->next_recorded) return 0;
            self->has_fetched = false;
        }
        if (!wake(self)) return -1;
    }
    if (PySet_Size(self->stepped) > 0 && !end_training_step(self)) return -1;
    if (is_over || self->is_off) return 0;
    if (!is_known) return set_reference(&self->last_loader, loader), 0;
    set_reference(&self->last_loader, Py_None);
    if (!begin_next(steps)) return -1;
    const bool is_usual = self->has_found && PySet_Size(self->needed) > 0;
    if (is_usual && !is_recording((profiler_object*)steps->profiler) && !be_quiet(self)) return -1;
    return !self->is_quiet;
}

static PyObject* time_wait(watch_object* self, PyObject* args) {
    region_object* load = (region_object*)self->load;
    cep_span span = CEP_SPAN_NONE;
    void* stream = NULL;
    const bool begun = !is_recording((profiler_object*)load->profiler) || begin_span(load, &span, &stream);
    if (!begun && !note_failure()) return NULL;
    PyObject* item = PyObject_CallObject(self->get_next, args);
    const taken_error error = take();
    bool ended = end_span(load, span, stream, error.type);
    steps_object* steps = steps_of(self);
    const bool is_end = item == NULL && PyErr_GivenExceptionMatches(error.type, PyExc_StopIteration);
    // A step that has begun with the wait at the end of a loader without a length is none.
    if (ended && steps != NULL && is_end && !self->has_fetched && !self->has_forward)
        ended = end_step(steps, hooks.not_finished);
    if (ended && steps != NULL && item != NULL) {
        self->has_fetched = true;
        ended = switch_copies(self, true);
    }
    return after_hook(ended, item, error);
}

/// What is called in the place of the __next__() of a DataLoader's iterator.
static PyObject* watch_next_batch(watch_object* self, PyObject* args) {
    OWNED facts = self->watches ? ATTRIBUTE(PyTuple_GetItem(args, 0), "__dict__") : NULL;
    const int wants = facts != NULL ? wants_wait(self, facts) : -(PyErr_Occurred() != NULL);
    if (wants < 0 && !is_done(result_or_failure(self, NULL))) return NULL;
    return wants > 0 ? time_wait(self, args) : PyObject_CallObject(self->get_next, args);
}

static void release_running(watch_object* self) {
    PyMem_Free(self->running.items);
}

NONE_METHOD(watch, end_step, end_training_step(self))
NONE_METHOD(watch, learn_loader, learn_loader(self))
CLEARS(watch, steps, steps)

#define WATCHED(kind, name) MEMBER(watch, #name, kind, name, 0)

COLLECTED_TYPE(
    watch, "TrainingWatch", Py_TPFLAGS_BASETYPE, steps, release_running, SLOT(tp_clear, watch_clear),
    MEMBERS(WATCHED(T_OBJECT, training_loaders), WATCHED(T_OBJECT, models), WATCHED(T_OBJECT, load),
            WATCHED(T_OBJECT, get_next), WATCHED(T_OBJECT, open_profilers), WATCHED(T_OBJECT, steps),
            WATCHED(T_OBJECT, optimizers), WATCHED(T_OBJECT, stepped), WATCHED(T_OBJECT, needed),
            WATCHED(T_OBJECT, switched), WATCHED(T_OBJECT, last_loader), WATCHED(T_OBJECT, cuda),
            WATCHED(T_OBJECT, captures), WATCHED(T_OBJECT, is_grad_enabled), WATCHED(T_LONGLONG, updates),
            WATCHED(T_LONGLONG, most_updates), WATCHED(T_LONGLONG, replays), WATCHED(T_ULONG, thread),
            WATCHED(T_BOOL, watches), WATCHED(T_BOOL, is_off), WATCHED(T_BOOL, is_quiet), WATCHED(T_BOOL, has_fetched),
            WATCHED(T_BOOL, has_forward), WATCHED(T_BOOL, has_found)),
    METHODS(
        ROW(watch, before_optimizer, FAST, "Before each step() of an optimizer."),
        ROW(watch, after_optimizer, FAST,
            "After each step() of an optimizer. Those of one that another calls in its own step() are part of that."),
        ROW(watch, next_batch, ARGUMENTS, "In the place of __next__() of a DataLoader's iterator."),
        ROW(watch, end_step, NO_ARGUMENT, "Ends the step of the training."),
        ROW(watch, learn_loader, NO_ARGUMENT,
            "What was waited for last before a training forward has the training's data."),
        ROW(watch, before_forward, FAST, "Before each call of a trained model: its ModelWatch, and the model.")));
