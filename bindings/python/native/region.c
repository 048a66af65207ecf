// SPDX-License-Identifier: Apache-2.0
//
// RegionCalls: the spans of a region, and its `with` blocks.
#include "native.h"

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

/// Copies the type's name, cut to whole characters of at most error_max_bytes.
static bool error_name(PyObject* error, char* out) {
    PyObject* name = ATTRIBUTE(error, "__name__");
    PyObject* text = name != NULL ? PyUnicode_AsUTF8String(name) : NULL;
    Py_XDECREF(name);
    if (text == NULL) return false;
    Py_ssize_t size = PyBytes_Size(text);
    const char* bytes = PyBytes_AsString(text);
    if (size > error_max_bytes)
        for (size = error_max_bytes; size > 0 && ((unsigned char)bytes[size] & 0xC0) == 0x80;) --size;
    memcpy(out, bytes, (size_t)size);
    out[size] = '\0';
    Py_DECREF(text);
    return true;
}

static bool end_failed_span(region_object* self, cep_span span, void* stream, PyObject* error) {
    char name[error_max_bytes + 1];
    if (!error_name(error, name)) return false;
    cep_attrs attrs = CEP_ATTRS_INIT;
    attrs.error = name;
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

bool push_block(region_object* self, block entered) {
    if (self->block_count == small_blocks && self->blocks == self->small) {
        block* blocks = PyMem_Malloc(sizeof self->small);
        if (blocks == NULL) return PyErr_NoMemory() != NULL;
        self->blocks = memcpy(blocks, self->small, sizeof self->small);
    }
    if (!make_room((void**)&self->blocks, self->block_count, &self->block_capacity, sizeof entered)) return false;
    self->blocks[self->block_count++] = entered;
    return true;
}

bool pop_block(region_object* self, unsigned long key, block* left) {
    for (Py_ssize_t i = self->block_count; i-- > 0;) {
        if (self->blocks[i].key != key) continue;
        *left = self->blocks[i];
        --self->block_count;
        for (; i < self->block_count; ++i) self->blocks[i] = self->blocks[i + 1];
        return true;
    }
    return false;
}

bool note_early(region_object* self, bool enters) {
    if (((profiler_object*)self->profiler)->step >= 0) return true;
    return is_done(enters ? CALL_METHOD(self->profiler, "_enter_early", self, NULL)
                          : CALL_METHOD(self->profiler, "_leave_early", NULL));
}

static PyObject* region_enter(region_object* self, PyObject* unused) {
    if (!is_initialised(self) || !note_early(self, true)) return NULL;
    const bool recording = is_recording((profiler_object*)self->profiler);
    if (recording || self->block_count > 0) {
        block entered = {this_thread(), CEP_SPAN_NONE, NULL};
        if (recording && !begin_span(self, &entered.span, &entered.stream)) return NULL;
        if (!push_block(self, entered)) return NULL;
    }
    Py_INCREF(self);
    return (PyObject*)self;
}

static PyObject* region_exit(region_object* self, PyObject* const* args, Py_ssize_t count) {
    block left;
    if (self->profiler != NULL && !note_early(self, false)) return NULL;
    if (self->block_count == 0 || !pop_block(self, this_thread(), &left)) return new_none();
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

// ---- The type ------------------------------------------------------------------------------------------------------

/// An address or None.
static bool optional_address(PyObject* given, void** address, bool* has_address) {
    *has_address = is_given(given);
    return !*has_address || address_of(given, address);
}

/// All but the handle and the stream.
static void fill_region(region_object* self, PyObject* profiler, PyObject* name, PyObject* attributes) {
    self->keeps_lock = (char)(((profiler_object*)profiler)->on_host || (self->has_stream && self->stream == CEP_HOST));
    self->blocks = self->small;
    self->block_capacity = small_blocks;
    set_reference(&self->profiler, profiler);
    set_reference(&self->name, name);
    set_reference(&self->attributes, attributes);
}

static int region_init(region_object* self, PyObject* args, PyObject* keywords) {
    PyObject *profiler = NULL, *name = NULL, *handle = NULL, *stream = NULL, *attributes = NULL;
    void* address = NULL;
    bool has_handle = false;
    if (self->profiler != NULL) return 0;
    if (!PyArg_ParseTuple(args, "O!OOOO", profiler_type, &profiler, &name, &handle, &stream, &attributes)) return -1;
    if (!optional_address(handle, &address, &has_handle)) return -1;
    if (!optional_address(stream, &self->stream, &self->has_stream)) return -1;
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
    if (self->blocks != self->small) PyMem_Free(self->blocks);
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
