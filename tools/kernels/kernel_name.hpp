// SPDX-License-Identifier: Apache-2.0
//
// Kernel names: takes apart what a compiler made of them, to separate a function's own name from its namespaces,
// its template arguments and its parameters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

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

}  // namespace cep::kernels
