// SPDX-License-Identifier: Apache-2.0
//
// Step sets: which steps a rank recorded, in little memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cep::tool {

/// Steps as arithmetic progressions. Adding is cheap where steps come in order and with one stride.
class StepSet {
  public:
    void add(std::int64_t step);
    [[nodiscard]] bool empty() const { return is_empty_; }
    /// For a set that is not empty.
    [[nodiscard]] std::int64_t last() const;
    /// Adds all steps to a list, in no order; some may come twice.
    void append_to(std::vector<std::int64_t>& steps) const;

    friend bool operator==(const StepSet&, const StepSet&) = default;

  private:
    struct Progression {
        std::int64_t first = 0;
        std::int64_t last = 0;
        std::uint64_t stride = 0;  // 0: one step

        [[nodiscard]] bool contains(std::int64_t step) const;
        friend bool operator==(const Progression&, const Progression&) = default;
    };

    void append(std::int64_t step);
    void compact();

    bool is_empty_ = true;
    Progression current_;
    std::vector<Progression> earlier_;
    std::size_t compact_at_ = 1024;  // progressions
};

/// The steps of many sets.
class StepUnion {
  public:
    /// The set must outlive the call of finish().
    void add(const StepSet& set);
    /// Ascending, each step once.
    [[nodiscard]] std::vector<std::int64_t> finish();

  private:
    std::vector<std::int64_t> steps_;
    std::size_t sort_at_ = std::size_t{1} << 20;
    const StepSet* last_ = nullptr;
};

}  // namespace cep::tool
