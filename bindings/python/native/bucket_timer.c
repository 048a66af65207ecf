// SPDX-License-Identifier: Apache-2.0
//
// BucketTimer: times DistributedDataParallel's all-reduces, in the place of the operator that makes them: see
// cep/torch/_ddp.py.
#include "native.h"

/// What the package gives a BucketTimer, in this order.
enum {
    region_at,       ///< one of the rows' name
    groups_at,       ///< a dictionary: the Groups of process groups that this times, for want of communicators
    note_comm_at,    ///< takes a process group, and the address of the communicator that NCCL was called with
    unbox_group_at,  ///< Python's object of a group that the dispatcher passes
    unbox_work_at,
    below_autograd_at,  ///< the dispatcher skips the keys of this function within it
    given_count
};

typedef struct {
    PyObject_HEAD PyObject* given[given_count];
    PyObject* operator_;  ///< DDP's own
    PyObject*
        function;  ///< what stands before it: a hook_object with a weak reference, so that it keeps no profiler open
    int running;   ///< calls
} bucket_timer_object;

/// Not DDP's own of the parameters that it has not used.
static bool has_gradients(PyObject* tensor) {
    if (truth_of(CALL_METHOD(tensor, "is_floating_point", NULL)) > 0) return true;
    return PyErr_Occurred() == NULL && truth_of(CALL_METHOD(tensor, "is_complex", NULL)) > 0;
}

static PyObject* attributes_of(const bucket_timer_object* self, PyObject* group, PyObject* tensor, bool is_async) {
    const profiler_object* profiler = (profiler_object*)((region_object*)self->given[region_at])->profiler;
    PyObject* indices = PyTuple_GetItem(group, group_indices_at);
    PyObject* bytes = ATTRIBUTE(tensor, "nbytes");
    if (bytes == NULL) return NULL;
    return Py_BuildValue("(NOOLOO)", bytes, Py_None, PyTuple_GetItem(group, group_name_at),
                         take_index(indices, profiler->step, 1), Py_None, is_async ? Py_True : Py_False);
}

/// What times a bucket's reduction: an AsyncSpan; with NCCL None, and its call is announced. NULL for other calls, or
/// with an exception: for those of Python's functions, whose wrappers time them, too.
static PyObject* begin_bucket(const bucket_timer_object* self, PyObject* args) {
    const profiler_object* profiler = (profiler_object*)((region_object*)self->given[region_at])->profiler;
    if (!is_recording(profiler) || *inside_of_thread()) return NULL;
    OWNED tensor = PySequence_GetItem(PyTuple_GetItem(args, 0), 0);
    OWNED boxed = tensor != NULL ? call_with(self->given[unbox_group_at], PyTuple_GetItem(args, 1)) : NULL;
    const bool may_be = boxed != NULL && has_gradients(tensor);
    OWNED group = may_be ? PyDict_GetItemWithError(self->given[groups_at], boxed) : NULL;
    if (group == NULL) return NULL;
    Py_INCREF(group);
    const bool on_device = PyTuple_GetItem(group, group_on_device_at) == Py_True;
    OWNED attributes = attributes_of(self, group, tensor, !on_device);
    if (attributes == NULL) return NULL;
    if (on_device) return none_if(announce_call(self->given[region_at], attributes));
    return new_async_span((region_object*)self->given[region_at], attributes);
}

static bool end_bucket(const bucket_timer_object* self, PyObject* begun, PyObject* args, PyObject* result,
                       PyObject* error) {
    if (begun != Py_None) {
        if (result == NULL) return fail_async_span(begun, error);
        OWNED boxed = PySequence_GetItem(result, 1);
        OWNED work = call_with(self->given[unbox_work_at], boxed);
        return work != NULL && end_with_work(begun, work);
    }
    // With NCCL: the operator has called it with this communicator of its group.
    void* comm = withdraw_call();
    if (comm == NULL) return true;
    OWNED address = PyLong_FromVoidPtr(comm);
    OWNED group = call_with(self->given[unbox_group_at], PyTuple_GetItem(args, 1));
    return address != NULL && group != NULL &&
           is_done(PyObject_CallFunctionObjArgs(self->given[note_comm_at], group, address, NULL));
}

static PyObject* call_below_autograd(PyObject* below_autograd, PyObject* operator_, PyObject* args,
                                     PyObject* keywords) {
    PyObject* guard = PyObject_CallObject(below_autograd, NULL);
    PyObject* entered = guard != NULL ? CALL_METHOD(guard, "__enter__", NULL) : NULL;
    PyObject* result = entered != NULL ? PyObject_Call(operator_, args, keywords) : NULL;
    taken_error error = take();
    PyObject* left = entered != NULL ? CALL_METHOD(guard, "__exit__", Py_None, Py_None, Py_None, NULL) : NULL;
    if (left == NULL) PyErr_Clear();
    DROP(left, entered, guard);
    put_back(error);
    return result;
}

static PyObject* time_call(bucket_timer_object* self, PyObject* below_autograd, PyObject* args, PyObject* keywords) {
    OWNED begun = begin_bucket(self, args);
    if (begun == NULL && !note_failure()) return NULL;
    PyObject* result = call_below_autograd(below_autograd, self->operator_, args, keywords);
    if (begun == NULL) return result;
    taken_error error = take();
    return after_hook(end_bucket(self, begun, args, result, error.type), result, error);
}

/// Calls the operator, and times it while the BucketTimer lives.
static PyObject* call_operator(hook_object* function, PyObject* args, PyObject* keywords) {
    PyObject* below_autograd = PyTuple_GetItem(function->original, 0);
    bucket_timer_object* timer = (bucket_timer_object*)PyWeakref_GetObject(function->owner);
    if (timer == NULL) return NULL;
    if ((PyObject*)timer == Py_None || PyTuple_Size(args) < 2)
        return call_below_autograd(below_autograd, PyTuple_GetItem(function->original, 1), args, keywords);
    Py_INCREF(timer);
    ++timer->running;
    PyObject* result = time_call(timer, below_autograd, args, keywords);
    --timer->running;
    Py_DECREF(timer);
    return result;
}

static int bucket_timer_init(bucket_timer_object* self, PyObject* args, PyObject* keywords) {
    PyTypeObject* const types[given_count + 1] = {[region_at] = region_type};
    if (take_arguments((PyObject*)self, args, types, given_count + 1) != 0) return -1;
    OWNED reference = PyWeakref_NewRef((PyObject*)self, NULL);
    OWNED kept = PyTuple_Pack(2, self->given[below_autograd_at], self->operator_);
    if (reference != NULL && kept != NULL) self->function = new_hook(reference, kept, call_operator);
    return self->function != NULL ? 0 : -1;
}

CLEARS(bucket_timer, given[0], function)

COLLECTED_TYPE(bucket_timer, "BucketTimer", Py_TPFLAGS_BASETYPE, function, nothing_else,
               SLOT(tp_init, bucket_timer_init), SLOT(tp_clear, bucket_timer_clear),
               MEMBERS(MEMBER(bucket_timer, "_running", T_INT, running, READONLY),
                       MEMBER(bucket_timer, "_operator", T_OBJECT, operator_, 0),
                       MEMBER(bucket_timer, "_function", T_OBJECT, function, READONLY)));
