// SPDX-License-Identifier: Apache-2.0
//
// ProfilerCalls: steps, the look-up of regions, and the current phase.
#include "native.h"

#include <limits.h>

// ---- Steps ---------------------------------------------------------------------------------------------------------

static bool set_recording(profiler_object* self, bool recording) {
    const Py_ssize_t size = PyList_Size(self->recording);
    if (recording == (size > 0)) return true;
    if (recording) return PyList_Append(self->recording, Py_True) == 0;
    return PyList_SetSlice(self->recording, 0, size, NULL) == 0;
}

static void tell_library(profiler_object* self) {
    self->library_step = self->step;
    (void)library.step(self->handle, self->step);  // refuses negative steps only
}

static bool begin_step(profiler_object* self) {
    const long long step = self->step;
    const bool records = self->first <= step && step <= self->last && (step - self->first) % self->every == 0;
    if (!records && !is_recording(self) && self->library_step >= 0 && step % self->flush_every != 0)
        return true;  // libcep need not know
    tell_library(self);
    if (!records || library.recording(self->handle) == 0) return set_recording(self, false);  // libcep decides
    if (self->stream_source == NULL && !find_stream_source(self)) return false;
    return set_recording(self, true);
}

/// The number of a step, at least 0; −1 with an exception.
static long long step_number(PyObject* given) {
    int overflow = 0;
    const long long number = PyLong_CheckExact(given) ? PyLong_AsLongLongAndOverflow(given, &overflow) : -1;
    if (number >= 0) return number;
    PyErr_Clear();
    OWNED converted = PyObject_CallFunction(package.whole_number, "sOi", "step", given, 0);
    return converted != NULL ? PyLong_AsLongLong(converted) : -1;
}

/// Calls the listeners with whether the step is recorded. Each returns whether it wants the next step, too.
static bool tell_listeners(profiler_object* self) {
    PyObject *listeners = self->listeners, *recording = is_recording(self) ? Py_True : Py_False;
    int wants_steps = 0, wants = 0;
    Py_INCREF(listeners);
    for (Py_ssize_t i = 0; wants >= 0 && i < PyTuple_Size(listeners); ++i) {
        wants = truth_of(call_with(PyTuple_GetItem(listeners, i), recording));
        wants_steps |= wants > 0;
    }
    Py_DECREF(listeners);
    self->wants_steps = (char)wants_steps;
    return wants >= 0;
}

long long next_recorded(const profiler_object* self, long long step) {
    const long long found = step < self->first ? self->first : step + self->every - (step - self->first) % self->every;
    return found <= self->last ? found : LLONG_MAX;
}

bool go_to_step(profiler_object* self, long long step, bool has_number) {
    const bool was_recording = is_recording(self), is_first = self->step < 0;
    if (!end_done_spans((PyObject*)self)) return false;
    self->step = step;
    if (self->enabled && !begin_step(self)) return false;
    const bool tells = self->wants_steps || was_recording != is_recording(self);
    if (tells && self->listeners != NULL && !tell_listeners(self)) return false;
    return !is_first || is_done(PyObject_CallMethod((PyObject*)self, "_move_early", "i", (int)has_number));
}

static PyObject* profiler_step(profiler_object* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    const Py_ssize_t named = names == NULL ? 0 : PyTuple_Size(names);
    const bool is_known = named == 0 || PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, 0), "step") == 0;
    if (count + named > 1 || !is_known) return PyErr_Format(PyExc_TypeError, "the only argument is step");
    PyObject* given = count + named > 0 ? args[0] : NULL;
    const long long step = is_given(given) ? step_number(given) : self->step + 1;
    return none_if(step >= 0 && go_to_step(self, step, is_given(given)));
}

NONE_METHOD(profiler, set_library_step, (tell_library(self), true))

// ---- Regions -------------------------------------------------------------------------------------------------------

enum { name_at, kind_at, stream_at, first_attribute, argument_count = first_attribute + attribute_count };

static const char* const argument_names[argument_count] = {"name",  "kind",  "stream", "bytes",
                                                           "flops", "group", "coll",   "meta"};

/// The arguments of region() and phase(); None: not given.
typedef struct {
    PyObject* given[argument_count];
    bool has_attributes;
} look_up;

static int argument_at(PyObject* name) {
    static PyObject* kept[argument_count];
    for (int i = 0; i < argument_count; ++i)  // the names in a script's code are kept ones
        if (name == kept_text(&kept[i], argument_names[i])) return i;
    for (int i = 0; i < argument_count; ++i)
        if (PyUnicode_CompareWithASCIIString(name, argument_names[i]) == 0) return i;
    return -1;
}

static bool read_look_up(PyObject* const* args, Py_ssize_t count, PyObject* names, look_up* wanted) {
    const Py_ssize_t named = names == NULL ? 0 : PyTuple_Size(names);
    bool is_wrong = count > argument_count;
    *wanted = (look_up){.has_attributes = false};
    for (Py_ssize_t i = 0; i < count && i < argument_count; ++i) wanted->given[i] = args[i];
    for (Py_ssize_t i = 0; i < named; ++i) {
        const int at = argument_at(PyTuple_GetItem(names, i));
        is_wrong |= at < 0 || wanted->given[at] != NULL;
        if (!is_wrong) wanted->given[at] = args[count + i];
    }
    if (is_wrong || wanted->given[name_at] == NULL) {
        PyErr_SetString(PyExc_TypeError, "name, kind, stream, bytes, flops, group, coll and meta are the arguments");
        return false;
    }
    for (int at = kind_at; at < argument_count; ++at) {
        if (wanted->given[at] == NULL) wanted->given[at] = Py_None;
        wanted->has_attributes |= at >= first_attribute && wanted->given[at] != Py_None;
    }
    return true;
}

/// The first region of the name, if it is known and the kind is valid (borrowed); NULL without an exception if not.
static region_object* first_region(profiler_object* self, const look_up* wanted) {
    PyObject* kind = wanted->given[kind_at];
    if (self->regions == NULL) return NULL;
    PyObject* region = PyDict_GetItemWithError(self->regions, wanted->given[name_at]);
    if (region != NULL && is_given(kind) && PyDict_Contains(package.kinds, kind) != 1) region = NULL;
    PyErr_Clear();  // not hashable: the slow way tells
    return (region_object*)region;
}

static PyObject* tuple_of(PyObject* const* items, Py_ssize_t count) {
    PyObject* tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; tuple != NULL && i < count; ++i) {
        Py_INCREF(items[i]);
        if (PyTuple_SetItem(tuple, i, items[i]) != 0) Py_CLEAR(tuple);
    }
    return tuple;
}

/// A new reference; NULL without an exception if the region has to be made by _make_region().
static PyObject* known_region(profiler_object* self, const look_up* wanted) {
    region_object* first = first_region(self, wanted);
    PyObject* named_stream = wanted->given[stream_at];
    const bool has_stream = is_given(named_stream);
    void* stream = NULL;
    if (first == NULL || (has_stream && !stream_address_of(named_stream, &stream))) return NULL;
    if (wanted->has_attributes) {
        OWNED attributes = tuple_of(wanted->given + first_attribute, attribute_count);
        return attributes != NULL ? region_with(first, has_stream, stream, attributes) : NULL;
    }
    region_object* found = first;
    while (is_given((PyObject*)found) && has_stream && !(found->has_stream && found->stream == stream))
        found = (region_object*)found->next;
    if (!is_given((PyObject*)found)) return NULL;
    Py_INCREF(found);
    return (PyObject*)found;
}

static PyObject* profiler_region(profiler_object* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    look_up wanted;
    if (!read_look_up(args, count, names, &wanted)) return NULL;
    PyObject* region = known_region(self, &wanted);
    if (region != NULL || PyErr_Occurred() != NULL) return region;
    OWNED method = ATTRIBUTE((PyObject*)self, "_make_region");
    OWNED given = tuple_of(wanted.given, argument_count);
    return method != NULL && given != NULL ? PyObject_CallObject(method, given) : NULL;
}

// ---- The current phase ---------------------------------------------------------------------------------------------

/// Notes whether this thread has a phase now.
static bool note_phase(profiler_object* self, bool has_phase, void* stream, bool keeps_lock) {
    block before;
    (void)pop_block(&self->phases, this_thread(), &before);
    return !has_phase || push_block(&self->phases, (block){this_thread(), CEP_SPAN_NONE, stream, keeps_lock});
}

static void change_phase(profiler_object* self, cep_region* region, void* stream, bool keeps_lock) {
    PyObject* before = keeps_lock ? NULL : enter_device(self);
    PyThreadState* released = keeps_lock ? NULL : PyEval_SaveThread();
    (void)library.phase(self->handle, region, stream);
    if (released != NULL) PyEval_RestoreThread(released);
    leave_device(self, before);
}

static bool enter_phase(profiler_object* self, region_object* region) {
    void* stream = region->stream;
    if (!region->has_stream && !current_stream(self, &stream)) return false;
    // A phase on a stream ends by an event, also where the next one is on the host clock.
    const block* ending = find_block(&self->phases, this_thread());
    const bool keeps_lock = region->keeps_lock && (ending == NULL || ending->keeps_lock);
    if (!note_phase(self, is_recording(self), stream, region->keeps_lock)) return false;
    change_phase(self, region->handle, stream, keeps_lock);
    return true;
}

static PyObject* profiler_phase(profiler_object* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    if (!is_recording(self) && (self->phases.count == 0 || find_block(&self->phases, this_thread()) == NULL))
        return new_none();
    OWNED region = profiler_region(self, args, count, names);
    return none_if(region != NULL && enter_phase(self, (region_object*)region));
}

static PyObject* profiler_end_phase(profiler_object* self, PyObject* unused) {
    block phase;
    if (pop_block(&self->phases, this_thread(), &phase)) change_phase(self, NULL, phase.stream, phase.keeps_lock);
    return new_none();
}

static PyObject* profiler_attach(profiler_object* self, PyObject* args) {
    PyObject *handle = NULL, *recording = NULL, *regions = NULL;
    int on_host = 0;
    if (!PyArg_ParseTuple(args, "OO!O!p(LLLL)", &handle, &PyList_Type, &recording, &PyDict_Type, &regions, &on_host,
                          &self->first, &self->last, &self->every, &self->flush_every))
        return NULL;
    void* address = NULL;
    if (!address_of(handle, &address)) return NULL;
    self->handle = address;
    self->on_host = (char)(on_host != 0);
    self->step = self->library_step = -1;
    set_reference(&self->recording, recording);
    set_reference(&self->regions, regions);
    Py_XDECREF(self->listeners);
    self->listeners = PyTuple_New(0);
    return none_if(self->listeners != NULL);
}

NONE_METHOD(profiler, set_stream_source, set_stream_source(self, argument))

static PyObject* profiler_set_device(profiler_object* self, PyObject* args) {
    PyObject *exchange = NULL, *device = NULL;
    if (!PyArg_ParseTuple(args, "OO", &exchange, &device)) return NULL;
    set_reference(&self->exchange_device, exchange);
    set_reference(&self->device, device);
    return new_none();
}

CLEARS(profiler, recording, listeners)

static void release_phases(profiler_object* self) {
    PyMem_Free(self->phases.items);
}

static PyMethodDef methods[] = {
    ROW(profiler, step, FAST_WITH_NAMES,
        "step($self, /, step=None)\n--\n\n"
        "Begins a step of the trainer. It decides whether what follows is recorded.\n\n"
        "Steps may jump, repeat and go back. Never waits; no I/O. step: at least 0; None: one more than the last.\n"
        "Raises OptionError for others. Regions before the first step are timed on the host clock and belong to it.\n"
        "The first step without a number is 0; 1 if a region before it has \"forward\", \"backward\", \"step\" or\n"
        "\"iteration\" in its name: that was step 0, of a loop that calls step() at the end of each pass."),
    ROW(profiler, region, FAST_WITH_NAMES,
        "region($self, /, name, kind=None, stream=None, bytes=None, flops=None, group=None, coll=None, "
        "meta=None)\n--\n\n"
        "A phase to time, as a context manager or decorator. Calling it again for the same name is cheap.\n\n"
        "kind: \"step\", \"compute\", \"comm\", \"data\", \"memory\", \"host\" or \"other\"; None: inferred from the "
        "name's words.\n"
        "stream: None for PyTorch's current one at each use, a stream, a cudaStream_t as integer, or cep.HOST. The "
        "others\n"
        "are attributes of every span: bytes moved, floating-point operations, process group and index of a "
        "collective,\n"
        "and a JSON object. Raises OptionError for an invalid name, kind or stream."),
    ROW(profiler, phase, FAST_WITH_NAMES,
        "phase($self, /, name, kind=None, stream=None)\n--\n\n"
        "Ends this thread's current phase, if it has one, and begins the next, with one event for both.\n\n"
        "Phases chain across steps, so N phases a step cost N event records. end_phase() ends the last one. An "
        "exception\n"
        "does not end a phase and does not mark its row. Each thread has a current phase of its own. Arguments as for\n"
        "region()."),
    ROW(profiler, end_phase, NO_ARGUMENT,
        "end_phase($self, /)\n--\n\nEnds this thread's current phase, if it has one."),
    METHOD("_attach", ARGUMENTS(profiler_attach), NULL),
    METHOD("_set_stream_source", ONE_ARGUMENT(profiler_set_stream_source), NULL),
    METHOD("_set_device", ARGUMENTS(profiler_set_device), NULL),
    METHOD("_set_library_step", NO_ARGUMENT(profiler_set_library_step), NULL),
    {NULL, NULL, 0, NULL},
};

COLLECTED_TYPE(profiler, "ProfilerCalls", Py_TPFLAGS_BASETYPE, listeners, release_phases,
               SLOT(tp_clear, profiler_clear), SLOT(tp_methods, methods),
               MEMBERS(MEMBER(profiler, "_enabled", T_BOOL, enabled, 0),
                       MEMBER(profiler, "_wants_steps", T_BOOL, wants_steps, 0),
                       MEMBER(profiler, "_listeners", T_OBJECT, listeners, 0),
                       MEMBER(profiler, "_step", T_LONGLONG, step, 0),
                       MEMBER(profiler, "_library_step", T_LONGLONG, library_step, READONLY),
                       MEMBER(profiler, "_recording", T_OBJECT, recording, READONLY),
                       MEMBER(profiler, "_regions", T_OBJECT, regions, READONLY)));
