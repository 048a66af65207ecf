// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cctype>

#include "ledger/ledger.hpp"

namespace cep::tool {
namespace {

struct KnownDevice {
    std::string_view words;  // in the name that the driver gives
    double peak_flops;
};

// Dense BF16 tensor-core peaks from NVIDIA's data sheets of each product; "with sparsity" figures are halved. A name
// of two words comes before the first of them.
constexpr std::array<KnownDevice, 17> known_devices = {{
    {"GB200", 2.5e15},
    {"B200", 2.25e15},
    {"H200 NVL", 835e12},
    {"H200", 989.4e12},
    {"GH200", 989.4e12},
    {"H100 PCIe", 756e12},
    {"H100 NVL", 835e12},
    {"H100", 989.4e12},
    {"H800 PCIe", 756e12},
    {"H800", 989.4e12},
    {"A100", 312e12},
    {"A800", 312e12},
    {"H20", 148e12},
    {"L40S", 362e12},
    {"L40", 181e12},
    {"A30", 165e12},
    {"L4", 121e12},
}};

bool is_word(char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0;
}

bool has_words(std::string_view text, std::string_view words) {
    const std::size_t at = text.find(words);
    if (at == std::string_view::npos) return false;
    const std::size_t end = at + words.size();
    return (at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]));
}

}  // namespace

std::optional<double> known_peak_flops(std::string_view device_name) {
    if (has_words(device_name, "MIG")) return std::nullopt;  // a slice of the device
    for (const KnownDevice& device : known_devices)
        if (has_words(device_name, device.words)) return device.peak_flops;
    return std::nullopt;
}

std::optional<double> peak_of(const RankRole& rank, std::optional<double> given) {
    if (given) return given;
    if (rank.peak_flops && *rank.peak_flops > 0) return rank.peak_flops;
    return known_peak_flops(rank.device_name);
}

}  // namespace cep::tool
