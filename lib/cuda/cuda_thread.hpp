// SPDX-License-Identifier: Apache-2.0
//
// CUDA events on the trainer's threads.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/wakeup.hpp"
#include "cuda/context.hpp"
#include "cuda/device.hpp"
#include "cuda/driver.hpp"

namespace cep::cuda {

/// Why spans on a stream were timed on the host clock.
enum class HostFallback : std::uint8_t { none, no_driver, no_context };

/// State that trainer threads and the poller share.
struct CudaState {
    explicit CudaState(std::size_t limit) noexcept : pool_limit(limit) {}
    CudaState(const CudaState&) = delete;
    CudaState& operator=(const CudaState&) = delete;
    ~CudaState();

    /// The context of that handle; added if it is new. Null if memory runs out.
    [[nodiscard]] Context* find_or_add_context(CUcontext handle) noexcept;
    /// The context of the process, if it has shown one only, that is alive, and no other device is in use; else null.
    [[nodiscard]] const Context* only_context() const noexcept;
    /// An id that differs from that of an earlier context at the same address; 0 if the driver is too old to tell.
    [[nodiscard]] std::uint64_t context_id(CUcontext handle) const noexcept;
    /// False once the trainer has destroyed the context, even if a new one has the same address.
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
    Wakeup* poller = nullptr;  ///< where the poller sleeps
};

/// What the device adds to a stamp. It is returned in two registers, so that no stamp passes through memory.
struct DeviceStamp {
    Event* event = nullptr;
    std::uint16_t stream = 0;
    StampResult result = StampResult::ok;
};
static_assert(sizeof(DeviceStamp) == 16);

/// The part of the device that one recording thread uses. Only that thread calls it.
class alignas(64) CudaThread {
  public:
    CudaThread(CudaState& state, std::size_t pool_capacity) noexcept : state_(state), pool_capacity_(pool_capacity) {}
    CudaThread(const CudaThread&) = delete;
    CudaThread& operator=(const CudaThread&) = delete;

    /// Records an event in `stream`. No lock, no synchronisation, no allocation in steady state.
    [[nodiscard]] DeviceStamp stamp(void* stream, std::int64_t now_ns) noexcept;

  private:
    struct Binding {
        CUcontext handle = nullptr;
        Context* context = nullptr;
        EventPool* pool = nullptr;
        /// Streams used last, and their numbers: a chain may go to and fro between two.
        std::array<void*, 2> streams{};
        std::array<std::uint16_t, 2> stream_numbers{};
    };

    [[nodiscard]] bool find_driver() noexcept;
    [[nodiscard]] CUcontext find_context_of(void* stream) const noexcept;
    [[nodiscard]] CUcontext context_of(void* stream, std::int64_t now_ns) noexcept;
    [[nodiscard]] DeviceStamp stamp_without_context(void* stream, std::int64_t now_ns) noexcept;
    /// Makes the stream's context the current binding; its context stays null if it cannot be made. A stream that was
    /// not used lately belongs to the calling thread's current context. False if the thread has none.
    [[nodiscard]] bool find_context(void* stream, std::int64_t now_ns) noexcept;
    void identify(CUcontext handle, std::int64_t now_ns) noexcept;
    [[nodiscard]] Binding* bind(CUcontext handle) noexcept;
    [[nodiscard]] FreeEvent acquire_event(EventPool& pool, bool is_whole) noexcept;
    [[nodiscard]] FreeEvent create_event() noexcept;
    [[nodiscard]] FreeEvent acquire_of_withheld() noexcept;
    static void prefetch_event(CUevent event) noexcept;
    [[nodiscard]] std::uint16_t stream_number(void* stream) noexcept;
    [[nodiscard]] std::uint16_t find_stream_number(void* stream) noexcept;
    [[nodiscard]] bool knows(const void* stream) const noexcept {
        return stream == current_.streams[0] || stream == current_.streams[1];
    }
    DeviceStamp fail(CUresult code, Event* event) noexcept;
    DeviceStamp fall_back(HostFallback reason) noexcept;

    /// A new context can get the address of a destroyed one, and events of the old one must not be recorded into it.
    /// Context ids are never reused, but reading one takes 25 ns, and much longer if the code for it is in no cache.
    /// Replacing a context takes 145 ms at least (an H200, six times), so the id is read only this often.
    static constexpr std::int64_t identity_lasts_ns = 10'000'000;

    // What each stamp needs, in one cache line.
    const DriverApi* driver_ = nullptr;  ///< state_.driver once it is known
    std::int64_t identified_ns_ = 0;     ///< when the context of current_ was last identified by its id
    Binding current_;                    ///< no context: none

    CudaState& state_;
    const std::size_t pool_capacity_;
    std::array<Binding, 16> bindings_{};
    /// The context of the stream of the last span on a thread without a context.
    struct {
        void* stream = nullptr;
        CUcontext context = nullptr;
        std::int64_t found_ns = 0;
    } borrowed_;
};

}  // namespace cep::cuda
