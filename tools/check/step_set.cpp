// SPDX-License-Identifier: Apache-2.0
#include "check/step_set.hpp"

#include <algorithm>
#include <utility>

#include "stats/step_pattern.hpp"

namespace cep::tool {
namespace {

void sort_once(std::vector<std::int64_t>& steps) {
    std::sort(steps.begin(), steps.end());
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
}

}  // namespace

bool StepSet::Progression::contains(std::int64_t step) const {
    if (step < first || step > last) return false;
    return step == first || step == last || step_difference(first, step) % stride == 0;
}

void StepSet::add(std::int64_t step) {
    if (!is_empty_ && current_.contains(step)) return;
    append(step);
    if (earlier_.size() >= compact_at_) compact();
}

void StepSet::append(std::int64_t step) {
    if (!is_empty_ && step > current_.last) {
        const std::uint64_t stride = step_difference(current_.last, step);
        if (current_.stride == 0 || current_.stride == stride) {
            current_.stride = stride;
            current_.last = step;
            return;
        }
    }
    if (!is_empty_) earlier_.push_back(current_);
    current_ = {step, step, 0};
    is_empty_ = false;
}

// A rank that goes back and forth between few steps makes many progressions of them.
void StepSet::compact() {
    std::vector<std::int64_t> steps;
    append_to(steps);
    sort_once(steps);
    earlier_.clear();
    is_empty_ = true;
    for (const std::int64_t step : steps) append(step);
    compact_at_ = std::max<std::size_t>(compact_at_, 2 * earlier_.size());
}

std::int64_t StepSet::last() const {
    std::int64_t last = current_.last;
    for (const Progression& progression : earlier_) last = std::max(last, progression.last);
    return last;
}

void StepSet::append_to(std::vector<std::int64_t>& steps) const {
    if (is_empty_) return;
    const auto add_all = [&steps](const Progression& progression) {
        const std::uint64_t stride = std::max<std::uint64_t>(progression.stride, 1);
        const std::uint64_t count = step_difference(progression.first, progression.last) / stride;
        for (std::uint64_t i = 0; i <= count; ++i)
            steps.push_back(static_cast<std::int64_t>(static_cast<std::uint64_t>(progression.first) + i * stride));
    };
    for (const Progression& progression : earlier_) add_all(progression);
    add_all(current_);
}

// Most ranks record the same steps.
void StepUnion::add(const StepSet& set) {
    if (last_ != nullptr && *last_ == set) return;
    last_ = &set;
    set.append_to(steps_);
    if (steps_.size() < sort_at_) return;
    sort_once(steps_);
    sort_at_ = std::max(sort_at_, 2 * steps_.size());
}

std::vector<std::int64_t> StepUnion::finish() {
    sort_once(steps_);
    return std::move(steps_);
}

}  // namespace cep::tool
