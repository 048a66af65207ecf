// SPDX-License-Identifier: Apache-2.0
//
// Step choice: the steps of which spans are kept one by one, where those of all steps are too many.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/hash.hpp"

namespace cep::tool {

/// A step is kept if the hash of its number begins with enough zero bits. Each halving asks for one more, and leaves
/// about half of the steps: some of those that were kept before it. So every file and thread keeps the same
/// steps, however many halvings it went through on the way; and no fault that comes every n-th step is kept always
/// or never.
class StepChoice {
  public:
    static constexpr unsigned none = 64;  // halvings that leave no step

    explicit constexpr StepChoice(unsigned halvings = 0) : halvings_(std::min(halvings, none)) {}

    /// The most halvings that leave this step.
    [[nodiscard]] static constexpr unsigned halvings_of(std::int64_t step) {
        const int zeros = std::countl_zero(mix_bits(static_cast<std::uint64_t>(step)));
        return std::min(static_cast<unsigned>(zeros), none - 1);
    }
    [[nodiscard]] constexpr bool keeps(std::int64_t step) const { return halvings_of(step) >= halvings_; }
    [[nodiscard]] constexpr bool keeps_all() const { return halvings_ == 0; }
    [[nodiscard]] constexpr unsigned halvings() const { return halvings_; }

    friend constexpr auto operator<=>(StepChoice, StepChoice) = default;

  private:
    unsigned halvings_;
};

/// Leaves so many of some steps, which ascend: those whose numbers have the smallest hashes, so that each is as likely
/// as any other and every run leaves the same. Every n-th one would meet a fault of every n-th step always or never.
template <typename Step, typename NumberOf>
void leave_some(std::vector<Step>& steps, std::size_t count, NumberOf number_of) {
    if (steps.size() <= count) return;
    const auto hash = [&](const Step& step) { return mix_bits(static_cast<std::uint64_t>(number_of(step))); };
    const auto last = steps.begin() + static_cast<std::ptrdiff_t>(count);
    std::nth_element(steps.begin(), last, steps.end(), [&](const Step& a, const Step& b) { return hash(a) < hash(b); });
    steps.erase(last, steps.end());
    std::sort(steps.begin(), steps.end());
}

/// Counts by halvings_of() their step.
class StepTally {
  public:
    /// By halvings: how many are left after so many.
    using Left = std::array<std::uint64_t, StepChoice::none>;

    void add(unsigned halvings_of_step, std::uint64_t count = 1) { counts_[halvings_of_step] += count; }
    void add(const StepTally& other) {
        for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    }
    [[nodiscard]] Left left() const {
        Left left = counts_;
        for (std::size_t i = left.size() - 1; i > 0; --i) left[i - 1] += left[i];
        return left;
    }

  private:
    Left counts_{};
};

}  // namespace cep::tool
