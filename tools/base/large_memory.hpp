// SPDX-License-Identifier: Apache-2.0
//
// Large memory, for data that fills it: the system maps all of its pages at once, which takes half the time of mapping
// each page when it is first touched.
#pragma once

#include <cstddef>
#include <memory>

namespace cep::tool {

// Huge pages are faster where they are available, but several times slower in virtual machines that return free memory
// to their host.
class LargeMemory {
  public:
    /// Smaller memory comes from the heap, which is as fast.
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
