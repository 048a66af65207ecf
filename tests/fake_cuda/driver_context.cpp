// SPDX-License-Identifier: Apache-2.0
//
// Driver calls about the driver, devices and contexts.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "exports.hpp"

namespace fake_cuda {
namespace {

constexpr std::size_t device_total_bytes = std::size_t{80} << 30;
constexpr std::size_t device_free_bytes = std::size_t{79} << 30;

void check_device(const Model& instance, CUdevice device) {
    if (device < 0 || device >= instance.device_count) throw DriverError{result::invalid_device};
}

CUcontext pointer_to(const Context& context) {
    return reinterpret_cast<CUcontext>(context.handle);
}

Context& add_context(Model& instance, CUdevice device) {
    check_device(instance, device);
    const Handle handle = instance.new_handle();
    Context& context = instance.objects.contexts[handle];
    context.handle = handle;
    context.device = device;
    context.id = ++instance.last_id;
    Stream& legacy = add_stream(instance, context, true);
    legacy.is_default = true;
    legacy.is_legacy = true;
    context.legacy = legacy.handle;
    return context;
}

void remove_context(Model& instance, Handle handle) {
    Objects& objects = instance.objects;
    const auto captures = objects.captures;
    for (const auto& capture : captures)
        if (capture->context == handle) drop_capture(instance, capture);
    std::erase_if(objects.events, [handle](const auto& entry) { return entry.second.context == handle; });
    std::erase_if(objects.streams, [handle](const auto& entry) { return entry.second.context == handle; });
    objects.contexts.erase(handle);
}

void wait_for_context(Model& instance, Lock& lock, Handle handle) {
    std::vector<OperationPtr> last = context_of(instance, handle).orphans;
    for (const auto& [stream_handle, stream] : instance.objects.streams)
        if (stream.context == handle) last.push_back(stream.tail);
    for (const OperationPtr& operation : last) wait_until_complete(instance, lock, operation);
}

CUresult get_uuid(CUuuid* uuid, CUdevice device) {
    return call(Function::cuDeviceGetUuid, [&](Model& instance, Lock&) {
        require(uuid);
        check_device(instance, device);
        *uuid = {{'f', 'a', 'k', 'e', '-', 'c', 'u', 'd', 'a', '-', 'd', 'e', 'v', 'i', 'c', 0}};
        uuid->bytes[15] = static_cast<char>(device);
        return result::success;
    });
}

/// Copies a text like the driver: cut to the buffer, and always terminated.
void copy_text(char* buffer, int capacity, const char* text) {
    require(buffer);
    if (capacity <= 0) throw DriverError{result::invalid_value};
    std::snprintf(buffer, static_cast<std::size_t>(capacity), "%s", text);
}

struct CodeName {
    CUresult code;
    const char* name;
    const char* text;
};

constexpr CodeName code_names[] = {
    {result::success, "CUDA_SUCCESS", "no error"},
    {result::invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {result::out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {result::not_initialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {result::deinitialized, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {result::no_device, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {result::invalid_device, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {result::invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {result::invalid_handle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {result::illegal_state, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {result::not_found, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {result::not_ready, "CUDA_ERROR_NOT_READY", "device not ready"},
    {result::illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {result::launch_timeout, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {result::context_is_destroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {result::launch_failed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {result::capture_unsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {result::capture_invalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {result::capture_isolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {result::capture_implicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {result::captured_event, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {result::unknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

CUresult find_text(CUresult code, const char* CodeName::*member, const char** text) {
    require(text);
    const auto* found = std::find_if(std::begin(code_names), std::end(code_names),
                                     [code](const CodeName& entry) { return entry.code == code; });
    const bool known = found != std::end(code_names);
    *text = known ? found->*member : nullptr;
    return known ? result::success : result::invalid_value;
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned int flags) {
    return call(Function::cuInit, [&](Model& instance, Lock&) {
        if (flags != 0) return result::invalid_value;
        if (instance.device_count <= 0) return result::no_device;
        instance.objects.initialized = true;
        return result::success;
    });
}

CUresult cuDriverGetVersion(int* version) {
    return call(Function::cuDriverGetVersion, [&](Model&, Lock&) {
        require(version);
        *version = 13000;
        return result::success;
    });
}

CUresult cuGetErrorName(CUresult code, const char** name) {
    return call(Function::cuGetErrorName, [&](Model&, Lock&) { return find_text(code, &CodeName::name, name); });
}

CUresult cuGetErrorString(CUresult code, const char** text) {
    return call(Function::cuGetErrorString, [&](Model&, Lock&) { return find_text(code, &CodeName::text, text); });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    return call(Function::cuDeviceGet, [&](Model& instance, Lock&) {
        require(device);
        check_device(instance, ordinal);
        *device = ordinal;
        return result::success;
    });
}

CUresult cuDeviceGetCount(int* count) {
    return call(Function::cuDeviceGetCount, [&](Model& instance, Lock&) {
        require(count);
        *count = instance.device_count;
        return result::success;
    });
}

CUresult cuDeviceGetName(char* name, int capacity, CUdevice device) {
    return call(Function::cuDeviceGetName, [&](Model& instance, Lock&) {
        check_device(instance, device);
        copy_text(name, capacity, "Fake GPU");
        return result::success;
    });
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
    return get_uuid(uuid, device);
}
CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
    return get_uuid(uuid, device);
}

CUresult cuDeviceGetPCIBusId(char* id, int capacity, CUdevice device) {
    return call(Function::cuDeviceGetPCIBusId, [&](Model& instance, Lock&) {
        check_device(instance, device);
        char text[32];
        std::snprintf(text, sizeof text, "0000:%02X:00.0", static_cast<unsigned int>(device + 1) & 0xFFU);
        copy_text(id, capacity, text);
        return result::success;
    });
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
    return call(Function::cuDevicePrimaryCtxRetain, [&](Model& instance, Lock&) {
        require(context);
        Objects::Primary& primary = instance.objects.primaries[device];
        if (primary.uses == 0) primary.context = add_context(instance, device).handle;
        ++primary.uses;
        *context = pointer_to(context_of(instance, primary.context));
        return result::success;
    });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    return call(Function::cuDevicePrimaryCtxRelease, [&](Model& instance, Lock& lock) {
        check_device(instance, device);
        Objects::Primary& primary = instance.objects.primaries[device];
        if (primary.uses == 0) return result::invalid_context;
        if (primary.uses == 1) {
            wait_for_context(instance, lock, primary.context);
            remove_context(instance, primary.context);
        }
        --primary.uses;
        return result::success;
    });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
    return call(Function::cuDevicePrimaryCtxGetState, [&](Model& instance, Lock&) {
        require(flags);
        require(active);
        check_device(instance, device);
        *flags = 0;
        *active = instance.objects.primaries[device].uses > 0 ? 1 : 0;
        return result::success;
    });
}

CUresult cuCtxCreate_v2(CUcontext* context, unsigned int, CUdevice device) {
    return call(Function::cuCtxCreate, [&](Model& instance, Lock&) {
        require(context);
        const Context& created = add_context(instance, device);
        this_thread(instance).contexts.push_back(created.handle);
        *context = pointer_to(created);
        return result::success;
    });
}

CUresult cuCtxDestroy_v2(CUcontext context) {
    return call(Function::cuCtxDestroy, [&](Model& instance, Lock& lock) {
        const Handle handle = context_of(instance, handle_of(context)).handle;
        if (context_of(instance, handle).lost == result::success) wait_for_context(instance, lock, handle);
        remove_context(instance, handle);
        std::vector<Handle>& stack = this_thread(instance).contexts;
        if (!stack.empty() && stack.back() == handle) stack.pop_back();
        return result::success;
    });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
    return call(Function::cuCtxGetCurrent, [&](Model& instance, Lock&) {
        require(context);
        const std::vector<Handle>& stack = this_thread(instance).contexts;
        *context = reinterpret_cast<CUcontext>(stack.empty() ? Handle{0} : stack.back());
        return result::success;
    });
}

CUresult cuCtxSetCurrent(CUcontext context) {
    return call(Function::cuCtxSetCurrent, [&](Model& instance, Lock&) {
        std::vector<Handle>& stack = this_thread(instance).contexts;
        const Handle handle = context == nullptr ? 0 : context_of(instance, handle_of(context)).handle;
        if (!stack.empty()) stack.pop_back();
        if (handle != 0) stack.push_back(handle);
        return result::success;
    });
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
    return call(Function::cuCtxPushCurrent, [&](Model& instance, Lock&) {
        if (context == nullptr) return result::invalid_value;
        this_thread(instance).contexts.push_back(context_of(instance, handle_of(context)).handle);
        return result::success;
    });
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
    return call(Function::cuCtxPopCurrent, [&](Model& instance, Lock&) {
        std::vector<Handle>& stack = this_thread(instance).contexts;
        if (stack.empty()) return result::invalid_context;
        if (context != nullptr) *context = reinterpret_cast<CUcontext>(stack.back());
        stack.pop_back();
        return result::success;
    });
}

CUresult cuCtxGetDevice(CUdevice* device) {
    return call(Function::cuCtxGetDevice, [&](Model& instance, Lock&) {
        require(device);
        *device = current_context(instance).device;
        return result::success;
    });
}

CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
    return call(Function::cuCtxGetId, [&](Model& instance, Lock&) {
        require(id);
        *id = context == nullptr ? current_context(instance).id : context_of(instance, handle_of(context)).id;
        return result::success;
    });
}

CUresult cuCtxSynchronize() {
    return call(Function::cuCtxSynchronize, [&](Model& instance, Lock& lock) {
        const Context& context = healthy_context(instance, current_context(instance).handle);
        check_context_not_capturing(instance, context);
        wait_for_context(instance, lock, context.handle);
        return result::success;
    });
}

CUresult cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
    return call(Function::cuMemGetInfo, [&](Model& instance, Lock&) {
        require(free_bytes, total_bytes);
        healthy_context(instance, current_context(instance).handle);
        *free_bytes = device_free_bytes;
        *total_bytes = device_total_bytes;
        return result::success;
    });
}

}  // extern "C"

}  // namespace fake_cuda
