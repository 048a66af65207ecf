// SPDX-License-Identifier: Apache-2.0
#include "estimate/transfers.hpp"

#include <algorithm>

namespace cep::estimate {

using comm::CommModel;
using comm::TransferFit;

Transfers::Transfers(const tool::Job& job, std::uint64_t ranks)
    : ranks_(ranks), report_(comm::make_report(job, comm::CommOptions{})) {}

bool has_latency(const CommModel& model) {
    return model.fit && model.fit->beta_gb_per_s;
}

double time_of(const CommModel& model, double bytes, const TransferFit::Factors& factors) {
    if (has_latency(model)) return model.fit->time_ms(bytes, factors);
    return bytes * factors.byte / 1e6 / model.paid_gb_per_s.value_or(1);
}

bool Transfers::has_name(const CommModel& model, std::string_view name) {
    const tool::Operation operation = tool::operation_of_name(name);
    return model.operation == operation && (operation != tool::Operation::other || model.name == name);
}

double Transfers::times_as_long(std::string_view name, const Growth& growth) const {
    double now_ms = 0;
    double then_ms = 0;
    for (const CommModel& model : report_.models) {
        if (!has_name(model, name)) continue;
        const TransferFit::Factors factors = model.is_launch ? TransferFit::Factors{} : growth(model);
        for (const comm::SizeReport& size : model.sizes) {
            const auto bytes = static_cast<double>(size.point.bytes);
            const auto count = static_cast<double>(size.point.collectives * model.one_in);
            now_ms += count * time_of(model, bytes, {});
            then_ms += count * time_of(model, bytes, factors);
        }
    }
    return now_ms > 0 ? then_ms / now_ms : 1;
}

bool Transfers::is_data_parallel(const CommModel& model) const {
    return model.ranks == ranks_ || model.group == "dp";
}

bool Transfers::is_data_parallel(std::string_view name) const {
    return std::any_of(report_.models.begin(), report_.models.end(),
                       [&](const CommModel& model) { return has_name(model, name) && is_data_parallel(model); });
}

TransferFit::Factors Transfers::growth_with_ranks(const CommModel& model, std::uint64_t ranks) const {
    if (!is_data_parallel(model)) return {};
    return model.growth_in_ring(std::max<std::uint64_t>(1, model.ranks * ranks / ranks_))
        .value_or(TransferFit::Factors{});
}

const CommModel* Transfers::find_of_all(std::string_view name) const {
    const CommModel* found = nullptr;
    for (const CommModel& model : report_.models) {
        if (!has_name(model, name)) continue;
        if (found != nullptr || model.ranks != ranks_ || model.groups != 1 || model.is_launch || model.sizes.empty())
            return nullptr;
        found = &model;
    }
    return found;
}

const CommModel* Transfers::find_unfitted() const {
    const auto found = std::find_if(report_.models.begin(), report_.models.end(),
                                    [](const CommModel& model) { return !model.sizes.empty() && !has_latency(model); });
    return found == report_.models.end() ? nullptr : &*found;
}

}  // namespace cep::estimate
