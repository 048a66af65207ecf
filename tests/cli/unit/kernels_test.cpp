// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/event.hpp"
#include "kernels/kernel_rules.hpp"
#include "kernels/trace_reader.hpp"
#include "kernels/trace_text.hpp"
#include "text_source.hpp"

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

using enum KernelClass;

struct Known {
    const char* name;
    KernelClass kernel_class;
    const char* kind;
};

std::string label(const Known& known) {
    return std::string(class_name(known.kernel_class)) + " " + known.kind;
}

constexpr Known known_kernels[] = {
    // NCCL and RCCL, old and new names.
    {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", comm, "collective"},
    {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", comm, "collective"},
    {"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", comm, "collective"},
    {"ncclKernel_ReduceScatter_RING_LL_Sum_half(ncclWorkElem)", comm, "collective"},
    {"ncclSymDevKernel_AllGather_LL(ncclSymDevArgs)", comm, "collective"},
    {"ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", comm, "collective"},
    {"rccl_main_kernel(ncclDevComm*)", comm, "collective"},
    {"mscclKernel_Sum_half_LL(ncclDevComm*, mscclAlgo*)", comm, "collective"},
    // Communication without NCCL.
    {"void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*, int*)", comm, "expert dispatch"},
    {"void deep_ep::internode_ll::combine<false, 3, 10>(void*, void*)", comm, "expert dispatch"},
    {"nvshmemi_proxy_quiet_entrypoint(int)", comm, "one-sided"},
    {"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals)", comm, "collective"},
    {"void tensorrt_llm::kernels::twoShotAllReduceKernel<__half, 8>(tensorrt_llm::kernels::AllReduceParams)", comm,
     "collective"},
    {"multimem_all_reduce_kernel(c10::BFloat16*, unsigned long)", comm, "collective"},
    {"userbuffers_fp16_sum_inplace_gpu_rw(int, int)", comm, "collective"},
    // cuBLAS and cuBLASLt.
    {"nvjet_sm90_tst_128x128_64x6_2x1_v_bz_NNT", matmul, "gemm"},
    {"nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT", matmul, "gemm"},
    {"ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", matmul, "gemm"},
    {"ampere_sgemm_32x128_nn", matmul, "gemm"},
    {"volta_h884gemm_128x64_ldg8_nn", matmul, "gemm"},
    {"turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn", matmul, "gemm"},
    {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_"
     "cublas",
     matmul, "gemm"},
    {"void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>(cublasLt::cublasSplitKParams<float>)",
     matmul, "gemm"},
    {"std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, float, false>(int)", matmul,
     "gemv"},
    {"void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>(int)", matmul, "gemv"},
    {"void gemmSN_NN_kernel<float, 256, 4, 2, 8, 4, 4, true>(int)", matmul, "gemm"},
    {"void gemmk1_kernel<int, float, 256, 5, false, false>(int)", matmul, "gemm"},
    // CUTLASS.
    {"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(int)", matmul,
     "gemm"},
    {"void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int>, float>>(int)",
     matmul, "gemm"},
    {"void cutlass::device_kernel<something::Unheard<float>>(int)", matmul, "gemm"},
    {"void deep_gemm::sm90_fp8_gemm_1d2d_impl<4096u, 7168u, 1u>(float*)", matmul, "gemm"},
    // Other matrix products.
    {"Cijk_Ailk_Bljk_BBS_BH_MT128x128x32_MI32x32x8x1_SN_1LDSB0", matmul, "gemm"},
    {"void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm<float>, true>(int)", matmul, "gemm"},
    {"void marlin::Marlin<__nv_bfloat16, 1125899906843648l, 256>(int4 const*)", matmul, "gemm"},
    {"fused_moe_kernel", matmul, "gemm"},
    {"_w8a8_block_fp8_matmul", matmul, "gemm"},
    {"triton_tem_fused_addmm_4", matmul, "gemm"},
    {"triton_mm", matmul, "gemm"},
    // Convolutions.
    {"sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x32", matmul, "convolution"},
    {"void cudnn::cnn::conv2d_grouped_direct_kernel<false, true>(int)", matmul, "convolution"},
    {"void cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688wgrad_optimized_tf32_256x128_16x3_nhwc>(int)", matmul,
     "convolution"},
    {"volta_scudnn_128x64_relu_medium_nn_v1", matmul, "convolution"},
    {"miopenSp3AsmConv_v30_3_1_gfx9_fp32_f3x2_stride1", matmul, "convolution"},
    // Attention.
    {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_cga1x1x1_kernel0_0", attention,
     "attention"},
    {"void cudnn::fusion::compute_dot_do_o_specialized<true, 64>(void const*)", attention, "attention"},
    {"void cudnn::fusion::convert_dq_to_16bits<true>(void const*)", attention, "attention"},
    {"void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4>, true>(int)",
     attention, "attention"},
    {"void flash_bwd_dot_do_o_kernel<true, Flash_bwd_kernel_traits<64, 64, 128, 8> >(Flash_bwd_params)", attention,
     "attention"},
    {"void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<float> > >(int)", attention,
     "attention"},
    {"fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>::Params)", attention,
     "attention"},
    {"_attn_fwd", attention, "attention"},
    {"triton_tem_fused_flex_attention_0", attention, "attention"},
    {"void vllm::paged_attention_v2_kernel<float, 128, 16>(float*)", attention, "attention"},
    {"void flashinfer::BatchPrefillWithPagedKVCacheKernel<float>(int)", attention, "attention"},
    {"void ck_tile::kentry<256, 2, ck_tile::FmhaFwdKernel<float> >(int)", attention, "attention"},
    // Memory: kernels that only move or set bytes, whatever wraps them.
    {"void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::"
     "{lambda()#3}::operator()() const::{lambda()#7}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul>, "
     "4, "
     "TrivialOffsetCalculator<1, unsigned int>, at::native::memory::LoadWithCast<1> >(int)",
     memory, "copy"},
    {"void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_"
     "cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda(float)#1}>(at::TensorIteratorBase&, "
     "int)::{lambda(int)#1}>(int, at::native::gpu_kernel_impl_nocast<float>)",
     memory, "copy"},
    {"void at::native::vectorized_elementwise_kernel<8, "
     "at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::"
     "{lambda(float)#1}, std::array<char*, 2ul> >(int)",
     memory, "copy"},
    {"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int)",
     memory, "fill"},
    {"void at::native::(anonymous namespace)::CatArrayBatchedCopy_aligned16_contig<float, unsigned int, 2>(float*)",
     memory, "copy"},
    {"void at::native::split_with_sizes_copy_out_contiguous_no_cast_kernel<16>(char**)", memory, "copy"},
    {"void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)", memory, "gather"},
    {"void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long, unsigned int, 2>(int)", memory,
     "gather"},
    {"void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true>(int)", memory, "layout"},
    {"void vllm::reshape_and_cache_flash_kernel<float, float>(float*)", memory, "copy"},
    {"__amd_rocclr_copyBuffer", memory, "copy"},
    {"__amd_rocclr_fillBufferAligned", memory, "fill"},
    {"triton_poi_fused_clone_7", memory, "copy"},
    // Other work.
    {"void at::native::unrolled_elementwise_kernel<at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>, 4, "
     "TrivialOffsetCalculator<2, unsigned int>, at::native::memory::LoadWithCast<2> >(int)",
     other, "elementwise"},
    {"void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float, float, float, "
     "at::native::binary_internal::MulFunctor<float> >, std::array<char*, 2ul> >(int)",
     other, "elementwise"},
    {"void at::native::vectorized_elementwise_kernel<8, at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, "
     "c10::BFloat16, at::native::(anonymous namespace)::threshold_kernel_impl<c10::BFloat16>(at::TensorIteratorBase&, "
     "c10::BFloat16)::{lambda(c10::BFloat16, c10::BFloat16)#1}>, std::array<char*, 3ul> >(int)",
     other, "activation"},
    {"void at::native::reduce_kernel<128, 4, at::native::ReduceOp<c10::BFloat16, at::native::func_wrapper_t<c10::"
     "BFloat16, at::native::sum_functor<c10::BFloat16, float, c10::BFloat16>::operator()(at::TensorIterator&)::{lambda("
     "float, float)#1}>, unsigned int, c10::BFloat16, 4, 8> >(int)",
     other, "reduction"},
    {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
     "FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, "
     "(at::native::ADAM_MODE)1, false>, float const*, double>(int)",
     other, "optimizer"},
    {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
     "TensorListMetadata<1>, at::native::(anonymous namespace)::BinaryOpScalarFunctor<float, 1, 1, 0>, "
     "std::plus<float>, "
     "float>(int)",
     other, "multi-tensor"},
    {"void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float, false>(int)", other, "norm"},
    {"void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<float, float, 32u>(long)", other,
     "norm"},
    {"void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel<float>(int)", other, "norm"},
    {"void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 8, true, false>(int)",
     other, "softmax"},
    {"void scaled_upper_triang_masked_softmax_warp_forward<__half, __half, float, 11>(int)", other, "softmax"},
    {"void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float>(int)", other, "softmax"},
    {"void at_cuda_detail::cub::detail::radix_sort::DeviceRadixSortOnesweepKernel<long, int>(int*)", other, "sort"},
    {"void at_cuda_detail::cub::detail::scan::DeviceScanKernel<long>(long const*)", other, "scan"},
    {"void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(int)", other, "sort"},
    {"void (anonymous namespace)::elementwise_kernel_with_index<int, at::native::arange_cuda_out(c10::Scalar const&)::"
     "{lambda()#1}::operator()() const::{lambda(long)#1}>(int)",
     other, "elementwise"},
    {"void at::native::(anonymous namespace)::sum_and_scatter<float, long>(long const*)", other, "reduction"},
    {"void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(float*)",
     other, "loss"},
    {"void transformer_engine::detail::cast_transpose_fused_kernel_notaligned<true>(int)", other, "quantisation"},
    {"void vllm::act_and_mul_kernel<float, &(float vllm::silu_kernel<float>(float const&)), true>(float*)", other,
     "activation"},
    {"triton_poi_fused_add_mul_0", other, "generated"},
    {"triton_red_fused__to_copy_mean_pow_3", other, "generated"},
    {"my_own_kernel", other, "other"},
};

TEST(KernelRules, KnowKernelsByName) {
    for (const Known& known : known_kernels) {
        const KernelType type = classify(Activity::kernel, known.name);
        EXPECT_EQ(std::string(class_name(type.kernel_class)) + " " + type.kind, label(known)) << known.name;
    }
}

TEST(KernelRules, MatchWholeWordsOnly) {
    // "mm" is inside comm, "cat" inside scatter and locate, "gather" is not in together, "conv" not in convert.
    for (const char* name : {"comm_volume", "locate_rows", "work_together", "convert_units", "summary", "fillet"})
        EXPECT_EQ(classify(Activity::kernel, name).kind, "other") << name;
}

TEST(KernelRules, WhatInductorConvertsForAMatrixProductIsNone) {
    EXPECT_EQ(classify(Activity::kernel, "triton_poi_fused__to_copy_mm_relu_1").kernel_class, other);
    EXPECT_EQ(classify(Activity::kernel, "triton_poi_fused_all_gather_into_tensor_add_1").kernel_class, other);
}

TEST(KernelRules, TransfersAreMemoryUnlessBetweenGpus) {
    EXPECT_EQ(classify(Activity::copy, "Memcpy HtoD (Pinned -> Device)").kernel_class, memory);
    EXPECT_EQ(classify(Activity::copy, "Memcpy DtoD (Device -> Device)").kernel_class, memory);
    EXPECT_EQ(classify(Activity::set, "Memset (Device)").kernel_class, memory);
    EXPECT_EQ(classify(Activity::copy, "Memcpy PtoP (Device -> Device)").kernel_class, comm);
}

TEST(KernelRules, MangledNamesAreUnderstood) {
    EXPECT_EQ(classify(Activity::kernel, "_ZN7pytorch10sgemm_fastIfEEvPT_").kernel_class, matmul);
    EXPECT_EQ(classify(Activity::kernel, "_Znot_mangled_at_all_gemm").kernel_class, matmul);
}

TEST(KernelRules, ShortNamesSayWhatAWrapperDoes) {
    const auto short_name = [](const char* name) { return classify(Activity::kernel, name).short_name; };
    EXPECT_EQ(short_name(known_kernels[0].name), "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
    EXPECT_EQ(
        short_name("void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float, at::native::func_wrapper_t<"
                   "float, at::native::sum_functor<float>::operator()(int)::{lambda(float)#1}> > >(int)"),
        "reduce_kernel<sum_functor>");
    EXPECT_EQ(short_name("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, float>(int)"),
              "gemvx::kernel");
}

TEST(KernelRules, EveryPhraseIsMadeOfWordsThatNamesAreSplitInto) {
    for (const KernelRule& rule : kernel_rules()) {
        EXPECT_FALSE(rule.words.empty());
        EXPECT_FALSE(rule.kind.empty());
        for (const char c : rule.words)
            EXPECT_TRUE((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == ' ' || c == '|') << rule.words;
    }
}

TEST(KernelRules, NamesThatAreNoNamesDoNotHurt) {
    for (const char* name : {"", "<", ">", "<<<<<", "::", "a<b", "operator", "operator<", "(", "{lambda", "void ",
                             "::<>", "a::(anonymous namespace)", "x<y<z<", "\"", "->", "_Z", " [clone]"})
        EXPECT_NO_THROW(static_cast<void>(classify(Activity::kernel, name))) << name;
}

/// A text with the bytes behind it that the scanners may read.
struct Padded {
    std::string text;
    std::size_t size;
    explicit Padded(std::string content) : text(std::move(content)), size(text.size()) {
        text.append(text_padding_bytes, '\0');
    }
    [[nodiscard]] const char* begin() const { return text.data(); }
    [[nodiscard]] const char* end() const { return text.data() + size; }
};

std::ptrdiff_t nested_size(const Padded& text) {
    const ValueEnd found = find_nested_end(text.begin(), text.end());
    return found.why == ValueEnd::Why::whole ? found.at - text.begin() : -1;
}

TEST(TraceText, NestedValuesEndAtTheirOwnBracketWhereverBlocksBegin) {
    for (std::size_t padding = 0; padding < 140; ++padding) {
        const std::string object = R"({"a":")" + std::string(padding, 'x') + R"(\\\"}]","b":[{},{"c":"\\"}]})";
        EXPECT_EQ(nested_size(Padded(object + ",{}")), static_cast<std::ptrdiff_t>(object.size())) << padding;
        EXPECT_EQ(nested_size(Padded(object.substr(0, object.size() - 1))), -1) << padding;
    }
}

Event event_of(const Padded& text) {
    ondemand::parser parser;
    return parse_event(parser, {text.begin(), text.size});
}

TEST(TraceEvent, WhatIsNotLookedAtIsNotValidated) {
    const Padded text(R"({ "ph" : "X" , "cat":"kernel","name":"a\"b" ,"pid":7,"x":NaN,"y":"\q","ts":1.5,"dur":2,)"
                      R"("args":{"z":Infinity,"device":3}})");
    const Event event = event_of(text);
    const auto* const gpu = std::get_if<GpuEvent>(&event);
    ASSERT_NE(gpu, nullptr);
    EXPECT_EQ(gpu->name, R"(a\"b)");
    EXPECT_EQ(gpu->device, 3);
    EXPECT_EQ(gpu->start_ns, 1500);
    EXPECT_EQ(gpu->duration_ns, 2000);
}

TEST(TraceText, EscapesAreResolved) {
    ondemand::parser parser;
    EXPECT_EQ(resolve_escapes(parser, R"(a\"b\\c\/\n\u00b5\ud83d\ude00)"), "a\"b\\c/\n\u00b5\U0001f600");
    for (const char* broken : {"\\ud83d x", "x \\u12", "end\\"})
        EXPECT_EQ(resolve_escapes(parser, broken), broken) << "stays as it is written";
}

TEST(TraceEvent, TimesKeepTheirNanoseconds) {
    EXPECT_EQ(parse_us_as_ns("4384145463006.696"), 4384145463006696);
    EXPECT_EQ(parse_us_as_ns("4384145463006.6965"), 4384145463006697);
    EXPECT_EQ(parse_us_as_ns("108.9995"), 109000);
    EXPECT_EQ(parse_us_as_ns("12"), 12000);
    EXPECT_EQ(parse_us_as_ns("0.5"), 500);
    EXPECT_EQ(parse_us_as_ns("-1.25"), -1250);
    EXPECT_EQ(parse_us_as_ns("1.5e3"), 1500000);
    EXPECT_EQ(parse_us_as_ns("\"7.5\""), 7500);
}

TEST(TraceEvent, WhatIsNoTimeIsNone) {
    for (const char* text : {"", "-", "NaN", "Infinity", "1e300", "99999999999999999999", "9999999999999999", "1.2.3",
                             "1x", "null", "\"\"", "{}"})
        EXPECT_FALSE(parse_us_as_ns(text)) << text;
}

}  // namespace
}  // namespace cep::kernels
