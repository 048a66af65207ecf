// SPDX-License-Identifier: Apache-2.0
//
// CUDA events on the trainer's threads.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "cuda/context.hpp"
#include "cuda/driver.hpp"
#include "device.hpp"

namespace cep::cuda {

/// Why spans on a stream were timed on the host clock.
enum class HostFallback : std::uint8_t { none, no_driver, no_context };

/// What trainer threads and the poller share.
struct CudaState {
    explicit CudaState(std::size_t limit) noexcept : pool_limit(limit) {}
    CudaState(const CudaState&) = delete;
    CudaState& operator=(const CudaState&) = delete;
    ~CudaState();

    /// The context of that handle; made when it is new. Null without memory.
    [[nodiscard]] Context* find_or_add_context(CUcontext handle) noexcept;
    /// Tells a context from an earlier one at the same address; 0 where the driver cannot say.
    [[nodiscard]] std::uint64_t context_id(CUcontext handle) const noexcept;
    /// False once the trainer has destroyed the context, even if another one is now where it was.
    [[nodiscard]] bool exists(const Context& context) const noexcept {
        return context_id(context.handle()) == context.id();
    }
    void count_error(Context* context, CUresult code) noexcept;

    const std::size_t pool_limit;
    std::atomic<const DriverApi*> driver{nullptr};
    std::atomic<Context*> contexts{nullptr};
    std::atomic<std::uint64_t> errors{0};
    std::atomic<CUresult> last_error{0};
    std::atomic<HostFallback> fallback{HostFallback::none};
};

class CudaThread final : public DeviceThread {
  public:
    CudaThread(CudaState& state, std::size_t supply_capacity) noexcept
        : state_(state), supply_capacity_(supply_capacity) {}

    [[nodiscard]] StampResult stamp(void* stream, Stamp& stamp) noexcept override;

  private:
    struct Binding {
        CUcontext handle = nullptr;
        Context* context = nullptr;
        Supply* supply = nullptr;
        void* last_stream = nullptr;
        std::int32_t last_stream_number = 0;
    };

    /// The binding of the calling thread's current context, null if there can be none. False without such a context.
    [[nodiscard]] bool find_binding(const DriverApi& driver, std::int64_t now_ns, Binding*& binding) noexcept;
    [[nodiscard]] Binding* bind(CUcontext handle) noexcept;
    [[nodiscard]] FreeEvent acquire_event(const DriverApi& driver, Binding& binding) noexcept;
    [[nodiscard]] std::int32_t stream_number(Binding& binding, void* stream) noexcept;
    StampResult fail(Binding& binding, CUresult code, Event* event) noexcept;
    StampResult fall_back(HostFallback reason) noexcept;

    /// A context's address can come to stand for another one, into which an event of the first must not be recorded;
    /// its number cannot, but costs 25 ns. To destroy a context and make another takes some 100 ms.
    static constexpr std::int64_t identity_lasts_ns = 1'000'000;

    CudaState& state_;
    const std::size_t supply_capacity_;
    std::array<Binding, 16> bindings_{};
    Binding* current_ = nullptr;
    std::int64_t identified_ns_ = 0;  ///< when current_ was last known to be the context it was made for
};

}  // namespace cep::cuda
