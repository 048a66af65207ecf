// SPDX-License-Identifier: Apache-2.0
//
// Kernel rules: from the name of a kernel to what it does, by whole words in one table.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernels/event.hpp"

namespace cep::kernels {

enum class KernelClass : std::uint8_t { matmul, attention, comm, memory, other };
inline constexpr std::array<std::string_view, 5> class_names = {"matmul", "attention", "comm", "memory", "other"};

[[nodiscard]] constexpr std::string_view class_name(KernelClass kernel_class) {
    return class_names[static_cast<std::size_t>(kernel_class)];
}

/// The first rule that matches decides.
struct KernelRule {
    /// In which identifiers of a name its words are looked for.
    enum class Where : std::uint8_t {
        own,   // the function's own name
        path,  // that, or one of its namespaces
    };
    std::string_view words;  // these, one behind the other; "…|…" for alternatives
    Where where;
    KernelClass kernel_class;
    std::string_view kind;
};

/// All rules, in the order in which they are tried.
[[nodiscard]] std::span<const KernelRule> kernel_rules();

struct KernelType {
    KernelClass kernel_class = KernelClass::other;
    std::string kind;        // finer: "gemm", "attention", "collective", "copy", "elementwise", …
    std::string short_name;  // for people: no namespaces, no types
};

/// Whether a matrix product's name says that it runs on Tensor Cores, as those of cuBLAS, CUTLASS and cuDNN do.
[[nodiscard]] bool uses_tensor_cores(std::string_view full_name);

/// `name`: as traces have it, mangled or not, with or without its parameters.
[[nodiscard]] KernelType classify(Activity activity, const std::string& name);

}  // namespace cep::kernels
