// SPDX-License-Identifier: Apache-2.0
//
// NcclCalls: times collectives and messages where PyTorch calls NCCL: see cep/torch/_collectives.py.
//
// What stands before NCCL's functions runs on any thread, without the interpreter's lock, and calls nothing of
// Python's. It holds the mutex for as long as it takes to copy what it needs, and never within a call of NCCL's or of
// CUDA's.
#include <pthread.h>
#include <string.h>

#include "imports.h"
#include "native.h"

/// Of NCCL, whose header is not needed to build this.
enum { nccl_success = 0, nccl_in_progress = 7, nccl_float16 = 6 };

/// By NCCL's datatype; those before nccl_float16 are integers.
static const unsigned char bytes_of_type[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

typedef struct {
    PyObject_HEAD PyObject* region;  ///< of the buckets of one profiler's models
    bool holds;                      ///< what stands before NCCL's functions
    bool is_on;                      ///< a recorded step is under way
} nccl_calls_object;

/// The communicator of a model, whose all-reduces no function of torch.distributed calls.
typedef struct {
    void* comm;
    nccl_calls_object* owner;
    PyObject* region;  ///< with the group as its attribute
    PyObject* indices;
    bool was_used;
} model_comm;

static model_comm* comms;
static Py_ssize_t comm_count, comm_capacity;
static int owners_on;
static bool saw_unknown_comm;  ///< with what may be a bucket
static pthread_mutex_t comms_mutex = PTHREAD_MUTEX_INITIALIZER;

typedef struct {
    cep_region* region;  ///< NULL: the call is not timed
    cep_span span;
    void* stream;
} timed_call;

/// Of this thread.
static __thread struct {
    int group_depth;      ///< within ncclGroupStart(): NCCL only notes the call
    bool is_inside;       ///< a function of torch.distributed
    PyObject* announced;  ///< the region of the next call of NCCL
    void* comm;           ///< that call's
    timed_call grouped;   ///< it, if it ends with its group
} here;

bool* inside_of_thread(void) {
    return &here.is_inside;
}

// ---- In the place of NCCL's functions ------------------------------------------------------------------------------

/// DO(name, parameters, arguments), of functions that end in a communicator and a stream.
#define EACH_CALL(DO)                                                                                                \
    DO(AllReduce, (const void* in, void* out, size_t n, int type, int op, void* comm, void* stream),                 \
       (in, out, n, type, op, comm, stream))                                                                         \
    DO(ReduceScatter, (const void* in, void* out, size_t n, int type, int op, void* comm, void* stream),             \
       (in, out, n, type, op, comm, stream))                                                                         \
    DO(AllGather, (const void* in, void* out, size_t n, int type, void* comm, void* stream),                         \
       (in, out, n, type, comm, stream))                                                                             \
    DO(AlltoAll, (const void* in, void* out, size_t n, int type, void* comm, void* stream),                          \
       (in, out, n, type, comm, stream))                                                                             \
    DO(Broadcast, (const void* in, void* out, size_t n, int type, int root, void* comm, void* stream),               \
       (in, out, n, type, root, comm, stream))                                                                       \
    DO(Bcast, (void* in, size_t n, int type, int root, void* comm, void* stream), (in, n, type, root, comm, stream)) \
    DO(Reduce, (const void* in, void* out, size_t n, int type, int op, int root, void* comm, void* stream),          \
       (in, out, n, type, op, root, comm, stream))                                                                   \
    DO(Send, (const void* in, size_t n, int type, int peer, void* comm, void* stream),                               \
       (in, n, type, peer, comm, stream))                                                                            \
    DO(Recv, (void* out, size_t n, int type, int peer, void* comm, void* stream), (out, n, type, peer, comm, stream))

static int group_start(void);
static int group_end(void);
#define DECLARE_CALL(name, parameters, arguments) static int nccl##name parameters;
EACH_CALL(DECLARE_CALL)

#define PLACE_OF(name, parameters, arguments) at_##name,
enum { group_start_at, group_end_at, EACH_CALL(PLACE_OF) import_count };
#define IMPORT_OF(called, parameters, arguments) \
    [at_##called] = {.name = "nccl" #called, .replacement = (void*)nccl##called},
static import nccl_imports[import_count] = {
    [group_start_at] = {.name = "ncclGroupStart", .replacement = (void*)group_start},
    [group_end_at] = {.name = "ncclGroupEnd", .replacement = (void*)group_end},
    EACH_CALL(IMPORT_OF)};
static library_imports pytorch = {.imports = nccl_imports, .count = import_count};

/// Ends a span, if it is one, with what NCCL has returned.
static void end_call(timed_call call, int result) {
    cep_attrs attrs = CEP_ATTRS_INIT;
    // PyTorch raises the first. With the second NCCL has not launched its work, which it does on a thread of its own.
    attrs.error = result == nccl_in_progress ? "Unmeasured" : "DistBackendError";
    if (call.region == NULL) return;
    if (result == nccl_success)
        library.end(call.region, call.span, call.stream);
    else
        (void)library.end_with(call.region, call.span, call.stream, &attrs);
}

static void end_grouped_call(int result) {
    const timed_call call = here.grouped;
    here.grouped.region = NULL;
    end_call(call, result);
}

static int group_start(void) {
    const int result = ((int (*)(void))nccl_imports[group_start_at].function)();
    if (result == nccl_success) ++here.group_depth;
    return result;
}

static int group_end(void) {
    if (here.group_depth > 0) --here.group_depth;
    const int result = ((int (*)(void))nccl_imports[group_end_at].function)();
    if (here.group_depth == 0) end_grouped_call(result);
    return result;
}

/// The span of a call that NCCL's stream has come to, behind all that the call waits for. In a group it lasts until the
/// group's end, with all further calls.
static timed_call begin_announced(void* comm, void* stream) {
    const region_object* region = (region_object*)here.announced;
    const timed_call call = {region->handle, library.begin_with(region->handle, stream, &region->attrs), stream};
    here.comm = comm;
    if (here.group_depth == 0) return call;
    here.grouped = call;
    return (timed_call){0};
}

/// Has the owners' next steps call turn(), also where all steps are recorded.
static void note_unknown_comm(void) {
    saw_unknown_comm = comm_count > 0;
    for (Py_ssize_t i = 0; i < comm_count; ++i)
        if (comms[i].owner->is_on) ((profiler_object*)((region_object*)comms[i].region)->profiler)->wants_steps = 1;
}

/// The region of a model's communicator, its group, and the call's index; NULL if there is none.
static cep_region* take_bucket(void* comm, char* group, cep_attrs* attrs) {
    cep_region* region = NULL;
    pthread_mutex_lock(&comms_mutex);
    for (Py_ssize_t i = 0; i < comm_count; ++i) {
        model_comm* one = &comms[i];
        const region_object* own = (region_object*)one->region;
        if (one->comm != comm || !one->owner->is_on) continue;
        one->was_used = true;
        const profiler_object* profiler = (profiler_object*)own->profiler;
        region = own->handle;
        attrs->coll = take_index(one->indices, __atomic_load_n(&profiler->step, __ATOMIC_RELAXED), 1);
        memcpy(group, own->attrs.group, strlen(own->attrs.group) + 1);
    }
    if (region == NULL) note_unknown_comm();
    pthread_mutex_unlock(&comms_mutex);
    return region;
}

static timed_call begin_bucket(size_t count, int type, void* comm, void* stream) {
    char group[group_max_bytes + 1];
    cep_attrs attrs = CEP_ATTRS_INIT;
    timed_call call = {.stream = stream};
    if (type < nccl_float16 || (size_t)type >= sizeof bytes_of_type)
        return call;  // integers are DDP's own, of parameters that no rank has used
    call.region = take_bucket(comm, group, &attrs);
    attrs.bytes = (int64_t)(count * bytes_of_type[type]);
    attrs.group = group;
    if (call.region != NULL) call.span = library.begin_with(call.region, stream, &attrs);
    return call;
}

static timed_call begin_call(int at, size_t count, int type, void* comm, void* stream) {
    if (here.announced != NULL && here.comm == NULL) return begin_announced(comm, stream);
    const bool may_be_bucket = at == at_AllReduce && !here.is_inside && here.group_depth == 0;
    if (may_be_bucket && __atomic_load_n(&owners_on, __ATOMIC_RELAXED) > 0)
        return begin_bucket(count, type, comm, stream);
    return (timed_call){0};
}

#define DEFINE_CALL(name, parameters, arguments)                                           \
    static int nccl##name parameters {                                                     \
        const timed_call call = begin_call(at_##name, n, type, comm, stream);              \
        const int result = ((int(*) parameters)nccl_imports[at_##name].function)arguments; \
        end_call(call, result);                                                            \
        return result;                                                                     \
    }
EACH_CALL(DEFINE_CALL)

// ---- What a function of torch.distributed says ---------------------------------------------------------------------

bool announce_call(PyObject* like, PyObject* attributes) {
    withdraw_call();
    PyObject* region = region_with((region_object*)like, false, NULL, attributes);
    if (region != NULL && !fill_attrs((region_object*)region)) Py_CLEAR(region);
    here.announced = region;
    return region != NULL;
}

void* withdraw_call(void) {
    void* comm = here.comm;
    if (here.grouped.region != NULL) {  // in a group of somebody else's, which is not over
        Py_BEGIN_ALLOW_THREADS;
        end_grouped_call(nccl_in_progress);
        Py_END_ALLOW_THREADS;
    }
    here.comm = NULL;
    Py_CLEAR(here.announced);
    return comm;
}

// ---- What is timed, and since when ---------------------------------------------------------------------------------

static Py_ssize_t holds;
static bool is_ready;

/// In a child of fork(), whose parent's other threads may have held the mutex, nothing is timed.
static void forget_in_child(void) {
    pthread_mutex_init(&comms_mutex, NULL);
    comm_count = owners_on = 0;
}

static bool hold_calls(void) {
    if (holds == 0) {
        if (!find_imports("libtorch_cuda.so", &pytorch) || nccl_imports[at_AllReduce].slot_count == 0) return false;
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

static bool is_unused(const model_comm* one, const nccl_calls_object* owner) {
    return saw_unknown_comm && one->owner == owner && !one->was_used;
}

/// Forgets those that are chosen: by their owner, or their address, or because others were seen and they were not.
static void forget_comms(const nccl_calls_object* owner, const void* comm, const nccl_calls_object* owner_of_unused) {
    for (Py_ssize_t i = comm_count; i-- > 0;) {
        const model_comm one = comms[i];
        if (one.owner != owner && one.comm != comm && !is_unused(&one, owner_of_unused)) continue;
        pthread_mutex_lock(&comms_mutex);
        comms[i] = comms[--comm_count];
        pthread_mutex_unlock(&comms_mutex);
        DROP(one.region, one.indices);
    }
}

static void turn(nccl_calls_object* self, bool on) {
    pthread_mutex_lock(&comms_mutex);
    __atomic_store_n(&owners_on, owners_on + on - self->is_on, __ATOMIC_RELAXED);
    self->is_on = on;
    saw_unknown_comm = false;
    for (Py_ssize_t i = 0; i < comm_count; ++i) comms[i].was_used &= comms[i].owner != self;
    pthread_mutex_unlock(&comms_mutex);
}

static void release_calls(nccl_calls_object* self) {
    turn(self, false);
    forget_comms(self, NULL, NULL);
    if (self->holds && --holds == 0) put_back_imports(&pytorch);
    self->holds = false;
}

static bool add_comm(const model_comm* made) {
    pthread_mutex_lock(&comms_mutex);
    const bool has_room = make_room((void**)&comms, comm_count, &comm_capacity, sizeof *made);
    if (has_room) comms[comm_count++] = *made;
    pthread_mutex_unlock(&comms_mutex);
    return has_room;
}

// ---- The type ------------------------------------------------------------------------------------------------------

static PyObject* nccl_calls_hold(nccl_calls_object* self, PyObject* unused) {
    if (!self->holds) self->holds = hold_calls();
    return PyBool_FromLong(self->holds);
}

NONE_METHOD(nccl_calls, release, (release_calls(self), true))
NONE_METHOD(nccl_calls, turn, (forget_comms(NULL, NULL, self), turn(self, argument == Py_True), true))

static PyObject* nccl_calls_time_comm(nccl_calls_object* self, PyObject* args) {
    model_comm made = {.owner = self, .was_used = true};
    PyObject *comm = NULL, *attributes = NULL;
    if (!PyArg_ParseTuple(args, "OOO", &comm, &attributes, &made.indices) || !address_of(comm, &made.comm)) return NULL;
    forget_comms(NULL, made.comm, NULL);  // of another profiler: the newest wins
    made.region = region_with((region_object*)self->region, false, NULL, attributes);
    if (made.region == NULL || !fill_attrs((region_object*)made.region) || !add_comm(&made)) {
        Py_XDECREF(made.region);
        return NULL;
    }
    Py_INCREF(made.indices);
    return new_none();
}

static const model_comm* comm_of(const nccl_calls_object* self, PyObject* indices) {
    for (Py_ssize_t i = 0; i < comm_count; ++i)
        if (comms[i].owner == self && comms[i].indices == indices) return &comms[i];
    return NULL;
}

static PyObject* nccl_calls_times(nccl_calls_object* self, PyObject* indices) {
    return PyBool_FromLong(comm_of(self, indices) != NULL);
}

static PyObject* nccl_calls_forget(nccl_calls_object* self, PyObject* indices) {
    const model_comm* known = comm_of(self, indices);
    if (known != NULL) forget_comms(NULL, known->comm, NULL);
    return new_none();
}

TAKES(nccl_calls, region_type)
COLLECTED_TYPE(
    nccl_calls, "NcclCalls", Py_TPFLAGS_BASETYPE, region, release_calls, SLOT(tp_init, nccl_calls_init),
    METHODS(METHOD("hold", NO_ARGUMENT(nccl_calls_hold),
                   "Has PyTorch call NCCL through this module; returns whether it does."),
            METHOD("release", NO_ARGUMENT(nccl_calls_release), "No longer, and times no model's communicators."),
            METHOD("turn", ONE_ARGUMENT(nccl_calls_turn),
                   "Whether the models' communicators are timed now. Forgets those that were not used since the last "
                   "time, where others were."),
            METHOD("time_comm", ARGUMENTS(nccl_calls_time_comm),
                   "Times a model's communicator: its address, the attributes of its rows, and the group's Indices."),
            METHOD("times", ONE_ARGUMENT(nccl_calls_times), "Whether it does so for a group's Indices."),
            METHOD("forget", ONE_ARGUMENT(nccl_calls_forget), "No longer does so.")));
