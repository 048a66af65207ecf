// SPDX-License-Identifier: Apache-2.0
#include "model/sample_budget.hpp"

#include <algorithm>

namespace cep::tool {

StepChoice SampleBudget::spend(const StepTally& samples, const StepTally& steps_of_series) {
    const std::lock_guard guard(mutex_);
    spent_.add(samples);
    const StepTally::Left steps = steps_of_series.left();
    for (std::size_t i = 0; i < steps.size(); ++i) most_steps_[i] = std::max(most_steps_[i], steps[i]);
    while (is_exceeded()) ++halvings_;
    return StepChoice(halvings_);
}

StepChoice SampleBudget::choice() const {
    const std::lock_guard guard(mutex_);
    return StepChoice(halvings_);
}

// Grows with what is known, so that what is exceeded now is at the end.
bool SampleBudget::is_exceeded() const {
    if (halvings_ + 1 == StepChoice::none) return false;
    const std::uint64_t kept = spent_.left()[halvings_];
    if (kept <= samples_) return false;
    return most_steps_[halvings_ + 1] >= few_steps || kept / times_for_few_steps > samples_;
}

}  // namespace cep::tool
