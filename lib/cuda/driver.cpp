// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver.hpp"

#include <dlfcn.h>

#include <atomic>
#include <mutex>

namespace cep::cuda {
namespace {

struct Loader {
    std::mutex mutex;
    DriverApi api;
    std::atomic<const DriverApi*> ready{nullptr};
    std::atomic<const char*> missing{nullptr};
};

constinit Loader loader;

}  // namespace

const DriverApi* find_driver() noexcept {
    if (const DriverApi* ready = loader.ready.load(std::memory_order_acquire)) return ready;
    if (loader.missing.load(std::memory_order_relaxed) != nullptr) return nullptr;
    // RTLD_NODELETE: the driver must stay loaded for as long as the poller may call it.
    void* library = dlopen(library_name, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    if (library == nullptr) return nullptr;
    const std::lock_guard guard(loader.mutex);
    if (loader.ready.load(std::memory_order_relaxed) == nullptr) {
        const char* missing =
            load_driver_api(loader.api, [library](const char* symbol) { return dlsym(library, symbol); });
        if (missing == nullptr)
            loader.ready.store(&loader.api, std::memory_order_release);
        else
            loader.missing.store(missing, std::memory_order_relaxed);
    }
    dlclose(library);
    return loader.ready.load(std::memory_order_relaxed);
}

const char* missing_driver_symbol() noexcept {
    return loader.missing.load(std::memory_order_relaxed);
}

bool is_sticky(CUresult code) noexcept {
    switch (code) {
        case result::success:
        case result::invalid_value:
        case result::out_of_memory:
        case result::invalid_handle:
        case result::illegal_state:
        case result::not_ready:
            return false;
        default:
            return code < result::capture_unsupported || code > result::capture_wrong_thread;
    }
}

}  // namespace cep::cuda
