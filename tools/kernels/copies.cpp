// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_report.hpp"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/units.hpp"
#include "show/fields.hpp"

namespace cep::kernels {
namespace {

struct CopyTotal {
    std::string_view direction;
    std::string_view host_memory;  // "" where no host takes part
    std::uint64_t count = 0;
    double bytes = 0;
    double time_ms = 0;

    [[nodiscard]] std::optional<double> gb_per_s() const {
        return bytes > 0 && time_ms > 0 ? std::optional(bytes / time_ms / 1e6) : std::nullopt;
    }
};

bool has(std::string_view text, std::string_view word) {
    return text.find(word) != std::string_view::npos;
}

/// The direction and the memory of "Memcpy HtoD (Pinned -> Device)".
std::pair<std::string_view, std::string_view> kind_of(std::string_view name) {
    static constexpr std::pair<std::string_view, std::string_view> directions[] = {
        {"HtoD", "host to device"}, {"DtoH", "device to host"}, {"DtoD", "device to device"}, {"PtoP", "peer to peer"}};
    std::string_view direction = "other";
    for (const auto& [word, meaning] : directions)
        if (has(name, word)) direction = meaning;
    return {direction, is_pageable_copy(name) ? "pageable" : has(name, "Pinned") ? "pinned" : ""};
}

std::vector<CopyTotal> find_copies(const KernelTotals& kernels) {
    std::map<std::pair<std::string_view, std::string_view>, KernelTotal> totals;
    for (const auto& [key, total] : kernels)
        if (key.first.starts_with("Memcpy")) totals[kind_of(key.first)].merge(total);
    std::vector<CopyTotal> copies;
    for (const auto& [kind, total] : totals)
        copies.push_back({kind.first, kind.second, total.count, static_cast<double>(total.bytes),
                          static_cast<double>(total.total_ns) / 1e6});
    return copies;
}

tool::Fields<CopyTotal> copy_fields() {
    using C = CopyTotal;
    const auto bytes = [](const C& copy) { return copy.bytes > 0 ? tool::format_bytes(copy.bytes) : "-"; };
    const auto rate = [](double gb_per_s) { return fmt::format("{:.3g} GB/s", gb_per_s); };
    return {{"direction", "copies", "", &C::direction},
            {"host_memory", "host memory", "", [](const C& copy) { return tool::text_or_null(copy.host_memory); }},
            {"count", "count", "", &C::count},
            {"bytes", "bytes", "", &C::bytes, bytes},
            {"time_ms", "time", "", &C::time_ms, tool::format_duration_ms},
            {"gb_per_s", "bandwidth", "", &C::gb_per_s, rate}};
}

}  // namespace

bool is_pageable_copy(std::string_view name) {
    return has(name, "Pageable");
}

tool::Table copy_table(const KernelTotals& kernels) {
    tool::Table table = tool::table_of(copy_fields(), find_copies(kernels), "Copies");
    table.keep_whole();
    return table;
}

void write_copies(tool::JsonWriter& json, const KernelTotals& kernels) {
    tool::write_records(json, "copies", copy_fields(), find_copies(kernels));
}

}  // namespace cep::kernels
