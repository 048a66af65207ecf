// SPDX-License-Identifier: Apache-2.0
//
// RegionCalls: the spans of a region, their attributes, and its `with` blocks. Phase: those that hooks begin and
// end.
#include "native.h"

#include <math.h>
#include <string.h>

enum { error_max_bytes = 63 };

/// A span records a CUDA event, which can wait for room in the GPU's queue. The work in the queue may wait for a host
/// function that needs the GIL, so only spans on the host clock keep it. Where the profiler has a device, it is current
/// during the call.
#define WITHOUT_LOCK(region, call)                                    \
    do {                                                              \
        if ((region)->keeps_lock) {                                   \
            call;                                                     \
        } else {                                                      \
            profiler_object* const owner = (void*)(region)->profiler; \
            PyObject* const before = enter_device(owner);             \
            PyThreadState* const released = PyEval_SaveThread();      \
            call;                                                     \
            PyEval_RestoreThread(released);                           \
            leave_device(owner, before);                              \
        }                                                             \
    } while (0)

// ---- Attributes -----------------------------------------------------------------------------------------------------

// Plain numbers and texts are converted here; the package converts all others, and raises for invalid ones.

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
    OWNED made = PyObject_CallFunctionObjArgs(package.native_struct, given, NULL);
    PyObject* keeper = made != NULL ? PyTuple_GetItem(made, 0) : NULL;
    PyObject* number = keeper != NULL ? PyTuple_GetItem(made, 1) : NULL;
    void* address = NULL;
    if (number == NULL || !address_of(number, &address) || address == NULL) return false;
    memcpy(attrs, address, sizeof *attrs);
    set_reference(owner, keeper);
    return true;
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

// ---- Spans ---------------------------------------------------------------------------------------------------------

bool begin_span(region_object* self, cep_span* span, void** stream) {
    if (!is_initialised(self)) return false;
    *stream = self->stream;
    if (!self->has_stream && !current_stream((profiler_object*)self->profiler, stream)) return false;
    if (!is_given(self->attributes)) {
        WITHOUT_LOCK(self, *span = library.begin(self->handle, *stream));
        return true;
    }
    if (!self->has_attrs && !fill_attrs(self)) return false;
    WITHOUT_LOCK(self, *span = library.begin_with(self->handle, *stream, &self->attrs));
    return true;
}

static bool end_failed_span(region_object* self, cep_span span, void* stream, PyObject* error) {
    OWNED name = ATTRIBUTE(error, "__name__");
    OWNED text = name != NULL ? PyUnicode_AsUTF8String(name) : NULL;
    if (text == NULL) return false;
    char cut[error_max_bytes + 1];  // to whole characters
    Py_ssize_t size = PyBytes_Size(text);
    const char* bytes = PyBytes_AsString(text);
    if (size > error_max_bytes)
        for (size = error_max_bytes; size > 0 && ((unsigned char)bytes[size] & 0xC0) == 0x80;) --size;
    memcpy(cut, bytes, (size_t)size);
    cut[size] = '\0';
    cep_attrs attrs = CEP_ATTRS_INIT;
    attrs.error = cut;
    WITHOUT_LOCK(self, (void)library.end_with(self->handle, span, stream, &attrs));
    return true;
}

bool end_span(region_object* self, cep_span span, void* stream, PyObject* error) {
    if (span == CEP_SPAN_NONE) return true;
    if (!is_initialised(self)) return false;
    if (is_given(error) && !PyErr_GivenExceptionMatches(error, package.not_failures))
        return end_failed_span(self, span, stream, error);
    WITHOUT_LOCK(self, library.end(self->handle, span, stream));
    return true;
}

// ---- `with` blocks -------------------------------------------------------------------------------------------------
//
// While any block is open, unrecorded blocks are entered too (with CEP_SPAN_NONE as their span), so that every exit
// finds its own block.

bool note_early(region_object* self, bool enters) {
    if (((profiler_object*)self->profiler)->step >= 0) return true;
    return is_done(enters ? CALL_METHOD(self->profiler, "_enter_early", self, NULL)
                          : CALL_METHOD(self->profiler, "_leave_early", NULL));
}

static PyObject* region_enter(region_object* self, PyObject* unused) {
    if (!is_initialised(self) || !note_early(self, true)) return NULL;
    const bool recording = is_recording((profiler_object*)self->profiler);
    if (recording || self->blocks.count > 0) {
        block entered = {.key = this_thread(), .span = CEP_SPAN_NONE};
        if (recording && !begin_span(self, &entered.span, &entered.stream)) return NULL;
        if (!push_block(&self->blocks, entered)) return NULL;
    }
    Py_INCREF(self);
    return (PyObject*)self;
}

static PyObject* region_exit(region_object* self, PyObject* const* args, Py_ssize_t count) {
    block left;
    if (self->profiler != NULL && !note_early(self, false)) return NULL;
    if (self->blocks.count == 0 || !pop_block(&self->blocks, this_thread(), &left)) return new_none();
    return none_if(end_span(self, left.span, left.stream, count > 0 ? args[0] : NULL));
}

// ---- Spans for Python's decorators and hooks -----------------------------------------------------------------------

static PyObject* region_begin(region_object* self, PyObject* unused) {
    cep_span span = CEP_SPAN_NONE;
    void* stream = NULL;
    if (!begin_span(self, &span, &stream)) return NULL;
    return Py_BuildValue("(KN)", (unsigned long long)span, PyLong_FromVoidPtr(stream));
}

static PyObject* region_end(region_object* self, PyObject* args) {
    unsigned long long span = 0;
    PyObject *stream = NULL, *error = NULL;
    void* address = NULL;
    if (!PyArg_ParseTuple(args, "KOO", &span, &stream, &error) || !address_of(stream, &address)) return NULL;
    return none_if(end_span(self, span, address, error));
}

/// All but the handle and the stream.
static void fill_region(region_object* self, PyObject* profiler, PyObject* name, PyObject* attributes) {
    self->keeps_lock = (char)(((profiler_object*)profiler)->on_host || (self->has_stream && self->stream == CEP_HOST));
    set_reference(&self->profiler, profiler);
    set_reference(&self->name, name);
    set_reference(&self->attributes, attributes);
}

static int region_init(region_object* self, PyObject* args, PyObject* keywords) {
    PyObject *profiler = NULL, *name = NULL, *handle = NULL, *stream = NULL, *attributes = NULL;
    void* address = NULL;
    if (self->profiler != NULL) return 0;
    if (!PyArg_ParseTuple(args, "O!OOOO", profiler_type, &profiler, &name, &handle, &stream, &attributes)) return -1;
    self->has_stream = is_given(stream);
    if (is_given(handle) && !address_of(handle, &address)) return -1;
    if (self->has_stream && !address_of(stream, &self->stream)) return -1;
    self->handle = address;
    fill_region(self, profiler, name, attributes);
    return 0;
}

PyObject* region_with(region_object* like, bool has_stream, void* stream, PyObject* attributes) {
    PyTypeObject* type = Py_TYPE(like);
    region_object* self = (region_object*)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL) return NULL;
    self->handle = like->handle;
    self->stream = stream;
    self->has_stream = has_stream;
    fill_region(self, like->profiler, like->name, attributes);
    return (PyObject*)self;
}

CLEARS(region, next, with_calls[with_call_count - 1])

static void release_blocks(region_object* self) {
    PyMem_Free(self->blocks.items);
}

static PyMethodDef methods[] = {
    // The first two are the calls of a `with` statement.
    METHOD("__enter__", NO_ARGUMENT(region_enter), NULL),
    METHOD("__exit__", FAST(region_exit), NULL),
    METHOD("_begin", NO_ARGUMENT(region_begin), NULL),
    METHOD("_end", ARGUMENTS(region_end), NULL),
    {NULL, NULL, 0, NULL},
};

COLLECTED_TYPE(region, "RegionCalls", Py_TPFLAGS_BASETYPE, with_calls[with_call_count - 1], release_blocks,
               SLOT(tp_init, region_init), SLOT(tp_clear, region_clear), SLOT(tp_methods, methods),
               MEMBERS({(char*)"name", T_OBJECT, offsetof(region_object, name), READONLY, (char*)"The region's name."},
                       MEMBER(region, "_profiler", T_OBJECT, profiler, READONLY),
                       MEMBER(region, "_next", T_OBJECT, next, 0),
                       MEMBER(region, "_keeps_lock", T_BOOL, keeps_lock, READONLY)));

// ---- WithCall: __enter__ and __exit__ ------------------------------------------------------------------------------
//
// `with` looks up both, and calls what it finds. A method would make an object at each look-up, and these two objects
// would be most of what a block costs on a step that is not recorded. A WithCall makes it once for each region.

typedef struct {
    PyObject_HEAD int at;  ///< in methods
    PyObject* method;      ///< what the class gives; NULL: nothing
} with_call_object;

static PyObject* bound_call(const with_call_object* self, region_object* region) {
    PyObject** kept = &region->with_calls[self->at];
    if (*kept == NULL) {
        PyObject* made = PyCFunction_NewEx(&methods[self->at], (PyObject*)region, NULL);
        // Profilers keep regions without attributes. Others are for one use, and must not wait for the collector.
        if (made == NULL || is_given(region->attributes)) return made;
        *kept = made;
    }
    Py_INCREF(*kept);
    return *kept;
}

static PyObject* with_call_get(with_call_object* self, PyObject* region, PyObject* type) {
    if (region != NULL && PyObject_TypeCheck(region, region_type)) return bound_call(self, (region_object*)region);
    PyObject* found = self->method != NULL ? self->method : (PyObject*)self;
    Py_INCREF(found);
    return found;
}

DEFINE_TYPE(with_call, "WithCall", 0, SLOT(tp_descr_get, with_call_get));

bool add_with_calls(void) {
    PyObject* type = PyType_FromSpec(&with_call_spec);
    bool added = type != NULL;
    for (int at = 0; added && at < with_call_count; ++at) {
        with_call_object* call = (with_call_object*)PyType_GenericAlloc((PyTypeObject*)type, 0);
        if (call == NULL) break;
        call->at = at;
        call->method = PyObject_GetAttrString((PyObject*)region_type, methods[at].ml_name);
        added = call->method != NULL &&
                PyObject_SetAttrString((PyObject*)region_type, methods[at].ml_name, (PyObject*)call) == 0;
        Py_DECREF(call);
    }
    Py_XDECREF(type);
    return added && PyErr_Occurred() == NULL;
}

// ---- Phase ----------------------------------------------------------------------------------------------------------

// The open spans of a phase that hooks begin and end, at most one for each key: a thread, or None for the process.

typedef struct {
    PyObject_HEAD PyObject* region;  ///< one of its own, like that of the phase: its blocks are the spans
} open_spans_object;

static region_object* region_of(PyObject* object) {
    return (region_object*)((open_spans_object*)object)->region;
}

static bool key_of(PyObject* given, unsigned long* key) {
    *key = given == Py_None ? 0 : PyLong_AsUnsignedLong(given);
    return PyErr_Occurred() == NULL;
}

bool end_keyed_span(PyObject* object, unsigned long key, PyObject* error) {
    region_object* region = region_of(object);
    block ending;
    return !pop_block(&region->blocks, key, &ending) || end_span(region, ending.span, ending.stream, error);
}

bool begin_keyed_span(PyObject* object, unsigned long key) {
    block begun = {.key = key, .span = CEP_SPAN_NONE};
    return end_keyed_span(object, key, hooks.not_finished) &&
           begin_span(region_of(object), &begun.span, &begun.stream) && push_block(&region_of(object)->blocks, begun);
}

bool has_keyed_span(PyObject* object, unsigned long key) {
    return find_block(&region_of(object)->blocks, key) != NULL;
}

bool has_open_spans(PyObject* object) {
    return region_of(object)->blocks.count > 0;
}

static PyObject* open_spans_begin(PyObject* object, PyObject* given) {
    unsigned long key = 0;
    return none_if(key_of(given, &key) && begin_keyed_span(object, key));
}

static PyObject* open_spans_end(PyObject* object, PyObject* const* args, Py_ssize_t count) {
    unsigned long key = 0;
    if (count < 1 || count > 2) {
        PyErr_SetString(PyExc_TypeError, "end() takes a key and an exception's type");
        return NULL;
    }
    return none_if(key_of(args[0], &key) && end_keyed_span(object, key, count > 1 ? args[1] : NULL));
}

/// A `with` block: a span of the process's key, if a recorded step is under way.
static PyObject* open_spans_enter(PyObject* object, PyObject* unused) {
    const profiler_object* profiler = (profiler_object*)region_of(object)->profiler;
    return none_if(!is_recording(profiler) || begin_keyed_span(object, 0));
}

static PyObject* open_spans_exit(PyObject* object, PyObject* const* args, Py_ssize_t count) {
    return none_if(end_keyed_span(object, 0, count > 0 ? args[0] : NULL));
}

static PyObject* open_spans_abandon(PyObject* object, PyObject* unused) {
    const region_object* region = region_of(object);
    while (region->blocks.count > 0)
        if (!end_keyed_span(object, region->blocks.items[0].key, hooks.not_finished)) return NULL;
    return new_none();
}

static int open_spans_bool(PyObject* object) {
    return has_open_spans(object);
}

static int open_spans_init(open_spans_object* self, PyObject* args, PyObject* keywords) {
    if (TAKE_ARGUMENTS(self, args, region_type) != 0) return -1;
    region_object* like = (region_object*)self->region;
    OWNED own = region_with(like, like->has_stream, like->stream, like->attributes);
    set_reference(&self->region, own);
    return own != NULL ? 0 : -1;
}

COLLECTED_TYPE(open_spans, "Phase", Py_TPFLAGS_BASETYPE, region, nothing_else, SLOT(tp_init, open_spans_init),
               SLOT(nb_bool, open_spans_bool),
               METHODS(ROW(open_spans, begin, ONE_ARGUMENT,
                           "Begins a span. A span of the key that is still open ends as NotFinished."),
                       ROW(open_spans, end, FAST, "Ends the key's span, if any."),
                       METHOD("__enter__", NO_ARGUMENT(open_spans_enter),
                              "Begins a span of the key None on a recorded step."),
                       METHOD("__exit__", FAST(open_spans_exit), NULL),
                       ROW(open_spans, abandon, NO_ARGUMENT, "Ends all open spans as NotFinished.")));
