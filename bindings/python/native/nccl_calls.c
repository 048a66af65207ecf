// SPDX-License-Identifier: Apache-2.0
//
// NcclCalls: times collectives and messages where PyTorch calls NCCL: see cep/torch/_collectives.py.
//
// What stands before NCCL's functions runs on any thread, without the interpreter's lock, and calls nothing of
// Python's. It holds the mutex for as long as it takes to copy what it needs, and never within a call of NCCL's or of
// CUDA's.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

#define OF_TWO(...) (const void* in, void* out, size_t n, int type, __VA_ARGS__ void* comm, void* stream)
/// DO(name, parameters, arguments), of functions that end in a communicator and a stream.
#define EACH_CALL(DO)                                                                                                \
    DO(AllReduce, OF_TWO(int op, ), (in, out, n, type, op, comm, stream))                                            \
    DO(ReduceScatter, OF_TWO(int op, ), (in, out, n, type, op, comm, stream))                                        \
    DO(AllGather, OF_TWO(), (in, out, n, type, comm, stream))                                                        \
    DO(AlltoAll, OF_TWO(), (in, out, n, type, comm, stream))                                                         \
    DO(Broadcast, OF_TWO(int root, ), (in, out, n, type, root, comm, stream))                                        \
    DO(Bcast, (void* in, size_t n, int type, int root, void* comm, void* stream), (in, n, type, root, comm, stream)) \
    DO(Reduce, OF_TWO(int op, int root, ), (in, out, n, type, op, root, comm, stream))                               \
    DO(Send, (const void* in, size_t n, int type, int peer, void* comm, void* stream),                               \
       (in, n, type, peer, comm, stream))                                                                            \
    DO(Recv, (void* out, size_t n, int type, int peer, void* comm, void* stream), (out, n, type, peer, comm, stream))

static int group_start(void);
static int group_end(void);
#define DECLARE_CALL(name, parameters, arguments) static int nccl##name parameters;
EACH_CALL(DECLARE_CALL)

// ---- PyTorch's table of imports, in which functions of this module stand before NCCL's ------------------------------

/// A function that libtorch_cuda.so imports, and one that is called in its place.
typedef struct {
    const char* name;
    void* replacement;
    void* function;   ///< what PyTorch calls without us
    void** slots[2];  ///< for calls, and for the function's address
    int slot_count;
} import;

#define PLACE_OF(name, parameters, arguments) at_##name,
enum { group_start_at, group_end_at, EACH_CALL(PLACE_OF) import_count };
#define IMPORT_OF(called, parameters, arguments) \
    [at_##called] = {.name = "nccl" #called, .replacement = (void*)nccl##called},
static import imports[import_count] = {[group_start_at] = {.name = "ncclGroupStart", .replacement = (void*)group_start},
                                       [group_end_at] = {.name = "ncclGroupEnd", .replacement = (void*)group_end},
                                       EACH_CALL(IMPORT_OF)};

/// The loaded library.
static struct {
    const char* path;
    uintptr_t base, end;
    uintptr_t read_only_begin, read_only_end;  ///< pages that the loader has made so after it had filled them in
    bool was_replaced;
} pytorch;

#if defined(__x86_64__)
enum { calls_slot = R_X86_64_JUMP_SLOT, address_slot = R_X86_64_GLOB_DAT };
#elif defined(__aarch64__)
enum { calls_slot = R_AARCH64_JUMP_SLOT, address_slot = R_AARCH64_GLOB_DAT };
#else
enum { calls_slot = -1, address_slot = -1 };  // nothing is found
#endif

static uintptr_t page_of(uintptr_t address) {
    return address & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
}

/// What DT_* entries say of relocations and symbols. glibc's loader has made absolute addresses of them.
typedef struct {
    uintptr_t symbols, names, calls, others;
    size_t call_bytes, other_bytes, relative_count;
} dynamic_tables;

static dynamic_tables tables_in(const ElfW(Dyn) * entry) {
    dynamic_tables found = {0};
    for (; entry != NULL && entry->d_tag != DT_NULL; ++entry) {
        const uintptr_t value = entry->d_un.d_ptr;
        if (entry->d_tag == DT_SYMTAB) found.symbols = value;
        if (entry->d_tag == DT_STRTAB) found.names = value;
        if (entry->d_tag == DT_JMPREL) found.calls = value;
        if (entry->d_tag == DT_PLTRELSZ) found.call_bytes = value;
        if (entry->d_tag == DT_RELA) found.others = value;
        if (entry->d_tag == DT_RELASZ) found.other_bytes = value;
        if (entry->d_tag == DT_RELACOUNT) found.relative_count = value;
    }
    return found;
}

static void find_slots(const dynamic_tables* tables, uintptr_t first, size_t bytes) {
    const ElfW(Sym)* symbols = (const ElfW(Sym)*)tables->symbols;
    const ElfW(Rela)* end = (const ElfW(Rela)*)(first + bytes);
    for (const ElfW(Rela)* each = (const ElfW(Rela)*)first; each < end; ++each) {
        const int type = (int)ELF64_R_TYPE(each->r_info);
        if (type != calls_slot && type != address_slot) continue;
        const char* name = (const char*)tables->names + symbols[ELF64_R_SYM(each->r_info)].st_name;
        const uintptr_t address = pytorch.base + each->r_offset;
        for (import* one = imports; one < imports + import_count && address % sizeof(void*) == 0; ++one)
            if (strcmp(one->name, name) == 0 && one->slot_count < 2) one->slots[one->slot_count++] = (void**)address;
    }
}

static const ElfW(Dyn) * find_segments(const struct dl_phdr_info* info) {
    const ElfW(Dyn)* dynamic = NULL;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr)* segment = &info->dlpi_phdr[i];
        const uintptr_t begin = info->dlpi_addr + segment->p_vaddr, end = begin + segment->p_memsz;
        if (segment->p_type == PT_DYNAMIC) dynamic = (const ElfW(Dyn)*)begin;
        if (segment->p_type == PT_LOAD && end > pytorch.end) pytorch.end = end;
        if (segment->p_type != PT_GNU_RELRO) continue;
        pytorch.read_only_begin = page_of(begin);  // as the loader rounds
        pytorch.read_only_end = page_of(end);
    }
    return dynamic;
}

static int look_into(struct dl_phdr_info* info, size_t size, void* unused) {
    const char* slash = strrchr(info->dlpi_name, '/');
    if (strcmp(slash != NULL ? slash + 1 : info->dlpi_name, "libtorch_cuda.so") != 0) return 0;
    pytorch.base = info->dlpi_addr;
    const dynamic_tables tables = tables_in(find_segments(info));
    if (tables.symbols <= pytorch.base || tables.names <= pytorch.base) return 1;  // not absolute: another loader
    const size_t relative_bytes = tables.relative_count * sizeof(ElfW(Rela));
    if (tables.calls > pytorch.base) find_slots(&tables, tables.calls, tables.call_bytes);
    if (tables.others > pytorch.base && tables.other_bytes > relative_bytes)
        find_slots(&tables, tables.others + relative_bytes, tables.other_bytes - relative_bytes);
    pytorch.path = info->dlpi_name;
    return 1;
}

/// What PyTorch calls: a slot has the address from the first call on, or from loading. Until then it leads into the
/// library itself, to what looks the function up.
static void* function_of(void* handle, const import* wanted) {
    void* address = __atomic_load_n(wanted->slots[0], __ATOMIC_ACQUIRE);
    if ((uintptr_t)address < pytorch.base || (uintptr_t)address >= pytorch.end) return address;
    address = dlsym(RTLD_DEFAULT, wanted->name);
    return address != NULL ? address : dlsym(handle, wanted->name);
}

/// Finds the slots and functions of those imports that the loaded library has. False where it is not loaded, or the
/// format of the machine's libraries is not known.
static bool find_imports(void) {
    pytorch.end = pytorch.read_only_begin = pytorch.read_only_end = 0;
    pytorch.path = NULL;
    for (import* each = imports; each < imports + import_count; ++each) each->slot_count = 0;
    if (dl_iterate_phdr(look_into, NULL) == 0 || pytorch.path == NULL) return false;
    void* handle = dlopen(pytorch.path, RTLD_LAZY | RTLD_NOLOAD);  // not within the iteration, which has another lock
    bool found = handle != NULL;
    for (import* each = imports; found && each < imports + import_count; ++each) {
        if (each->slot_count > 0 && each->function == NULL) each->function = function_of(handle, each);
        found = each->slot_count == 0 || each->function != NULL;
    }
    if (handle != NULL) dlclose(handle);
    return found;
}

static bool write_slot(void** slot, void* function) {
    const uintptr_t page = page_of((uintptr_t)slot);
    const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    const bool is_read_only = pytorch.read_only_begin <= page && page < pytorch.read_only_end;
    if (is_read_only && mprotect((void*)page, bytes, PROT_READ | PROT_WRITE) != 0) return false;
    __atomic_store_n(slot, function, __ATOMIC_RELEASE);
    if (is_read_only) (void)mprotect((void*)page, bytes, PROT_READ);
    return true;
}

/// Has PyTorch call the replacements, or what it called before, but for what somebody else has put into its place
/// since. That calls ours if it came later: it is left, and never called by ours. False if a page cannot be written.
static bool turn_imports(bool on) {
    bool written = true;
    for (import* each = imports; each < imports + import_count; ++each)
        for (int at = 0; at < each->slot_count; ++at) {
            void* now = __atomic_load_n(each->slots[at], __ATOMIC_ACQUIRE);
            const bool is_ours = on ? !pytorch.was_replaced || now == each->function : now == each->replacement;
            written = (!is_ours || write_slot(each->slots[at], on ? each->replacement : each->function)) && written;
        }
    pytorch.was_replaced |= on;
    return written;
}

// ---- In the place of NCCL's functions ------------------------------------------------------------------------------

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
    const int result = ((int (*)(void))imports[group_start_at].function)();
    if (result == nccl_success) ++here.group_depth;
    return result;
}

static int group_end(void) {
    if (here.group_depth > 0) --here.group_depth;
    const int result = ((int (*)(void))imports[group_end_at].function)();
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

/// The region of a model's communicator, its group, and the call's index; NULL if there is none: then the owners' next
/// steps call turn(), also where all steps are recorded.
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
    if (region == NULL) saw_unknown_comm = comm_count > 0;
    for (Py_ssize_t i = 0; region == NULL && i < comm_count; ++i)
        if (comms[i].owner->is_on) ((profiler_object*)((region_object*)comms[i].region)->profiler)->wants_steps = 1;
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

#define DEFINE_CALL(name, parameters, arguments)                                      \
    static int nccl##name parameters {                                                \
        const timed_call call = begin_call(at_##name, n, type, comm, stream);         \
        const int result = ((int(*) parameters)imports[at_##name].function)arguments; \
        end_call(call, result);                                                       \
        return result;                                                                \
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
        if (!find_imports() || imports[at_AllReduce].slot_count == 0) return false;
        if (!is_ready && pthread_atfork(NULL, NULL, forget_in_child) != 0) return false;
        is_ready = true;
        if (!turn_imports(true)) {
            (void)turn_imports(false);
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
    if (self->holds && --holds == 0) (void)turn_imports(false);
    self->holds = false;
}

static bool add_comm(const model_comm* made) {
    pthread_mutex_lock(&comms_mutex);
    const bool has_room = make_room((void**)&comms, comm_count, &comm_capacity, sizeof *made);
    if (has_room) comms[comm_count++] = *made;
    pthread_mutex_unlock(&comms_mutex);
    return has_room;
}

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
    if (made.region == NULL || !fill_attrs((region_object*)made.region) || !add_comm(&made))
        return DROP(made.region), NULL;
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
    METHODS(ROW(nccl_calls, hold, NO_ARGUMENT, "Has PyTorch call NCCL through this module; returns whether it does."),
            ROW(nccl_calls, release, NO_ARGUMENT, "No longer, and times no model's communicators."),
            ROW(nccl_calls, turn, ONE_ARGUMENT,
                "Whether the models' communicators are timed now. Forgets those that were not used since the last "
                "time, where others were."),
            ROW(nccl_calls, time_comm, ARGUMENTS,
                "Times a model's communicator: its address, the attributes of its rows, and the group's Indices."),
            ROW(nccl_calls, times, ONE_ARGUMENT, "Whether it does so for a group's Indices."),
            ROW(nccl_calls, forget, ONE_ARGUMENT, "No longer does so.")));
