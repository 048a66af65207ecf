// SPDX-License-Identifier: Apache-2.0
//
// Stream capture. Each rule follows the answers of an H200 with driver 580 for every capture mode, for the capturing
// thread and another thread, and for every capture mode of the calling thread.
#include <algorithm>

#include "model.hpp"

namespace fake_cuda {
namespace {

/// Whether the capture prohibits potentially unsafe calls of a thread.
bool forbids(const Capture& capture, const ThreadState& thread) {
    if (thread.mode == capture_mode::relaxed) return false;
    if (capture.thread_id == thread.id) return capture.mode != capture_mode::relaxed;
    return thread.mode == capture_mode::global && capture.mode == capture_mode::global;
}

template <typename Predicate>
bool invalidate_captures(Model& instance, const Predicate& concerned) {
    bool any = false;
    for (const auto& capture : instance.objects.captures) {
        if (!concerned(*capture)) continue;
        invalidate(instance, *capture);
        any = true;
    }
    return any;
}

bool blocks_legacy(const Capture& capture, const Stream& legacy) {
    return capture.blocking && capture.context == legacy.context;
}

/// Kernels of a stream that joined the capture, for which no other work waits.
bool has_unjoined_work(const Capture& capture) {
    return std::any_of(capture.members.begin(), capture.members.end(), [&](const auto& entry) {
        return entry.first != capture.origin && entry.second.kernels > entry.second.joined_kernels;
    });
}

void join_capture(Stream& stream, const std::shared_ptr<Capture>& capture) {
    stream.capture = capture;
    capture->blocking = capture->blocking || stream.blocking;
    capture->members[stream.handle];
}

}  // namespace

void invalidate(Model& instance, Capture& capture) {
    if (!capture.invalidated) ++instance.objects.invalidated_captures;
    capture.invalidated = true;
}

void check_unsafe_call(Model& instance) {
    if (instance.objects.captures.empty()) return;
    const ThreadState& thread = this_thread(instance);
    if (invalidate_captures(instance, [&](const Capture& capture) { return forbids(capture, thread); }))
        throw DriverError{result::capture_unsupported};
}

bool implicitly_capturing(Model& instance, const Stream& stream) {
    const auto& captures = instance.objects.captures;
    return stream.is_legacy && std::any_of(captures.begin(), captures.end(),
                                           [&](const auto& capture) { return blocks_legacy(*capture, stream); });
}

void check_implicit_capture(Model& instance, const Stream& stream) {
    if (!implicitly_capturing(instance, stream)) return;
    invalidate_captures(instance, [&](const Capture& capture) { return blocks_legacy(capture, stream); });
    throw DriverError{result::capture_implicit};
}

void check_not_capturing(Model& instance, const Stream& stream) {
    if (!stream.capture) return;
    invalidate(instance, *stream.capture);
    throw DriverError{result::capture_unsupported};
}

void check_context_not_capturing(Model& instance, const Context& context) {
    if (invalidate_captures(instance, [&](const Capture& capture) { return capture.context == context.handle; }))
        throw DriverError{result::capture_unsupported};
}

void check_capture_usable(const Capture& capture) {
    if (capture.invalidated) throw DriverError{result::capture_invalidated};
}

void check_not_captured(Model& instance, const Event& event, bool spoils) {
    if (!event.capture) return;
    if (event.capture->ended) throw DriverError{result::invalid_value};
    if (spoils) invalidate(instance, *event.capture);
    throw DriverError{result::captured_event};
}

void capture_kernel(Stream& stream, double duration_ns) {
    check_capture_usable(*stream.capture);
    Capture::Member& member = stream.capture->members[stream.handle];
    member.end_ns += duration_ns;
    ++member.kernels;
}

void capture_record(Stream& stream, Event& event) {
    check_capture_usable(*stream.capture);
    const Capture::Member& member = stream.capture->members[stream.handle];
    event.operation = nullptr;
    event.capture = stream.capture;
    event.capture_stream = stream.handle;
    event.capture_ns = member.end_ns;
    event.capture_kernels = member.kernels;
}

void capture_wait(Model& instance, Stream& stream, const Event& event) {
    if (stream.capture && !event.capture) {
        if (!event.operation) return;
        invalidate(instance, *stream.capture);
        throw DriverError{result::capture_isolation};
    }
    if (event.capture->ended) throw DriverError{result::invalid_value};
    check_capture_usable(*event.capture);
    if (stream.is_legacy) {
        invalidate(instance, *event.capture);
        throw DriverError{result::capture_unsupported};
    }
    if (!stream.capture) join_capture(stream, event.capture);
    if (stream.capture != event.capture) throw DriverError{result::capture_merge};
    Capture::Member& waiting = stream.capture->members[stream.handle];
    waiting.end_ns = std::max(waiting.end_ns, event.capture_ns);
    Capture::Member& waited = stream.capture->members[event.capture_stream];
    if (event.capture_stream != stream.handle)
        waited.joined_kernels = std::max(waited.joined_kernels, event.capture_kernels);
}

void begin_capture(Model& instance, Stream& stream, CUstreamCaptureMode mode) {
    if (mode > capture_mode::relaxed) throw DriverError{result::invalid_value};
    if (stream.is_legacy) throw DriverError{result::capture_unsupported};
    if (stream.capture) throw DriverError{result::illegal_state};
    auto capture = std::make_shared<Capture>();
    capture->mode = mode;
    capture->thread_id = this_thread(instance).id;
    capture->origin = stream.handle;
    capture->context = stream.context;
    join_capture(stream, capture);
    instance.objects.captures.push_back(capture);
}

void drop_capture(Model& instance, std::shared_ptr<Capture> capture) {
    capture->ended = true;
    for (const auto& [handle, member] : capture->members) {
        const auto stream = instance.objects.streams.find(handle);
        if (stream != instance.objects.streams.end()) stream->second.capture = nullptr;
    }
    std::erase(instance.objects.captures, capture);
}

Graph end_capture(Model& instance, Stream& stream) {
    const std::shared_ptr<Capture> capture = stream.capture;
    if (!capture) throw DriverError{result::illegal_state};
    if (capture->origin != stream.handle) {
        invalidate(instance, *capture);
        throw DriverError{result::capture_unmatched};
    }
    drop_capture(instance, capture);
    if (capture->mode != capture_mode::relaxed && capture->thread_id != this_thread(instance).id)
        throw DriverError{result::capture_wrong_thread};
    check_capture_usable(*capture);
    if (has_unjoined_work(*capture)) throw DriverError{result::capture_unjoined};
    Graph graph;
    for (const auto& [handle, member] : capture->members)
        graph.duration_ns = std::max(graph.duration_ns, member.end_ns);
    return graph;
}

}  // namespace fake_cuda
