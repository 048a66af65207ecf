// SPDX-License-Identifier: Apache-2.0
#include "advice/settings_advice.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "base/units.hpp"

namespace cep::tool {
namespace {

/// A setting that has a value, and a loss that goes with it.
struct Rule {
    std::string_view id;
    std::string_view setting;
    std::string_view value;
    std::optional<TimeKind> loss;  // of at least least_loss; none: the setting alone is enough
    std::string_view text;
};

constexpr Rule setting_rules[] = {
    {"anomaly_detection", "anomaly_detection", "true", {}, "anomaly detection is on: switch it off when not debugging"},
    {"launch_blocking",
     "CUDA_LAUNCH_BLOCKING",
     "1",
     {},
     "CUDA_LAUNCH_BLOCKING=1 makes each launch wait for its kernel: unset it"},
    {"distributed_debug",
     "TORCH_DISTRIBUTED_DEBUG",
     "DETAIL",
     {},
     "TORCH_DISTRIBUTED_DEBUG=DETAIL checks each collective by another one: unset it"},
    {"nccl_debug", "NCCL_DEBUG", "TRACE", {}, "NCCL_DEBUG=TRACE writes a line for each call: WARN is enough"},
    {"deterministic",
     "deterministic_algorithms",
     "true",
     {},
     "deterministic algorithms are on, which are slower: switch them off unless the run must be repeatable"},
    {"cudnn_deterministic",
     "cudnn_deterministic",
     "true",
     {},
     "cudnn.deterministic is on, which keeps convolutions from faster algorithms: switch it off unless the run must be "
     "repeatable"},
    {"pin_memory", "loader_pin_memory", "false", TimeKind::host_to_device,
     "pin_memory is off and copies to the device take {}: pin_memory=True, and non_blocking=True in the copies"},
    {"num_workers", "loader_num_workers", "0", TimeKind::data,
     "the loader has no workers and loading takes {}: num_workers above 0"},
    {"persistent_workers", "loader_persistent_workers", "false", TimeKind::data,
     "persistent_workers is off and loading takes {}: persistent_workers=True, else workers start again at each epoch"},
    {"compile", "compiled", "false", TimeKind::host_late,
     "the model is not compiled and the device waits for its host {} of the time: torch.compile"},
    {"optimizer", "optimizer_fused", "false", TimeKind::host_late,
     "the optimizer is not fused and the device waits for its host {} of the time: fused=True"},
    {"find_unused_parameters",
     "ddp_find_unused_parameters",
     "true",
     {},
     "find_unused_parameters is on: DDP walks through the graph in each step, needed only where some parameters get no "
     "gradient"},
    {"backward_prefetch", "fsdp_backward_prefetch", "none", TimeKind::transfer,
     "backward_prefetch is off and transfers take {}: BackwardPrefetch.BACKWARD_PRE"},
    {"attention", "attention", "eager", {}, "attention is eager: attn_implementation='sdpa' or flash attention"},
    {"flash_sdp",
     "flash_sdp",
     "false",
     {},
     "flash attention is switched off: torch.backends.cuda.enable_flash_sdp(True)"},
};

double share_of(const std::vector<TimeLoss>& losses, TimeKind piece) {
    const auto found =
        std::find_if(losses.begin(), losses.end(), [&](const TimeLoss& loss) { return loss.piece == piece; });
    return found == losses.end() ? 0 : found->share;
}

std::optional<std::string> apply(const Rule& rule, const JobSettings& settings, const std::vector<TimeLoss>& losses) {
    if (settings.value_of(rule.setting) != rule.value) return std::nullopt;
    if (!rule.loss) return std::string(rule.text);
    const double share = share_of(losses, *rule.loss);
    if (share < least_loss) return std::nullopt;
    return fmt::format(fmt::runtime(rule.text), format_percent(share));
}

std::optional<std::string> advise_on_matmuls(const JobSettings& settings) {
    const bool is_full = settings.value_of("matmul_precision") == "highest" && settings.value_of("tf32") != "true";
    const std::string_view products = settings.value_of("matmul_dtype");
    const bool is_float32 = products == "float32" || (products.empty() && settings.value_of("autocast") == "none" &&
                                                      settings.value_of("parameters") == "float32");
    if (!is_full || !is_float32 || settings.value_of("device") != "cuda") return std::nullopt;
    return "matmuls run in float32 without TF32: torch.set_float32_matmul_precision('high'), or autocast to bfloat16";
}

/// For devices that have a choice.
std::optional<std::string> advise_on_convolutions(const JobSettings& settings, std::string_view setting,
                                                  std::string_view value, std::string_view text) {
    const bool has_choice = !settings.value_of("convolutions").empty() && settings.value_of("device") == "cuda";
    return has_choice && settings.value_of(setting) == value ? std::optional<std::string>(text) : std::nullopt;
}

std::optional<double> number_of(const JobSettings& settings, std::string_view name) {
    return parse_number<double>(settings.value_of(name));
}

std::optional<std::string> advise_on_threads(const JobSettings& settings) {
    const auto threads = number_of(settings, "threads");
    const auto ranks = number_of(settings, "ranks_on_host");
    const auto cores = number_of(settings, "cores");
    if (!threads || !ranks || !cores || *threads * *ranks <= *cores) return std::nullopt;
    if (*ranks > *cores)
        return fmt::format("{} ranks on {} cores: fewer ranks, or a host with more cores", *ranks, *cores);
    return fmt::format("{} ranks x {} threads on {} cores: set OMP_NUM_THREADS to at most {}", *ranks, *threads, *cores,
                       std::floor(*cores / *ranks));
}

}  // namespace

std::vector<SettingAdvice> advise_on(const JobSettings& settings, const std::vector<TimeLoss>& losses) {
    std::vector<SettingAdvice> advice;
    const auto add = [&](std::string_view id, std::optional<std::string> text) {
        if (text) advice.push_back({id, std::move(*text)});
    };
    for (const Rule& rule : setting_rules) add(rule.id, apply(rule, settings, losses));
    add("float32_matmul", advise_on_matmuls(settings));
    add("channels_last",
        advise_on_convolutions(settings, "convolutions", "contiguous",
                               "convolutions are not channels_last: memory_format=torch.channels_last for "
                               "model and batch"));
    add("cudnn_benchmark",
        advise_on_convolutions(settings, "cudnn_benchmark", "false",
                               "cudnn.benchmark is off: with shapes that stay the same, it finds faster "
                               "convolutions"));
    add("threads", advise_on_threads(settings));
    return advice;
}

}  // namespace cep::tool
