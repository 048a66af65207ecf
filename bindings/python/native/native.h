// SPDX-License-Identifier: Apache-2.0
//
// cep._native: the calls of a step loop and of PyTorch's hooks in C, over Python's stable ABI. One binary serves
// CPython 3.9 and later. Where this module is missing, cep/_ctypes_calls.py makes the calls of a step loop, and there
// are no hooks.
//
// Each file uses those before it: streams, region, profiler, timed_function, nccl_calls, collectives,
// bucket_timer, passes, training, module.
//
// The module links no libcep. The package loads the library, and connect() takes the functions' addresses from it. All
// state is guarded by the GIL; builds of Python without a GIL do not load modules of the stable ABI.
#ifndef CEP_PYTHON_NATIVE_H
#define CEP_PYTHON_NATIVE_H

#include <Python.h>
#include <cep/cep.h>
#include <stdbool.h>
#include <stdint.h>
#include <structmember.h>

// Part of the stable ABI since 3.10. CPython 3.9 has the same calling convention under the same number.
#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080
#endif

// Rows of a table of methods, whose functions take an object of their type.
#define CALLED(function) (PyCFunction)(void (*)(void))(function)
#define NO_ARGUMENT(function) CALLED(function), METH_NOARGS
#define ONE_ARGUMENT(function) CALLED(function), METH_O
#define ARGUMENTS(function) CALLED(function), METH_VARARGS
#define FAST(function) CALLED(function), METH_FASTCALL
#define FAST_WITH_NAMES(function) CALLED(function), METH_FASTCALL | METH_KEYWORDS
#define METHOD(name, function, text) \
    { name, function, text }
#define ROW(kind, method, called, text) METHOD(#method, called(kind##_##method), text)

/// The functions of the loaded libcep, in the order in which connect() takes their addresses.
typedef struct {
    int32_t (*step)(cep_profiler*, int64_t);
    int32_t (*recording)(const cep_profiler*);
    cep_span (*begin)(cep_region*, void*);
    cep_span (*begin_with)(cep_region*, void*, const cep_attrs*);
    void (*end)(cep_region*, cep_span, void*);
    int32_t (*end_with)(cep_region*, cep_span, void*, const cep_attrs*);
    int32_t (*phase)(cep_profiler*, cep_region*, void*);
} library_calls;

/// What the package gives the module once.
typedef struct {
    PyObject* host;           ///< cep.HOST
    PyObject* kinds;          ///< the names of kinds, a dictionary
    PyObject* whole_number;   ///< converts the number of a step, or raises
    PyObject* native_struct;  ///< makes the struct of attributes: (object that keeps it, its address); or raises
    PyObject* find_stream;    ///< how to get the current stream: None or (function, argument or None)
    PyObject* not_failures;   ///< exceptions that do not mark a row, a tuple
    PyObject* method_type;    ///< types.MethodType
} package_objects;

/// What cep.torch gives the module once.
typedef struct {
    PyObject* note_failure;  ///< counts an exception in a hook
    PyObject* not_finished;  ///< exceptions' types: cep.torch._pytorch.NotFinished
    PyObject* unmeasured;    ///< cep.torch._pytorch.Unmeasured
    PyObject* tensor;        ///< torch.Tensor
    PyObject* tensors_in;    ///< lists the tensors of a model's output
    PyObject* ordered_dict;  ///< collections.OrderedDict
    PyObject* inert;         ///< what __reduce__() of hooks returns: a copy does nothing
} torch_objects;

extern library_calls library;
extern package_objects package;
extern torch_objects hooks;

/// What is open: a `with` block, a span of a hook's, a phase, or the step() of an optimizer, which it then has for a
/// stream.
typedef struct {
    unsigned long key;  ///< a thread, or 0 for the whole process
    cep_span span;
    void* stream;
    bool keeps_lock;  ///< of a phase: as its region
} block;

/// Each key's innermost is the last one.
typedef struct {
    block* items;
    Py_ssize_t count, capacity;
} block_list;

/// The base of cep.Profiler: what a step loop calls.
typedef struct {
    PyObject_HEAD PyObject* recording;  ///< a list that is not empty while recording, shared with Python
    PyObject* regions;                  ///< by name: those without a stream of their own
    PyObject* stream_source;            ///< returns the current stream's address; NULL: the default stream
    PyObject* stream_argument;          ///< for stream_source; NULL: it takes none
    PyObject* device;                   ///< the spans' device, where it is not the current one; NULL: the current one
    PyObject* exchange_device;          ///< makes a device current and returns the one that was; NULL without a device
    PyObject* listeners;                ///< a tuple of what is called where recording begins or ends; NULL: nothing
    cep_profiler* handle;
    PyCFunction stream_function;  ///< stream_source itself if it is a C function of one argument
    PyObject* stream_self;        ///< which stream_source keeps
    block_list phases;            ///< of the threads that have one
    long long step, library_step;
    long long first, last, every, flush_every;
    char enabled, on_host;
    char wants_steps;  ///< calls the listeners at every step
} profiler_object;

enum { with_call_count = 2, group_max_bytes = 63 };

/// A Group's members.
enum { group_name_at, group_size_at, group_on_device_at, group_indices_at };

/// The attributes of a span, in the order of cep._attributes.Attributes. Not for callers of region(): is_async.
enum { bytes_at, flops_at, group_at, coll_at, meta_at, attribute_count, is_async_at = attribute_count };

/// The base of cep.Region.
typedef struct region_object {
    PyObject_HEAD PyObject* name;
    PyObject* profiler;    ///< a profiler_object
    PyObject* attributes;  ///< a tuple; NULL or None: none
    PyObject* attrs_owner;
    PyObject* next;                         ///< the region of the same name on another stream; NULL or None: none
    PyObject* with_calls[with_call_count];  ///< __enter__ and __exit__ once they have been looked up; else NULL
    cep_region* handle;
    void* stream;
    bool has_stream;  ///< else spans use the current stream
    char keeps_lock;  ///< spans are on the host clock: they make no CUDA call, so they keep the GIL
    bool has_attrs;   ///< attrs is filled in
    block_list blocks;
    cep_attrs attrs;
} region_object;

/// The module's types.
#define EACH_TYPE(DO)                                                                                                \
    DO(profiler), DO(region), DO(timed_function), DO(timed_copy), DO(open_spans), DO(async_span), DO(indices),       \
        DO(nccl_calls), DO(bucket_timer), DO(collective_calls), DO(backward), DO(forward), DO(optimizer), DO(steps), \
        DO(watch), DO(hook)
#define TYPE_OF(name) *name##_type
#define SPEC_OF(name) name##_spec
extern PyTypeObject EACH_TYPE(TYPE_OF);
extern PyType_Spec EACH_TYPE(SPEC_OF);

static inline bool is_given(const PyObject* object) {
    return object != NULL && object != Py_None;
}

static inline bool is_recording(const profiler_object* profiler) {
    return profiler->recording != NULL && PyList_Size(profiler->recording) > 0;
}

/// Whether the region's __init__() has run; false with an exception. A subclass can forget to call it.
static inline bool is_initialised(const region_object* region) {
    if (region != NULL && region->profiler != NULL) return true;
    PyErr_SetString(PyExc_AttributeError, "the region has no profiler: its __init__() was not called");
    return false;
}

static inline PyObject* new_none(void) {
    Py_INCREF(Py_None);
    return Py_None;
}

/// Drops references, each of which may be NULL.
#define DROP(...) drop((PyObject*[]){__VA_ARGS__}, sizeof((PyObject*[]){__VA_ARGS__}) / sizeof(PyObject*))
static inline void drop(PyObject* const* objects, size_t count) {
    for (size_t i = 0; i < count; ++i) Py_XDECREF(objects[i]);
}

/// A reference that is dropped where its block ends; NULL: none.
#define OWNED __attribute__((cleanup(drop_owned))) PyObject*
static inline void drop_owned(PyObject** owned) {
    Py_XDECREF(*owned);
}

/// Drops the result of a call. Whether it is one, and no exception.
static inline bool is_done(PyObject* result) {
    Py_XDECREF(result);
    return result != NULL;
}

/// The result of a method.
static inline PyObject* none_if(bool done) {
    return done ? new_none() : NULL;
}

/// The result of a function of one argument, and an attribute; NULL also where the argument or the object is NULL.
static inline PyObject* call_with(PyObject* function, PyObject* argument) {
    return argument != NULL ? PyObject_CallFunctionObjArgs(function, argument, NULL) : NULL;
}
static inline PyObject* get_attribute(PyObject* object, PyObject* name) {
    return object != NULL && name != NULL ? PyObject_GetAttr(object, name) : NULL;
}
static inline bool set_attribute(PyObject* object, PyObject* name, PyObject* value) {
    return name != NULL && PyObject_SetAttr(object, name, value) == 0;
}

/// A literal as Python's text, made once: a new one at each look-up would find nothing in Python's cache of look-ups,
/// and drive out what is in it.
static inline PyObject* kept_text(PyObject** kept, const char* text) {
    if (*kept == NULL) *kept = PyUnicode_InternFromString(text);
    return *kept;
}
#define TEXT(literal)               \
    __extension__({                 \
        static PyObject* text_;     \
        kept_text(&text_, literal); \
    })
#define ATTRIBUTE(object, name) get_attribute(object, TEXT(name))
#define SET_ATTRIBUTE(object, name, value) set_attribute(object, TEXT(name), value)
/// The result of a method, whose arguments end with a NULL.
#define CALL_METHOD(object, name, ...) PyObject_CallMethodObjArgs((PyObject*)(object), TEXT(name), __VA_ARGS__)

/// Whether an object that is not NULL is true; −1 with an exception. Drops it.
static inline int truth_of(PyObject* object) {
    const int truth = object != NULL ? PyObject_IsTrue(object) : -1;
    Py_XDECREF(object);
    return truth;
}

/// Puts a new reference into a field.
static inline void set_reference(PyObject** field, PyObject* value) {
    PyObject* before = *field;
    Py_XINCREF(value);
    *field = value;
    Py_XDECREF(before);
}

unsigned long this_thread(void);

// ---- Functions of other files: false or NULL with an exception, where nothing else is said -------------------------

/// Makes room for one more of an array's items.
bool make_room(void** items, Py_ssize_t count, Py_ssize_t* capacity, size_t item_bytes);

/// Adds one; false with an exception.
static inline bool push_block(block_list* list, block entered) {
    if (!make_room((void**)&list->items, list->count, &list->capacity, sizeof entered)) return false;
    list->items[list->count++] = entered;
    return true;
}

/// The innermost of a key; NULL: it has none.
static inline block* find_block(const block_list* list, unsigned long key) {
    for (Py_ssize_t i = list->count; i-- > 0;)
        if (list->items[i].key == key) return &list->items[i];
    return NULL;
}

/// Takes that out; false without an exception: it has none.
static inline bool pop_block(block_list* list, unsigned long key, block* left) {
    block* found = find_block(list, key);
    if (found == NULL) return false;
    *left = *found;
    for (--list->count; found < list->items + list->count; ++found) *found = found[1];
    return true;
}

/// The address in an integer.
bool address_of(PyObject* integer, void** address);
/// Whether a stream that the caller named can be converted here; if not, Python's stream_address() must.
bool stream_address_of(PyObject* stream, void** address);
bool current_stream(profiler_object* profiler, void** stream);
/// Takes a pair of a function and its argument or None.
bool set_stream_source(profiler_object* profiler, PyObject* pair);
/// Finds PyTorch's current stream once this process uses CUDA through PyTorch.
bool find_stream_source(profiler_object* profiler);

/// Begins a step of the trainer. `has_number`: it is not only the one after the last.
bool go_to_step(profiler_object* profiler, long long step, bool has_number);
/// The first recorded step after this one.
long long next_recorded(const profiler_object* profiler, long long step);

/// Makes the profiler's device current, if it has one. What leave_device() takes; without exceptions.
PyObject* enter_device(profiler_object* profiler);
void leave_device(profiler_object* profiler, PyObject* before);

/// Begins a span of the region on its stream.
bool begin_span(region_object* region, cep_span* span, void** stream);
/// Ends a span. `error` is the type of the exception that left the phase, or NULL.
bool end_span(region_object* region, cep_span span, void* stream, PyObject* error);
/// Tells the package of a span that is entered or left before the profiler's first step.
bool note_early(region_object* region, bool enters);
/// A region like that one, on the given stream and with the given attributes.
PyObject* region_with(region_object* like, bool has_stream, void* stream, PyObject* attributes);
/// Gives the type of regions __enter__ and __exit__ that make no object at each look-up.
bool add_with_calls(void);
bool fill_attrs(region_object* region);

/// A span on the host clock of a collective that begins now, with attributes as region() takes them. `like` is a region
/// of its name.
PyObject* new_async_span(region_object* like, PyObject* attributes);
/// Ends it when the work is done.
bool end_with_work(PyObject* async_span, PyObject* work);
/// Ends it now, because the call raised an exception of that type.
bool fail_async_span(PyObject* async_span, PyObject* error);
/// Ends the spans on the host of a profiler whose work has ended. Cheap if there are none.
bool end_done_spans(PyObject* profiler);
/// Of the module: whether there have been spans that a future's callback ends, and how many are not freed.
PyObject* expected_callbacks(PyObject* module, PyObject* unused);

/// Spans of Phase by key. A span of the key that is still open ends as not finished.
bool begin_keyed_span(PyObject* open_spans, unsigned long key);
bool end_keyed_span(PyObject* open_spans, unsigned long key, PyObject* error);
bool has_keyed_span(PyObject* open_spans, unsigned long key);
bool has_open_spans(PyObject* open_spans);

/// The next index of a group's collectives. Needs no lock.
long long take_index(PyObject* indices, long long step, long long count);

/// Whether this thread is in a function of torch.distributed that is timed: calls of others within it get no rows.
bool* inside_of_thread(void);
/// Has this thread's next call of NCCL timed, or what is called in its group. `like` is a region of the name.
bool announce_call(PyObject* like, PyObject* attributes);
/// Ends that. The communicator of the call; NULL: there was none.
void* withdraw_call(void);

/// Of hooks: a copy, deep or pickled, does nothing, and can be read without this package.
PyObject* reduce_hook(PyObject* hook, PyObject* unused);

/// Counts the exception that is set, if any, as a hook's failure, which does not reach the trainer. False if it is to
/// end the program: then it stays set.
bool note_failure(void);
/// The exception of a call of the trainer's, taken while a hook ends what it began; all NULL: none.
typedef struct {
    PyObject *type, *value, *traceback;
} taken_error;
static inline taken_error take(void) {
    taken_error error;
    PyErr_Fetch(&error.type, &error.value, &error.traceback);
    return error;
}
static inline void put_back(taken_error error) {
    PyErr_Restore(error.type, error.value, error.traceback);
}
/// Gives the trainer its result, or its exception as it was. A hook's own failure is counted; one that is to end the
/// program takes their place.
PyObject* after_hook(bool succeeded, PyObject* result, taken_error error);

// The references that an object of a type here holds stand right behind its head, up to a last one.

/// Takes the arguments of __init__() as the first references. `types`: of each; NULL: any. −1 with an exception.
int take_arguments(PyObject* object, PyObject* args, PyTypeObject* const* types, Py_ssize_t count);
#define TAKE_ARGUMENTS(object, args, ...)                                     \
    take_arguments((PyObject*)(object), args, (PyTypeObject*[]){__VA_ARGS__}, \
                   sizeof((PyTypeObject*[]){__VA_ARGS__}) / sizeof(PyTypeObject*))
/// Of a type with the collector.
int visit_references(PyObject* object, size_t count, visitproc visit, void* arg);
void clear_references(PyObject** first, PyObject** last);
/// Drops the references and the object.
void free_object(PyObject* object, size_t count);
/// Where an object has nothing but references to let go.
static inline void nothing_else(const void* object) {}

/// Rows of a type's table of slots.
#define SLOT(name, value) \
    { Py_##name, value }
#define METHODS(...) SLOT(tp_methods, ((PyMethodDef[]){__VA_ARGS__, {NULL, NULL, 0, NULL}}))
#define MEMBERS(...) SLOT(tp_members, ((PyMemberDef[]){__VA_ARGS__, {NULL, 0, 0, 0, NULL}}))
/// A member of a NAME_object that Python sees under a name.
#define MEMBER(object, name, kind, field, flags) \
    { (char*)(name), kind, offsetof(object##_object, field), flags, NULL }

/// The type of a NAME_object, with its slots.
#define DEFINE_TYPE(kind, text, more_flags, ...)                  \
    static PyType_Slot kind##_slots[] = {__VA_ARGS__, {0, NULL}}; \
    PyType_Spec kind##_spec = {                                   \
        .name = "cep._native." text,                              \
        .basicsize = sizeof(kind##_object),                       \
        .flags = Py_TPFLAGS_DEFAULT | (more_flags),               \
        .slots = kind##_slots,                                    \
    }

/// One with the collector and references up to `last`; `release` lets go of what else an object has.
#define COLLECTED_TYPE(kind, text, more_flags, last, release, ...)                                           \
    enum { kind##_references = (offsetof(kind##_object, last) - sizeof(PyObject)) / sizeof(PyObject*) + 1 }; \
    static int kind##_traverse(PyObject* object, visitproc visit, void* arg) {                               \
        return visit_references(object, kind##_references, visit, arg);                                      \
    }                                                                                                        \
    static void kind##_drop(PyObject* object) {                                                              \
        PyObject_GC_UnTrack(object);                                                                         \
        release((kind##_object*)object);                                                                     \
        free_object(object, kind##_references);                                                              \
    }                                                                                                        \
    DEFINE_TYPE(kind, text, Py_TPFLAGS_HAVE_GC | (more_flags), SLOT(tp_dealloc, kind##_drop),                \
                SLOT(tp_traverse, kind##_traverse), __VA_ARGS__)

/// NAME_clear(), of the references from `first` to `last`. The others stay: what the collector has cleared may still be
/// called.
#define CLEARS(kind, first, last)                    \
    static int kind##_clear(kind##_object* self) {   \
        clear_references(&self->first, &self->last); \
        return 0;                                    \
    }

/// NAME_METHOD(), which returns None where it is done, and NAME_init(), which takes arguments of these types.
#define NONE_METHOD(kind, method, done)                                         \
    static PyObject* kind##_##method(kind##_object* self, PyObject* argument) { \
        return none_if(done);                                                   \
    }
#define TAKES(kind, ...)                                                              \
    static int kind##_init(kind##_object* self, PyObject* args, PyObject* keywords) { \
        return TAKE_ARGUMENTS(self, args, __VA_ARGS__);                               \
    }

/// What is called in the place of a function of the trainer's, or at a place for hooks: `call`, with this object, which
/// keeps its owner and what stood there, if anything did.
typedef struct hook_object {
    PyObject_HEAD PyObject* owner;
    PyObject* original;
    long long due_ns;  ///< before this time it is not called
    PyObject* (*call)(struct hook_object* self, PyObject* args, PyObject* keywords);
} hook_object;
/// What calls a function, at most once a second.
PyObject* seldom(PyObject* module, PyObject* function);
PyObject* new_hook(PyObject* owner, PyObject* original, PyObject* (*call)(hook_object*, PyObject*, PyObject*));

#endif
