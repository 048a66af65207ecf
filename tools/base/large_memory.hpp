// SPDX-License-Identifier: Apache-2.0
//
// Large memory: for data that fills it. The system gives all of its pages at once, in half the time that it takes to
// give one at each first touch.
#pragma once

#include <cstddef>
#include <memory>

namespace cep::tool {

// Huge pages would be faster still where they are at hand, but are several times slower in virtual machines that give
// free memory back to their host.
class LargeMemory {
  public:
    /// Below this the heap is as good.
    static constexpr std::size_t large_bytes = std::size_t{1} << 18;

    /// Throws std::bad_alloc.
    explicit LargeMemory(std::size_t bytes);
    [[nodiscard]] std::byte* data() const { return memory_.get(); }

  private:
    struct Free {
        std::size_t bytes;
        void operator()(std::byte* memory) const;
    };
    std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace cep::tool
