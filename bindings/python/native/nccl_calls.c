// SPDX-License-Identifier: Apache-2.0
//
// NCCL's all-reduces, timed where PyTorch calls NCCL: see cep/torch/_ddp.py.
//
// What stands before NCCL's functions runs on any thread, without the interpreter's lock, and calls nothing of
// Python's. It holds the mutex for as long as it takes to copy what it needs, and never within a call of NCCL's or of
// CUDA's.
#include <pthread.h>
#include <string.h>

#include "imports.h"
#include "native.h"

/// Of NCCL, whose header is not needed to build this.
enum { nccl_success = 0, nccl_in_progress = 7, nccl_float32 = 7, nccl_group_max_bytes = 63 };
typedef int (*all_reduce_function)(const void*, void*, size_t, int, int, void*, void*);
typedef int (*group_function)(void);

/// By NCCL's datatype; 0: integers, which DDP reduces to find parameters that no rank has used.
static const unsigned char bytes_of_type[] = {0, 0, 0, 0, 0, 0, 2, 4, 8, 2, 1, 1};

/// A communicator whose all-reduces are timed now.
typedef struct {
    void* comm;
    region_object* region;  ///< its owner's, which keeps it
    PyObject* indices;
    char group[nccl_group_max_bytes + 1];
} timed_comm;

static timed_comm* comms;
static Py_ssize_t comm_count, comm_capacity;
static pthread_mutex_t comms_mutex = PTHREAD_MUTEX_INITIALIZER;

/// Of this thread.
static __thread struct {
    int group_depth;  ///< within ncclGroupStart(): NCCL only notes the call
    bool inside, watches;
    void* seen;
} here;

bool* inside_timed_function(void) {
    return &here.inside;
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
static int group_start(void);
static int group_end(void);

enum { all_reduce_at, group_start_at, group_end_at, import_count };
static import nccl_imports[import_count] = {
    [all_reduce_at] = {.name = "ncclAllReduce", .replacement = (void*)all_reduce},
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

/// Its region, group and index; NULL if it is not timed.
static cep_region* take_comm(void* comm, char* group, int64_t* coll) {
    cep_region* region = NULL;
    pthread_mutex_lock(&comms_mutex);
    for (Py_ssize_t i = 0; i < comm_count; ++i)
        if (comms[i].comm == comm) {
            const profiler_object* profiler = (profiler_object*)comms[i].region->profiler;
            region = comms[i].region->handle;
            *coll = take_index(comms[i].indices, __atomic_load_n(&profiler->step, __ATOMIC_RELAXED), 1);
            memcpy(group, comms[i].group, sizeof comms[i].group);
        }
    pthread_mutex_unlock(&comms_mutex);
    return region;
}

/// The region and the span of a bucket that NCCL's stream has come to, behind all that the bucket waits for.
static cep_span begin_bucket(int64_t bytes, void* comm, void* stream, cep_region** region) {
    char group[nccl_group_max_bytes + 1];
    cep_attrs attrs = CEP_ATTRS_INIT;
    *region = take_comm(comm, group, &attrs.coll);
    if (*region == NULL) return CEP_SPAN_NONE;
    attrs.bytes = bytes;
    attrs.group = group;
    return library.begin_with(*region, stream, &attrs);
}

static void end_bucket(cep_region* region, cep_span span, void* stream, int result) {
    cep_attrs attrs = CEP_ATTRS_INIT;
    // PyTorch raises the first. With the second NCCL has not launched its work, which it does on a thread of its own.
    attrs.error = result == nccl_in_progress ? "Unmeasured" : "DistBackendError";
    if (result == nccl_success)
        library.end(region, span, stream);
    else
        (void)library.end_with(region, span, stream, &attrs);
}

/// 0: it is no reduction of gradients. One number is PyTorch's barrier.
static size_t bytes_of_bucket(size_t count, int type) {
    const bool is_known = 0 <= type && (size_t)type < sizeof bytes_of_type;
    return is_known && !(count == 1 && type == nccl_float32) ? count * bytes_of_type[type] : 0;
}

static int all_reduce(const void* send, void* receive, size_t count, int type, int op, void* comm, void* stream) {
    const all_reduce_function call = (all_reduce_function)function_at(all_reduce_at);
    const size_t bytes = bytes_of_bucket(count, type);
    if (bytes == 0 || here.inside || here.group_depth > 0) return call(send, receive, count, type, op, comm, stream);
    if (here.watches) here.seen = comm;
    cep_region* region = NULL;
    const bool times = !here.watches && __atomic_load_n(&comm_count, __ATOMIC_ACQUIRE) > 0;
    const cep_span span = times ? begin_bucket((int64_t)bytes, comm, stream, &region) : CEP_SPAN_NONE;
    const int result = call(send, receive, count, type, op, comm, stream);
    if (span != CEP_SPAN_NONE) end_bucket(region, span, stream, result);
    return result;
}

// ---- What is timed, and since when ---------------------------------------------------------------------------------

static Py_ssize_t holds;
static bool is_ready;

/// In a child of fork(), whose parent's other threads may have held the mutex, nothing is timed.
static void forget_in_child(void) {
    pthread_mutex_init(&comms_mutex, NULL);
    __atomic_store_n(&comm_count, 0, __ATOMIC_RELEASE);
}

bool hold_nccl_calls(void) {
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

void release_nccl_calls(void) {
    if (--holds == 0) put_back_imports(&pytorch);
}

static void remove_at(Py_ssize_t at, PyObject** dropped) {
    *dropped = comms[at].indices;
    comms[at] = comms[comm_count - 1];
    __atomic_store_n(&comm_count, comm_count - 1, __ATOMIC_RELEASE);
}

void forget_comms(const region_object* region, const void* comm) {
    for (Py_ssize_t i = comm_count; i-- > 0;) {
        PyObject* dropped = NULL;
        pthread_mutex_lock(&comms_mutex);
        if (comms[i].region == region || comms[i].comm == comm) remove_at(i, &dropped);
        pthread_mutex_unlock(&comms_mutex);
        Py_XDECREF(dropped);
    }
}

bool time_comm(region_object* region, void* comm, PyObject* group, PyObject* indices) {
    timed_comm made = {.comm = comm, .region = region, .indices = indices};
    PyObject* text = PyUnicode_AsUTF8String(group);
    const Py_ssize_t size = text != NULL ? PyBytes_Size(text) : -1;
    const bool fits = 0 < size && size <= nccl_group_max_bytes;
    if (fits) memcpy(made.group, PyBytes_AsString(text), (size_t)size);
    Py_XDECREF(text);
    if (!fits)
        return PyErr_Occurred() == NULL && PyErr_Format(PyExc_ValueError, "%R is no group's name", group) != NULL;
    forget_comms(NULL, comm);  // of another profiler: the newest wins
    pthread_mutex_lock(&comms_mutex);
    const bool has_room = make_room((void**)&comms, comm_count, &comm_capacity, sizeof made);
    if (has_room) {
        Py_INCREF(indices);
        comms[comm_count] = made;
        __atomic_store_n(&comm_count, comm_count + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&comms_mutex);
    return has_room;
}
