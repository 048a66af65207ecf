// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "cep/cep.h"

namespace cep {

/// A count with one writer and any number of readers: no atomic read-modify-write.
class Count {
  public:
    void add(std::uint64_t n = 1) noexcept {
        value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    }
    void set(std::uint64_t n) noexcept { value_.store(n, std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

  private:
    std::atomic<std::uint64_t> value_{0};
};

/// What happened to everything that began on recorded steps.
struct Totals : cep_stats {
    Totals() noexcept : cep_stats{} {}

    std::int64_t clock_error_ns = 0;  ///< of the device clock now; 0: no device

    /// Counts calls that were refused before they recorded anything.
    void add_refused(std::uint64_t calls) noexcept {
        recorded += calls;
        dropped_slots += calls;
    }

    /// Grows whenever something is lost.
    [[nodiscard]] std::uint64_t losses() const noexcept {
        return dropped_ring + dropped_slots + dropped_pool + dropped_file + dropped_io + dropped_meta +
               capture_skipped + cuda_errors + abandoned;
    }
};

}  // namespace cep
