// SPDX-License-Identifier: Apache-2.0
//
// Driver calls about streams, captures and graphs.
#include "exports.hpp"

namespace fake_cuda {
namespace {

CUresult create_stream(Function function, CUstream* out, unsigned int flags) {
    return call(function, [&](Model& instance, Lock&) {
        require(out);
        if (flags > stream_flags::non_blocking) return result::invalid_value;
        Context& context = healthy_context(instance, current_context(instance).handle);
        const Stream& stream = add_stream(instance, context, flags == stream_flags::normal);
        *out = reinterpret_cast<CUstream>(stream.handle);
        return result::success;
    });
}

void check_usable(Model& instance, const Stream& stream) {
    check_implicit_capture(instance, stream);
    check_not_capturing(instance, stream);
    check_unsafe_call(instance);
}

Graph& find_graph(Model& instance, Handle handle) {
    const auto found = instance.objects.graphs.find(handle);
    if (found == instance.objects.graphs.end()) misuse(instance, "a graph that does not exist", result::invalid_value);
    return found->second;
}

Handle add_graph(Model& instance, const Graph& graph) {
    const Handle handle = instance.new_handle();
    instance.objects.graphs.emplace(handle, graph);
    return handle;
}

CUresult destroy_graph(Function function, Handle handle) {
    return call(function, [&](Model& instance, Lock&) {
        find_graph(instance, handle);
        instance.objects.graphs.erase(handle);
    });
}

}  // namespace

extern "C" {

CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
    return create_stream(Function::cuStreamCreate, stream, flags);
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned int flags, int) {
    return create_stream(Function::cuStreamCreateWithPriority, stream, flags);
}

CUresult cuStreamDestroy_v2(CUstream stream) {
    return call(Function::cuStreamDestroy, [&](Model& instance, Lock&) {
        const Stream& destroyed = find_stream(instance, stream);
        if (destroyed.is_default) misuse(instance, "cuStreamDestroy of a default stream", result::invalid_handle);
        if (destroyed.capture) drop_capture(instance, destroyed.capture);
        const OperationPtr& tail = destroyed.tail;
        std::vector<OperationPtr>& orphans = context_of(instance, destroyed.context).orphans;
        std::erase_if(orphans, [&](const auto& operation) { return instance.objects.timeline.complete(*operation); });
        if (tail && !instance.objects.timeline.complete(*tail)) orphans.push_back(tail);
        instance.objects.streams.erase(destroyed.handle);
    });
}

CUresult cuStreamGetId(CUstream stream, unsigned long long* id) {
    return call(Function::cuStreamGetId, [&](Model& instance, Lock&) {
        require(id);
        const Stream& found = find_stream(instance, stream);
        check_implicit_capture(instance, found);
        *id = found.id;
    });
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
    return call(Function::cuStreamGetCtx, [&](Model& instance, Lock&) {
        require(context);
        const Stream& found = find_stream(instance, stream);
        check_implicit_capture(instance, found);
        *context = reinterpret_cast<CUcontext>(found.context);
    });
}

CUresult cuStreamSynchronize(CUstream stream) {
    return call(Function::cuStreamSynchronize, [&](Model& instance, Lock& lock) {
        Stream& waited = find_stream(instance, stream);
        check_usable(instance, waited);
        const bool legacy = waited.is_legacy;
        // The legacy stream is done when all streams that it would wait for are done.
        const OperationPtr last = legacy ? submit(instance, waited, 0) : waited.tail;
        wait_until_complete(instance, lock, last);
    });
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int) {
    return call(Function::cuStreamWaitEvent, [&](Model& instance, Lock&) {
        Stream& waiting = find_stream(instance, stream);
        const Event& waited = find_event(instance, event);
        check_implicit_capture(instance, waiting);
        if (waiting.capture || waited.capture)
            capture_wait(instance, waiting, waited);
        else if (waited.operation)
            submit(instance, waiting, 0, waited.operation);
    });
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
    return call(Function::cuStreamIsCapturing, [&](Model& instance, Lock&) {
        require(status);
        const Stream& asked = find_stream(instance, stream);
        if (implicitly_capturing(instance, asked)) return result::capture_implicit;
        *status = capture_status::none;
        if (asked.capture) *status = asked.capture->invalidated ? capture_status::invalidated : capture_status::active;
        return result::success;
    });
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    return call(Function::cuStreamBeginCapture,
                [&](Model& instance, Lock&) { begin_capture(instance, find_stream(instance, stream), mode); });
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
    return call(Function::cuStreamEndCapture, [&](Model& instance, Lock&) {
        require(graph);
        *graph = nullptr;
        const Graph captured = end_capture(instance, find_stream(instance, stream));
        *graph = reinterpret_cast<CUgraph>(add_graph(instance, captured));
    });
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    return call(Function::cuThreadExchangeStreamCaptureMode, [&](Model& instance, Lock&) {
        require(mode);
        if (*mode > capture_mode::relaxed) return result::invalid_value;
        std::swap(*mode, this_thread(instance).mode);
        return result::success;
    });
}

// As calls that are not safe in a capture, so that one at the wrong time shows.
CUresult cuProfilerStart() {
    return call(Function::cuProfilerStart, [&](Model& instance, Lock&) { check_unsafe_call(instance); });
}

CUresult cuProfilerStop() {
    return call(Function::cuProfilerStop, [&](Model& instance, Lock&) { check_unsafe_call(instance); });
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long) {
    return call(Function::cuGraphInstantiate, [&](Model& instance, Lock&) {
        require(exec);
        *exec = reinterpret_cast<CUgraphExec>(add_graph(instance, find_graph(instance, handle_of(graph))));
    });
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    return call(Function::cuGraphLaunch, [&](Model& instance, Lock&) {
        Stream& launched = find_stream(instance, stream);
        const Graph& graph = find_graph(instance, handle_of(exec));
        check_implicit_capture(instance, launched);
        if (launched.capture)
            capture_kernel(launched, graph.duration_ns);
        else
            submit(instance, launched, graph.duration_ns);
    });
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
    return destroy_graph(Function::cuGraphExecDestroy, handle_of(exec));
}
CUresult cuGraphDestroy(CUgraph graph) {
    return destroy_graph(Function::cuGraphDestroy, handle_of(graph));
}

}  // extern "C"

}  // namespace fake_cuda
