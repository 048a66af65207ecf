// SPDX-License-Identifier: Apache-2.0
//
// NcclCalls: times collectives where PyTorch calls NCCL: see cep/torch/_nccl.py.
//
// What stands before NCCL's functions runs on any thread, without the interpreter's lock, and calls nothing of
// Python's. It holds the mutex for as long as it takes to copy what it needs, and never within a call of NCCL's or of
// CUDA's.
#include <pthread.h>
#include <string.h>

#include "imports.h"
#include "native.h"

/// Of NCCL, whose header is not needed to build this.
enum { nccl_success = 0, nccl_in_progress = 7, nccl_float16 = 6, nccl_float32 = 7, nccl_group_max_bytes = 63 };
typedef int (*reduce_function)(const void*, void*, size_t, int, int, void*, void*);
typedef int (*gather_function)(const void*, void*, size_t, int, void*, void*);
typedef int (*group_function)(void);

/// By NCCL's datatype; those before nccl_float16 are integers.
static const unsigned char bytes_of_type[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

enum { all_reduce_at, all_gather_at, reduce_scatter_at, operation_count };

/// The regions of one profiler.
typedef struct {
    PyObject_HEAD PyObject* regions[operation_count];
    bool holds;  ///< what stands before NCCL's functions
} nccl_calls_object;

/// A communicator whose collectives are timed now.
typedef struct {
    void* comm;
    nccl_calls_object* owner;
    PyObject* indices;
    int size;          ///< ranks
    bool is_of_model;  ///< has its all-reduces of gradients timed that no function of torch.distributed calls
    char group[nccl_group_max_bytes + 1];
} timed_comm;

static timed_comm* comms;
static Py_ssize_t comm_count, comm_capacity;
static pthread_mutex_t comms_mutex = PTHREAD_MUTEX_INITIALIZER;

/// Of this thread.
static __thread struct {
    int group_depth;  ///< within ncclGroupStart(): NCCL only notes the call
    int place;        ///< outside, in_timed or in_passed
    bool watches;
    void* seen;
} here;

int* place_of_thread(void) {
    return &here.place;
}

void watch_nccl_calls(void) {
    here.watches = true;
    here.seen = NULL;
}

void* end_watching_nccl_calls(void) {
    here.watches = false;
    return here.seen;
}

// ---- In the place of NCCL's functions ------------------------------------------------------------------------------

static int all_reduce(const void* send, void* receive, size_t count, int type, int op, void* comm, void* stream);
static int all_gather(const void* send, void* receive, size_t count, int type, void* comm, void* stream);
static int reduce_scatter(const void* send, void* receive, size_t count, int type, int op, void* comm, void* stream);
static int group_start(void);
static int group_end(void);

enum { group_start_at = operation_count, group_end_at, import_count };
static import nccl_imports[import_count] = {
    [all_reduce_at] = {.name = "ncclAllReduce", .replacement = (void*)all_reduce},
    [all_gather_at] = {.name = "ncclAllGather", .replacement = (void*)all_gather},
    [reduce_scatter_at] = {.name = "ncclReduceScatter", .replacement = (void*)reduce_scatter},
    [group_start_at] = {.name = "ncclGroupStart", .replacement = (void*)group_start},
    [group_end_at] = {.name = "ncclGroupEnd", .replacement = (void*)group_end},
};
static library_imports pytorch = {.imports = nccl_imports, .count = import_count};

static void* function_at(int at) {
    return nccl_imports[at].function;  // as found before the slots were first written
}

static int group_start(void) {
    const int result = ((group_function)function_at(group_start_at))();
    if (result == nccl_success) ++here.group_depth;
    return result;
}

static int group_end(void) {
    if (here.group_depth > 0) --here.group_depth;
    return ((group_function)function_at(group_end_at))();
}

typedef struct {
    cep_region* region;
    cep_span span;
    void* stream;
} timed_call;

/// Integers are DDP's own of parameters that no rank has used, and one number is PyTorch's barrier.
static bool is_of_gradients(int operation, size_t count, int type) {
    return operation == all_reduce_at && type >= nccl_float16 && !(count == 1 && type == nccl_float32);
}

/// The region of a communicator, its group, and the call's index and bytes; NULL if it is not timed.
static cep_region* take_call(int operation, void* comm, bool is_passed, char* group, cep_attrs* attrs) {
    cep_region* region = NULL;
    pthread_mutex_lock(&comms_mutex);
    for (Py_ssize_t i = 0; i < comm_count; ++i) {
        const timed_comm* one = &comms[i];
        if (one->comm != comm || !(is_passed || one->is_of_model)) continue;
        const region_object* own = (region_object*)one->owner->regions[operation];
        const profiler_object* profiler = (profiler_object*)own->profiler;
        region = own->handle;
        attrs->coll = take_index(one->indices, __atomic_load_n(&profiler->step, __ATOMIC_RELAXED), 1);
        if (operation != all_reduce_at) attrs->bytes *= one->size;  // as in nccl-tests: of all ranks together
        memcpy(group, one->group, sizeof one->group);
    }
    pthread_mutex_unlock(&comms_mutex);
    return region;
}

/// The span of a call that NCCL's stream has come to, behind all that the call waits for.
static timed_call begin_call(int operation, size_t count, int type, void* comm, void* stream) {
    timed_call call = {NULL, CEP_SPAN_NONE, stream};
    char group[nccl_group_max_bytes + 1];
    cep_attrs attrs = CEP_ATTRS_INIT;
    const bool is_known = 0 <= type && (size_t)type < sizeof bytes_of_type;
    if (here.group_depth > 0 || !is_known) return call;
    if (here.watches) here.seen = comm;
    const bool is_passed = here.place == in_passed;
    const bool is_bucket = here.place == outside && is_of_gradients(operation, count, type);
    if (here.watches || !(is_passed || is_bucket) || __atomic_load_n(&comm_count, __ATOMIC_ACQUIRE) == 0) return call;
    attrs.bytes = (int64_t)(count * bytes_of_type[type]);
    call.region = take_call(operation, comm, is_passed, group, &attrs);
    attrs.group = group;
    if (call.region != NULL) call.span = library.begin_with(call.region, stream, &attrs);
    return call;
}

static int end_call(timed_call call, int result) {
    cep_attrs attrs = CEP_ATTRS_INIT;
    // PyTorch raises the first. With the second NCCL has not launched its work, which it does on a thread of its own.
    attrs.error = result == nccl_in_progress ? "Unmeasured" : "DistBackendError";
    if (call.span == CEP_SPAN_NONE) return result;
    if (result == nccl_success)
        library.end(call.region, call.span, call.stream);
    else
        (void)library.end_with(call.region, call.span, call.stream, &attrs);
    return result;
}

static int all_reduce(const void* send, void* receive, size_t count, int type, int op, void* comm, void* stream) {
    const timed_call call = begin_call(all_reduce_at, count, type, comm, stream);
    return end_call(call, ((reduce_function)function_at(all_reduce_at))(send, receive, count, type, op, comm, stream));
}

static int all_gather(const void* send, void* receive, size_t count, int type, void* comm, void* stream) {
    const timed_call call = begin_call(all_gather_at, count, type, comm, stream);
    return end_call(call, ((gather_function)function_at(all_gather_at))(send, receive, count, type, comm, stream));
}

static int reduce_scatter(const void* send, void* receive, size_t count, int type, int op, void* comm, void* stream) {
    const timed_call call = begin_call(reduce_scatter_at, count, type, comm, stream);
    const reduce_function function = (reduce_function)function_at(reduce_scatter_at);
    return end_call(call, function(send, receive, count, type, op, comm, stream));
}

// ---- What is timed, and since when ---------------------------------------------------------------------------------

static Py_ssize_t holds;
static bool is_ready;

/// In a child of fork(), whose parent's other threads may have held the mutex, nothing is timed.
static void forget_in_child(void) {
    pthread_mutex_init(&comms_mutex, NULL);
    __atomic_store_n(&comm_count, 0, __ATOMIC_RELEASE);
}

static bool hold_calls(void) {
    if (holds == 0) {
        if (!find_imports("libtorch_cuda.so", &pytorch)) return false;
        if (!is_ready && pthread_atfork(NULL, NULL, forget_in_child) != 0) return false;
        is_ready = true;
        if (!replace_imports(&pytorch)) {
            put_back_imports(&pytorch);
            return false;
        }
    }
    ++holds;
    return true;
}

static void remove_at(Py_ssize_t at, PyObject** dropped) {
    *dropped = comms[at].indices;
    comms[at] = comms[comm_count - 1];
    __atomic_store_n(&comm_count, comm_count - 1, __ATOMIC_RELEASE);
}

/// Those of an owner, and one communicator of any.
static void forget_comms(const nccl_calls_object* owner, const void* comm) {
    for (Py_ssize_t i = comm_count; i-- > 0;) {
        PyObject* dropped = NULL;
        pthread_mutex_lock(&comms_mutex);
        if (comms[i].owner == owner || comms[i].comm == comm) remove_at(i, &dropped);
        pthread_mutex_unlock(&comms_mutex);
        Py_XDECREF(dropped);
    }
}

static void release_calls(nccl_calls_object* self) {
    forget_comms(self, NULL);
    if (self->holds && --holds == 0) put_back_imports(&pytorch);
    self->holds = false;
}

/// Puts a group's name into the communicator.
static bool set_group(timed_comm* made, PyObject* name) {
    PyObject* text = PyUnicode_AsUTF8String(name);
    const Py_ssize_t size = text != NULL ? PyBytes_Size(text) : -1;
    const bool fits = 0 < size && size <= nccl_group_max_bytes;
    if (fits) memcpy(made->group, PyBytes_AsString(text), (size_t)size);
    Py_XDECREF(text);
    return fits || (PyErr_Occurred() == NULL && PyErr_Format(PyExc_ValueError, "%R is no group's name", name) != NULL);
}

static bool add_comm(const timed_comm* made) {
    pthread_mutex_lock(&comms_mutex);
    const bool has_room = make_room((void**)&comms, comm_count, &comm_capacity, sizeof *made);
    if (has_room) {
        Py_INCREF(made->indices);
        comms[comm_count] = *made;
        __atomic_store_n(&comm_count, comm_count + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&comms_mutex);
    return has_room;
}

// ---- The type ------------------------------------------------------------------------------------------------------

static PyObject* nccl_calls_hold(PyObject* object, PyObject* unused) {
    nccl_calls_object* self = (nccl_calls_object*)object;
    if (!self->holds) self->holds = hold_calls();
    return PyBool_FromLong(self->holds);
}

static PyObject* nccl_calls_release(PyObject* object, PyObject* unused) {
    release_calls((nccl_calls_object*)object);
    return new_none();
}

static PyObject* nccl_calls_forget_all(PyObject* object, PyObject* unused) {
    forget_comms((nccl_calls_object*)object, NULL);
    return new_none();
}

static PyObject* nccl_calls_time_comm(PyObject* object, PyObject* args) {
    timed_comm made = {.owner = (nccl_calls_object*)object};
    PyObject *comm = NULL, *group = NULL;
    int is_of_model = 0;
    if (!PyArg_ParseTuple(args, "OO!p", &comm, &PyTuple_Type, &group, &is_of_model)) return NULL;
    made.size = (int)PyLong_AsLong(PyTuple_GetItem(group, group_size_at));
    made.indices = PyTuple_GetItem(group, group_indices_at);
    made.is_of_model = is_of_model != 0;
    if (!address_of(comm, &made.comm) || !set_group(&made, PyTuple_GetItem(group, group_name_at))) return NULL;
    forget_comms(NULL, made.comm);  // of another profiler: the newest wins
    return add_comm(&made) ? new_none() : NULL;
}

static int nccl_calls_init(PyObject* object, PyObject* args, PyObject* keywords) {
    return TAKE_ARGUMENTS(object, args, region_type, region_type, region_type);
}

HAS_REFERENCES(nccl_calls, regions[operation_count - 1])

static void nccl_calls_free(PyObject* object) {
    release_calls((nccl_calls_object*)object);
    nccl_calls_drop(object);
}

static PyMethodDef methods[] = {
    {"hold", nccl_calls_hold, METH_NOARGS, "Has PyTorch call NCCL through this module; returns whether it does."},
    {"release", nccl_calls_release, METH_NOARGS, "No longer, and times nothing."},
    {"time_comm", nccl_calls_time_comm, METH_VARARGS,
     "From now on times the collectives of a communicator (its address), which is that of a Group; also those that no "
     "function of torch.distributed calls, if it is a model's."},
    {"forget_all", nccl_calls_forget_all, METH_NOARGS, "Times no communicator's."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot nccl_calls_slots[] = {
    {Py_tp_init, nccl_calls_init},
    {Py_tp_dealloc, nccl_calls_free},
    {Py_tp_traverse, nccl_calls_traverse},
    {Py_tp_methods, methods},
    {0, NULL},
};

DEFINE_TYPE(nccl_calls, "NcclCalls", Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC);
