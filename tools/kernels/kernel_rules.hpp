// SPDX-License-Identifier: Apache-2.0
//
// Kernel rules: from the name of a kernel to what it does, by whole words in one table. What a compiler made of a name
// is taken apart first: the function's own name, its namespaces, its template arguments and its parameters.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/event.hpp"

namespace cep::kernels {

/// `void at::native::reduce_kernel<512, 1, …>(…)`: own name `reduce_kernel`, namespaces `at`, `native`.
struct FunctionName {
    std::string_view own;
    std::string_view arguments;  // of the template, without its brackets
    std::vector<std::string_view> scopes;

    /// `text`: a name without its mangling, which the result points into. A lambda is the function that it is in.
    [[nodiscard]] static FunctionName parse(std::string_view text);
};

/// Template arguments, split at their commas.
[[nodiscard]] std::vector<std::string_view> split_arguments(std::string_view arguments);

/// The words of an identifier in lower case: split at what is not a letter or a digit, between letters and digits, and
/// in front of a capital behind a small letter or in front of a capitalised word. "s16816gemm_AllReduceNHWC2" is
/// s, 16816, gemm, all, reduce, nhwc, 2.
[[nodiscard]] std::vector<std::string> split_words(std::string_view identifier);

/// The name without its mangling, where it has one.
[[nodiscard]] std::string demangled(const std::string& name);

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

/// Whether a GPU event is a copy from or to memory of the host that is not pinned.
[[nodiscard]] inline bool is_pageable_copy(std::string_view name) {
    return name.find("Pageable") != std::string_view::npos;
}

/// `name`: as traces have it, mangled or not, with or without its parameters.
[[nodiscard]] KernelType classify(Activity activity, const std::string& name);

}  // namespace cep::kernels
