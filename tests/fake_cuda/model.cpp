// SPDX-License-Identifier: Apache-2.0
#include "model.hpp"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <utility>

namespace fake_cuda {
namespace {

void lose_contexts(Model& instance, CUresult code) {
    const ThreadState& thread = this_thread(instance);
    for (auto& [handle, context] : instance.objects.contexts)
        if (thread.contexts.empty() || thread.contexts.back() == handle) context.lost = code;
}

void wait_for_release(Model& instance, Lock& lock) {
    const std::uint64_t releases = instance.releases;
    ++instance.waiting_threads;
    instance.changed.wait(lock, [&] { return instance.releases != releases; });
    --instance.waiting_threads;
}

/// The code of the rule that ends a call, or success.
CUresult apply_rules(Model& instance, Lock& lock, Function function) {
    CUresult code = result::success;
    bool blocked = false;
    for (Rule& rule : instance.objects.rules) {
        if (!rule.concerns(function)) continue;
        ++rule.calls;
        if (rule.fault == Fault::fail && rule.due()) code = rule.code;
        if (rule.fault == Fault::block && rule.due()) blocked = true;
        if (rule.fault == Fault::sticky && rule.calls == rule.first) lose_contexts(instance, code = rule.code);
    }
    if (blocked) wait_for_release(instance, lock);
    return code;
}

/// Waits with fork() until no other thread is within a call, whose lock the child would never get.
Model* new_model() {
    auto* const made = new Model;
    (void)pthread_atfork([] { model().mutex.lock(); }, [] { model().mutex.unlock(); }, [] { model().mutex.unlock(); });
    return made;
}

}  // namespace

Model& model() {
    static Model* const instance = new_model();
    return *instance;
}

ThreadState& this_thread(const Model& instance) {
    thread_local ThreadState state;
    if (state.epoch != instance.epoch) state = {.epoch = instance.epoch, .id = gettid(), .contexts = {}};
    return state;
}

void misuse(Model& instance, std::string what, CUresult code) {
    ++instance.objects.misuses;
    instance.objects.last_misuse = std::move(what);
    throw DriverError{code};
}

Context& context_of(Model& instance, Handle handle) {
    const auto found = instance.objects.contexts.find(handle);
    if (found == instance.objects.contexts.end())
        misuse(instance, "a context that does not exist", result::context_is_destroyed);
    return found->second;
}

Context& healthy_context(Model& instance, Handle handle) {
    Context& context = context_of(instance, handle);
    if (context.lost != result::success) throw DriverError{context.lost};
    return context;
}

Context& current_context(Model& instance) {
    const ThreadState& thread = this_thread(instance);
    if (thread.contexts.empty()) throw DriverError{result::invalid_context};
    return context_of(instance, thread.contexts.back());
}

namespace {

Stream& default_stream(Model& instance, bool per_thread) {
    Context& context = healthy_context(instance, current_context(instance).handle);
    if (!per_thread) return instance.objects.streams.at(context.legacy);
    Handle& handle = context.per_thread[this_thread(instance).id];
    if (handle == 0) {
        Stream& stream = add_stream(instance, context, true);
        stream.is_default = true;
        handle = stream.handle;
    }
    return instance.objects.streams.at(handle);
}

}  // namespace

Stream& find_stream(Model& instance, CUstream stream) {
    const Handle handle = handle_of(stream);
    if (handle == 0 || handle == stream_handles::legacy) return default_stream(instance, false);
    if (handle == stream_handles::per_thread) return default_stream(instance, true);
    const auto found = instance.objects.streams.find(handle);
    if (found == instance.objects.streams.end())
        misuse(instance, "a stream that does not exist", result::invalid_handle);
    healthy_context(instance, found->second.context);
    return found->second;
}

Event& find_event(Model& instance, CUevent event) {
    const auto found = instance.objects.events.find(handle_of(event));
    if (found == instance.objects.events.end())
        misuse(instance, "an event that does not exist", result::invalid_handle);
    healthy_context(instance, found->second.context);
    return found->second;
}

Stream& add_stream(Model& instance, Context& context, bool blocking) {
    const Handle handle = instance.new_handle();
    Stream& stream = instance.objects.streams[handle];
    stream.handle = handle;
    stream.context = context.handle;
    stream.id = ++instance.last_id;
    stream.blocking = blocking;
    return stream;
}

OperationPtr submit(Model& instance, Stream& stream, double gpu_duration_ns, OperationPtr after, bool gate) {
    Objects& objects = instance.objects;
    if (stream.is_legacy) {
        std::vector<OperationPtr> before = {std::move(after)};
        for (const auto& [handle, other] : objects.streams)
            if (other.blocking && other.context == stream.context) before.push_back(other.tail);
        return stream.tail = objects.timeline.submit(before, gpu_duration_ns, gate);
    }
    std::array<OperationPtr, 3> before = {stream.tail, std::move(after), nullptr};
    if (stream.blocking) before[2] = objects.streams.at(objects.contexts.at(stream.context).legacy).tail;
    return stream.tail = objects.timeline.submit(before, gpu_duration_ns, gate);
}

void wait_until_complete(Model& instance, Lock& lock, const OperationPtr& operation) {
    if (!operation) return;
    const Timeline& timeline = instance.objects.timeline;
    const std::uint64_t releases = instance.releases;
    ++instance.waiting_threads;
    bool released = false;
    while (!timeline.complete(*operation) && !released) {
        if (timeline.completes(*operation)) {
            // steady_clock is CLOCK_MONOTONIC.
            const std::chrono::nanoseconds end(*operation->end_ns);
            instance.changed.wait_until(lock, std::chrono::steady_clock::time_point(end));
        } else {
            instance.changed.wait(lock);
        }
        released = timeline.stopped() && instance.releases != releases;
    }
    --instance.waiting_threads;
    if (released) throw DriverError{result::launch_timeout};
}

CUresult enter(Model& instance, Lock& lock, Function function) {
    if (!instance.objects.rules.empty()) {
        const CUresult code = apply_rules(instance, lock, function);
        if (code != result::success) return code;
    }
    return traits(function).needs_init && !instance.objects.initialized ? result::not_initialized : result::success;
}

}  // namespace fake_cuda
