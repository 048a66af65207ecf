// SPDX-License-Identifier: Apache-2.0
//
// Driver calls about events.
#include "exports.hpp"

namespace fake_cuda {
namespace {

bool valid_flags(unsigned int flags) {
    constexpr unsigned int all = event_flags::blocking_sync | event_flags::disable_timing | event_flags::interprocess;
    const bool timed = (flags & event_flags::disable_timing) == 0;
    return (flags & ~all) == 0 && !((flags & event_flags::interprocess) != 0 && timed);
}

bool is_timed(const Event& event) {
    return event.operation != nullptr && (event.flags & event_flags::disable_timing) == 0;
}

CUresult measure(float* milliseconds, CUevent start, CUevent end) {
    return call(Function::cuEventElapsedTime, [&](Model& instance, Lock&) {
        require(milliseconds);
        const Event& first = find_event(instance, start);
        const Event& last = find_event(instance, end);
        check_not_captured(instance, first, false);
        check_not_captured(instance, last, false);
        if (first.context != last.context)
            misuse(instance, "cuEventElapsedTime between two contexts", result::invalid_handle);
        if (!is_timed(first) || !is_timed(last)) return result::invalid_handle;
        const Timeline& timeline = instance.objects.timeline;
        if (!timeline.complete(*first.operation) || !timeline.complete(*last.operation)) return result::not_ready;
        *milliseconds = elapsed_ms(first.operation->end_gpu_ns, last.operation->end_gpu_ns);
        return result::success;
    });
}

}  // namespace

extern "C" {

CUresult cuEventCreate(CUevent* event, unsigned int flags) {
    return call(Function::cuEventCreate, [&](Model& instance, Lock&) {
        require(event);
        if (!valid_flags(flags)) return result::invalid_value;
        const Context& context = healthy_context(instance, current_context(instance).handle);
        const Handle handle = instance.new_handle();
        Event& created = instance.objects.events[handle];
        created.context = context.handle;
        created.flags = flags;
        *event = reinterpret_cast<CUevent>(handle);
        return result::success;
    });
}

CUresult cuEventDestroy_v2(CUevent event) {
    return call(Function::cuEventDestroy, [&](Model& instance, Lock&) {
        find_event(instance, event);
        instance.objects.events.erase(handle_of(event));
    });
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
    return call(Function::cuEventRecord, [&](Model& instance, Lock&) {
        Event& recorded = find_event(instance, event);
        Stream& into = find_stream(instance, stream);
        if (recorded.context != into.context)
            misuse(instance, "cuEventRecord into another context's stream", result::invalid_handle);
        check_implicit_capture(instance, into);
        if (into.capture) {
            capture_record(into, recorded);
            return result::success;
        }
        recorded.capture = nullptr;
        recorded.operation = submit(instance, into, 0);
        return result::success;
    });
}

CUresult cuEventQuery(CUevent event) {
    return call(Function::cuEventQuery, [&](Model& instance, Lock&) {
        const Event& queried = find_event(instance, event);
        check_not_captured(instance, queried, true);
        check_unsafe_call(instance);
        const OperationPtr& operation = queried.operation;
        return !operation || instance.objects.timeline.complete(*operation) ? result::success : result::not_ready;
    });
}

CUresult cuEventSynchronize(CUevent event) {
    return call(Function::cuEventSynchronize, [&](Model& instance, Lock& lock) {
        const Event& waited = find_event(instance, event);
        check_not_captured(instance, waited, true);
        check_unsafe_call(instance);
        wait_until_complete(instance, lock, OperationPtr(waited.operation));
    });
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
    return measure(milliseconds, start, end);
}

CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
    return measure(milliseconds, start, end);
}

}  // extern "C"

}  // namespace fake_cuda
