// SPDX-License-Identifier: Apache-2.0
//
// Advice on settings: what the framework was told that costs time, beside what it costs here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "advice/losses.hpp"
#include "model/settings.hpp"

namespace cep::tool {

struct SettingAdvice {
    std::string_view id;  // stable: "anomaly_detection"
    std::string text;     // what is, and what to do
};

/// In the order of the rules, which docs/guide/advice.md lists.
[[nodiscard]] std::vector<SettingAdvice> advise_on(const JobSettings& settings, const std::vector<TimeLoss>& losses);

}  // namespace cep::tool
