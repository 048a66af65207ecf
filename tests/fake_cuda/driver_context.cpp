// SPDX-License-Identifier: Apache-2.0
//
// Driver calls about the driver, devices and contexts.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

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
    });
}

// The codes whose names the tests expect in messages.
constexpr std::pair<CUresult, const char*> code_names[] = {
    {result::not_ready, "CUDA_ERROR_NOT_READY"},
    {result::launch_failed, "CUDA_ERROR_LAUNCH_FAILED"},
};

}  // namespace

extern "C" {

CUresult cuInit(unsigned int flags) {
    return call(Function::cuInit, [&](Model& instance, Lock&) {
        if (flags != 0) return result::invalid_value;
        instance.objects.initialized = true;
        return result::success;
    });
}

CUresult cuDriverGetVersion(int* version) {
    return call(Function::cuDriverGetVersion, [&](Model&, Lock&) {
        require(version);
        *version = 13000;
    });
}

CUresult cuGetErrorName(CUresult code, const char** name) {
    return call(Function::cuGetErrorName, [&](Model&, Lock&) {
        require(name);
        const auto* found = std::find_if(std::begin(code_names), std::end(code_names),
                                         [code](const auto& entry) { return entry.first == code; });
        *name = found == std::end(code_names) ? nullptr : found->second;
        return *name == nullptr ? result::invalid_value : result::success;
    });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    return call(Function::cuDeviceGet, [&](Model& instance, Lock&) {
        require(device);
        check_device(instance, ordinal);
        *device = ordinal;
    });
}

CUresult cuDeviceGetCount(int* count) {
    return call(Function::cuDeviceGetCount, [&](Model& instance, Lock&) {
        require(count);
        *count = instance.device_count;
    });
}

CUresult cuDeviceGetName(char* name, int capacity, CUdevice device) {
    return call(Function::cuDeviceGetName, [&](Model& instance, Lock&) {
        check_device(instance, device);
        require(name);
        std::snprintf(name, static_cast<std::size_t>(capacity), "Fake GPU");  // cut to the buffer, as by the driver
    });
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
    return get_uuid(uuid, device);
}
CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
    return get_uuid(uuid, device);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
    return call(Function::cuDevicePrimaryCtxRetain, [&](Model& instance, Lock&) {
        require(context);
        Objects::Primary& primary = instance.objects.primaries[device];
        if (primary.uses == 0) primary.context = add_context(instance, device).handle;
        ++primary.uses;
        *context = pointer_to(context_of(instance, primary.context));
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
    });
}

CUresult cuCtxCreate_v2(CUcontext* context, unsigned int, CUdevice device) {
    return call(Function::cuCtxCreate, [&](Model& instance, Lock&) {
        require(context);
        const Context& created = add_context(instance, device);
        this_thread(instance).contexts.push_back(created.handle);
        *context = pointer_to(created);
    });
}

CUresult cuCtxDestroy_v2(CUcontext context) {
    return call(Function::cuCtxDestroy, [&](Model& instance, Lock& lock) {
        const Handle handle = context_of(instance, handle_of(context)).handle;
        if (context_of(instance, handle).lost == result::success) wait_for_context(instance, lock, handle);
        remove_context(instance, handle);
        std::vector<Handle>& stack = this_thread(instance).contexts;
        if (!stack.empty() && stack.back() == handle) stack.pop_back();
    });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
    return call(Function::cuCtxGetCurrent, [&](Model& instance, Lock&) {
        require(context);
        const std::vector<Handle>& stack = this_thread(instance).contexts;
        *context = reinterpret_cast<CUcontext>(stack.empty() ? Handle{0} : stack.back());
    });
}

CUresult cuCtxSetCurrent(CUcontext context) {
    return call(Function::cuCtxSetCurrent, [&](Model& instance, Lock&) {
        std::vector<Handle>& stack = this_thread(instance).contexts;
        const Handle handle = context == nullptr ? 0 : context_of(instance, handle_of(context)).handle;
        if (!stack.empty()) stack.pop_back();
        if (handle != 0) stack.push_back(handle);
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
    });
}

CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
    return call(Function::cuCtxGetId, [&](Model& instance, Lock&) {
        require(id);
        *id = context == nullptr ? current_context(instance).id : context_of(instance, handle_of(context)).id;
    });
}

CUresult cuCtxSynchronize() {
    return call(Function::cuCtxSynchronize, [&](Model& instance, Lock& lock) {
        const Context& context = healthy_context(instance, current_context(instance).handle);
        check_context_not_capturing(instance, context);
        wait_for_context(instance, lock, context.handle);
    });
}

CUresult cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
    return call(Function::cuMemGetInfo, [&](Model& instance, Lock&) {
        require(free_bytes, total_bytes);
        healthy_context(instance, current_context(instance).handle);
        *free_bytes = device_free_bytes;
        *total_bytes = device_total_bytes;
    });
}

}  // extern "C"

}  // namespace fake_cuda
