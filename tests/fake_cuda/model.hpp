// SPDX-License-Identifier: Apache-2.0
//
// The state of the fake driver: contexts, streams, events, captures, and the rules for every call.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "counts.hpp"
#include "cuda_program.hpp"
#include "faults.hpp"
#include "timeline.hpp"

namespace fake_cuda {

using namespace cep::cuda;  // the driver's types and codes

/// Objects have numbers that are never reused. A program sees the numbers as pointers.
using Handle = std::uint64_t;

template <typename Pointer>
[[nodiscard]] Handle handle_of(Pointer* pointer) {
    return static_cast<Handle>(reinterpret_cast<std::uintptr_t>(pointer));
}

/// An exception that ends a call with a code. It never leaves the driver.
struct DriverError {
    CUresult code;
};

/// A capture in progress. Its times are nanoseconds after the graph's launch.
struct Capture {
    struct Member {
        double end_ns = 0;
        std::uint64_t kernels = 0;
        std::uint64_t joined_kernels = 0;  // the part of `kernels` that another member waits for
    };
    CUstreamCaptureMode mode = capture_mode::global;
    std::int32_t thread_id = 0;
    Handle origin = 0;
    Handle context = 0;
    bool blocking = false;
    bool invalidated = false;
    bool ended = false;
    std::map<Handle, Member> members;
};

struct Stream {
    Handle handle = 0;
    Handle context = 0;
    std::uint64_t id = 0;
    bool blocking = true;
    bool is_default = false;  // legacy or per-thread
    bool is_legacy = false;
    OperationPtr tail;
    std::shared_ptr<Capture> capture;
};

struct Event {
    Handle context = 0;
    unsigned int flags = 0;
    OperationPtr operation;  // null: never recorded, or recorded into a capture
    std::shared_ptr<Capture> capture;
    Handle capture_stream = 0;
    double capture_ns = 0;
    std::uint64_t capture_kernels = 0;
};

struct Context {
    Handle handle = 0;
    CUdevice device = 0;
    std::uint64_t id = 0;
    CUresult lost = result::success;
    Handle legacy = 0;
    std::map<std::int32_t, Handle> per_thread;
    std::vector<OperationPtr> orphans;  // last operations of destroyed streams
};

struct Graph {
    double duration_ns = 0;
};

/// The initial state of a process.
struct Objects {
    bool initialized = false;
    std::unordered_map<Handle, Context> contexts;
    std::unordered_map<Handle, Stream> streams;
    std::unordered_map<Handle, Event> events;
    std::unordered_map<Handle, Graph> graphs;
    std::vector<std::shared_ptr<Capture>> captures;
    struct Primary {
        Handle context = 0;
        int uses = 0;
    };
    std::map<CUdevice, Primary> primaries;
    std::vector<Rule> rules;
    std::uint64_t misuses = 0;
    std::string last_misuse;
    std::uint64_t invalidated_captures = 0;
    Timeline timeline;
};

/// The driver's state of the calling thread.
struct ThreadState {
    std::uint64_t epoch = 0;
    std::int32_t id = 0;
    std::vector<Handle> contexts;  // the stack; the last is current
    CUstreamCaptureMode mode = capture_mode::global;
};

struct Model {
    std::mutex mutex;
    std::condition_variable changed;  // released, stopped, reset, or a gate opened
    static constexpr int device_count = 2;
    std::uint64_t epoch = 1;  // of the last reset
    std::uint64_t releases = 0;
    int waiting_threads = 0;
    Handle last_handle = 0x5000'0000'0000;
    std::uint64_t last_id = 0;
    Objects objects;

    [[nodiscard]] Handle new_handle() { return last_handle += 64; }
};

using Lock = std::unique_lock<std::mutex>;

/// The model of the process. Never destroyed.
Model& model();
ThreadState& this_thread(const Model& model);

/// Counts a call that a correct program never makes as misuse, and ends it with `code`.
[[noreturn]] void misuse(Model& model, std::string what, CUresult code);

// Look-ups. A missing object or a lost context ends the call.
Context& current_context(Model& model);
Context& context_of(Model& model, Handle context);
/// Like context_of(), but also ends the call if the context is lost.
Context& healthy_context(Model& model, Handle context);
Stream& find_stream(Model& model, CUstream stream);
Event& find_event(Model& model, CUevent event);

Stream& add_stream(Model& model, Context& context, bool blocking);

/// Submits an operation to a stream that is not capturing, with the implicit waits of the legacy default stream.
OperationPtr submit(Model& model, Stream& stream, double gpu_duration_ns, OperationPtr after = nullptr,
                    bool gate = false);

/// Waits, without the lock, until the operation is complete. If the GPU has stopped, waits for fake_cuda_release().
void wait_until_complete(Model& model, Lock& lock, const OperationPtr& operation);

// Captures.
void check_unsafe_call(Model& model);
/// Handles a use of the legacy default stream while a blocking stream of its context is capturing.
void check_implicit_capture(Model& model, const Stream& stream);
[[nodiscard]] bool implicitly_capturing(Model& model, const Stream& stream);
void invalidate(Model& model, Capture& capture);
/// Handles a call that would wait for a capturing stream.
void check_not_capturing(Model& model, const Stream& stream);
void check_context_not_capturing(Model& model, const Context& context);
void check_capture_usable(const Capture& capture);
/// Handles a call that reads an event that was last recorded into a capture; `spoils`: it invalidates the capture.
void check_not_captured(Model& model, const Event& event, bool spoils);
void capture_kernel(Stream& stream, double duration_ns);
void capture_record(Stream& stream, Event& event);
void capture_wait(Model& model, Stream& stream, const Event& event);
void begin_capture(Model& model, Stream& stream, CUstreamCaptureMode mode);
[[nodiscard]] Graph end_capture(Model& model, Stream& stream);
/// Removes the capture from all its streams.
void drop_capture(Model& model, std::shared_ptr<Capture> capture);

/// Applies the fault rules to a call and checks that the call is allowed.
[[nodiscard]] CUresult enter(Model& model, Lock& lock, Function function);

/// Runs a driver call: counts it, applies faults, and runs the body under the lock. One that returns nothing succeeds.
template <typename Body>
CUresult call(Function function, const Body& body) noexcept {
    try {
        count_call(function);
        Model& instance = model();
        Lock lock(instance.mutex);
        if (const CUresult code = enter(instance, lock, function); code != result::success) return code;
        if constexpr (!std::is_void_v<std::invoke_result_t<Body, Model&, Lock&>>)
            return body(instance, lock);
        else
            body(instance, lock);
        return result::success;
    } catch (const DriverError& error) {
        return error.code;
    } catch (const std::bad_alloc&) {
        return result::out_of_memory;
    } catch (...) {
        return result::unknown;
    }
}

/// Ends the call with "invalid value" if a required pointer is null.
template <typename... Pointers>
void require(Pointers*... pointers) {
    const bool missing = (... || (pointers == nullptr));
    if (missing) throw DriverError{result::invalid_value};
}

}  // namespace fake_cuda
