// SPDX-License-Identifier: Apache-2.0
#include "collectives.hpp"

#include <algorithm>
#include <tuple>

namespace cep::analysis {
void Transfers::finish() {
    std::sort(durations_.begin(), durations_.end(),
              [](const Duration& a, const Duration& b) { return std::tie(a.key, a.ms) < std::tie(b.key, b.ms); });
    for (std::size_t first = 0; first < durations_.size();) {
        std::size_t last = first;
        while (last < durations_.size() && durations_[last].key == durations_[first].key) ++last;
        if (last - first > 1)
            matched_.push_back({durations_[first].key, durations_[first].ms, static_cast<std::uint32_t>(last - first)});
        first = last;
    }
    durations_ = {};
}

Transfer Transfers::of(Key key) const {
    const auto found = std::lower_bound(matched_.begin(), matched_.end(), key,
                                        [](const Matched& matched, Key wanted) { return matched.key < wanted; });
    if (found == matched_.end() || found->key != key) return {};
    return {found->ms, found->ranks};
}

}  // namespace cep::analysis
