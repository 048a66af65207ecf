// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "ledger/ledger.hpp"
#include "ledger/piece.hpp"

namespace cep::tool {
namespace {

struct KnownDevice {
    std::string_view words;  // in the name that the driver gives, in small letters
    double peak_flops;
};

// Dense BF16 tensor-core peaks from NVIDIA's data sheets of each product; "with sparsity" figures are halved. A name
// of two words comes before the first of them.
constexpr std::array<KnownDevice, 17> known_devices = {{
    {"gb200", 2.5e15},
    {"b200", 2.25e15},
    {"h200 nvl", 835e12},
    {"h200", 989.4e12},
    {"gh200", 989.4e12},
    {"h100 pcie", 756e12},
    {"h100 nvl", 835e12},
    {"h100", 989.4e12},
    {"h800 pcie", 756e12},
    {"h800", 989.4e12},
    {"a100", 312e12},
    {"a800", 312e12},
    {"h20", 148e12},
    {"l40s", 362e12},
    {"l40", 181e12},
    {"a30", 165e12},
    {"l4", 121e12},
}};

}  // namespace

std::optional<double> known_peak_flops(std::string_view device_name) {
    const NameWords name(device_name);
    if (name.has("mig")) return std::nullopt;  // a slice of the device
    for (const KnownDevice& device : known_devices)
        if (name.has(device.words)) return device.peak_flops;
    return std::nullopt;
}

std::optional<double> peak_of(const RankRole& rank, std::optional<double> given) {
    if (given) return given;
    if (rank.peak_flops && *rank.peak_flops > 0) return rank.peak_flops;
    return known_peak_flops(rank.device_name);
}

}  // namespace cep::tool
