// SPDX-License-Identifier: Apache-2.0
//
// The controls of fake_cuda.h.
#include <algorithm>
#include <optional>
#include <string>

#include "exports.hpp"

namespace fake_cuda {
namespace {

constexpr std::uint64_t no_such_function = std::numeric_limits<std::uint64_t>::max();

std::uint64_t count_by_name(const char* name, std::optional<std::int32_t> thread_id) {
    if (name == nullptr) return calls_of(std::nullopt, thread_id);
    const std::size_t index = find_function(name);
    return index == function_count ? no_such_function : calls_of(static_cast<Function>(index), thread_id);
}

std::int64_t count_live(const Objects& objects, std::string_view kind) {
    if (kind == "events") return static_cast<std::int64_t>(objects.events.size());
    if (kind == "contexts") return static_cast<std::int64_t>(objects.contexts.size());
    if (kind == "graphs") return static_cast<std::int64_t>(objects.graphs.size());
    if (kind != "streams") return -1;
    return std::count_if(objects.streams.begin(), objects.streams.end(),
                         [](const auto& entry) { return !entry.second.is_default; });
}

void release_waiting(Model& instance) {
    ++instance.releases;
    instance.changed.notify_all();
}

CUresult launch(CUstream stream, double duration_ns, bool gate) {
    return call(Function::cuLaunchKernel, [&](Model& instance, Lock&) {
        Stream& into = find_stream(instance, stream);
        check_implicit_capture(instance, into);
        if (into.capture && gate) return result::capture_unsupported;
        if (into.capture)
            capture_kernel(into, duration_ns);
        else
            submit(instance, into, duration_ns, nullptr, gate);
        return result::success;
    });
}

/// Runs a body under the model's lock.
template <typename Body>
auto locked(const Body& body) {
    Model& instance = model();
    const Lock lock(instance.mutex);
    return body(instance);
}

}  // namespace
}  // namespace fake_cuda

// In the global namespace, where fake_cuda.h declares them.
using namespace fake_cuda;

extern "C" {

void fake_cuda_reset(void) {
    locked([](Model& instance) {
        instance.objects = Objects{};
        ++instance.epoch;
        release_waiting(instance);
    });
    reset_counts();
}

int32_t fake_cuda_enqueue_work(void* stream, uint64_t duration_ns) {
    return launch(static_cast<CUstream>(stream), static_cast<double>(duration_ns), false);
}

int32_t fake_cuda_enqueue_gate(void* stream) {
    return launch(static_cast<CUstream>(stream), 0, true);
}

void fake_cuda_open_gates(void) {
    locked([](Model& instance) {
        instance.objects.timeline.open_gates();
        instance.changed.notify_all();
    });
}

void fake_cuda_set_clock(int64_t offset_ns, double drift_ppm) {
    locked([&](Model& instance) { instance.objects.timeline.clock.set(monotonic_ns(), offset_ns, drift_ppm); });
}

int32_t fake_cuda_event_times_ns(void* event, int64_t* monotonic_ns, uint64_t* gpu_ns) {
    return locked([&](const Model& instance) {
        const auto found = instance.objects.events.find(handle_of(event));
        if (found == instance.objects.events.end() || !found->second.operation) return -1;
        const Operation& operation = *found->second.operation;
        if (!operation.end_ns) return -1;
        *monotonic_ns = *operation.end_ns;
        *gpu_ns = operation.end_gpu_ns;
        return 0;
    });
}

uint64_t fake_cuda_call_count(const char* function) {
    return count_by_name(function, std::nullopt);
}

uint64_t fake_cuda_thread_call_count(int32_t thread_id, const char* function) {
    return count_by_name(function, thread_id);
}

uint64_t fake_cuda_synchronizing_call_count(void) {
    return synchronizing_calls();
}

void fake_cuda_reset_counts(void) {
    reset_counts();
}

int64_t fake_cuda_live_count(const char* kind) {
    return locked([&](const Model& instance) { return count_live(instance.objects, kind); });
}

uint64_t fake_cuda_misuse_count(void) {
    return locked([](const Model& instance) { return instance.objects.misuses; });
}

const char* fake_cuda_last_misuse(void) {
    thread_local std::string text;
    text = locked([](const Model& instance) { return instance.objects.last_misuse; });
    return text.c_str();
}

uint64_t fake_cuda_invalidated_capture_count(void) {
    return locked([](const Model& instance) { return instance.objects.invalidated_captures; });
}

int32_t fake_cuda_inject(const char* text) {
    const std::optional<std::vector<Rule>> rules = parse_rules(text);
    if (!rules) return -1;
    locked([&](Model& instance) {
        instance.objects.rules.insert(instance.objects.rules.end(), rules->begin(), rules->end());
    });
    return 0;
}

void fake_cuda_clear_faults(void) {
    locked([](Model& instance) {
        instance.objects.rules.clear();
        release_waiting(instance);
    });
}

void fake_cuda_release(void) {
    locked([](Model& instance) {
        std::erase_if(instance.objects.rules, [](const Rule& rule) { return rule.fault == Fault::block; });
        release_waiting(instance);
    });
}

int32_t fake_cuda_waiting_threads(void) {
    return locked([](const Model& instance) { return instance.waiting_threads; });
}

void fake_cuda_hang(void) {
    locked([](Model& instance) {
        instance.objects.timeline.stop();
        instance.changed.notify_all();
    });
}

int32_t fake_cuda_break_context(void* context, int32_t code) {
    return locked([&](Model& instance) {
        const auto found = instance.objects.contexts.find(handle_of(context));
        if (found == instance.objects.contexts.end()) return -1;
        found->second.lost = code;
        return 0;
    });
}

}  // extern "C"
