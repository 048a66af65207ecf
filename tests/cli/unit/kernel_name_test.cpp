// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_rules.hpp"

#include <gtest/gtest.h>

namespace cep::kernels {
namespace {

using Words = std::vector<std::string>;

TEST(KernelName, OwnNameIsBehindReturnTypeAndNamespaces) {
    const FunctionName name = FunctionName::parse("void at::native::reduce_kernel<512, 1, float>(int, at::Tensor)");
    EXPECT_EQ(name.own, "reduce_kernel");
    EXPECT_EQ(name.arguments, "512, 1, float");
    EXPECT_EQ(name.scopes, (std::vector<std::string_view>{"at", "native"}));
}

TEST(KernelName, LambdasAreNamedAfterTheirFunction) {
    const char* const text =
        "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() "
        "const::{lambda(float)#1}";
    EXPECT_EQ(FunctionName::parse(text).own, "direct_copy_kernel_cuda");
}

TEST(KernelName, AnonymousNamespacesAreNoParameters) {
    EXPECT_EQ(FunctionName::parse("void at::(anonymous namespace)::norm<float>(int)").own, "norm");
    EXPECT_EQ(FunctionName::parse("void (anonymous namespace)::norm<float>(int)").own, "norm");
}

TEST(KernelName, ReturnTypesMayBeTemplates) {
    EXPECT_EQ(FunctionName::parse("std::enable_if<!(false), void>::type internal::gemvx::kernel<int>(int)").own,
              "kernel");
}

TEST(KernelName, PlainNamesAreTheirOwn) {
    EXPECT_EQ(FunctionName::parse("nvjet_sm90_tst_NNT").own, "nvjet_sm90_tst_NNT");
}

TEST(KernelName, ArgumentsAreSplitAtTheirOwnCommas) {
    EXPECT_EQ(split_arguments("512, a<b, c>, f(d, e)::{lambda(int, int)#1}, (x::Y)1"),
              (std::vector<std::string_view>{"512", "a<b, c>", "f(d, e)::{lambda(int, int)#1}", "(x::Y)1"}));
    EXPECT_TRUE(split_arguments("").empty());
}

TEST(KernelName, WordsEndWhereCaseOrKindChanges) {
    EXPECT_EQ(split_words("s16816gemm_AllReduce"), (Words{"s", "16816", "gemm", "all", "reduce"}));
    EXPECT_EQ(split_words("nchwToNhwcKernel"), (Words{"nchw", "to", "nhwc", "kernel"}));
    EXPECT_EQ(split_words("CUDAFunctor_add"), (Words{"cuda", "functor", "add"}));
    EXPECT_EQ(split_words("__x"), (Words{"x"}));
    EXPECT_TRUE(split_words("").empty());
}

}  // namespace
}  // namespace cep::kernels
