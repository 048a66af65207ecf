// SPDX-License-Identifier: Apache-2.0
#include "comm/prediction.hpp"

#include <bit>

namespace cep::comm {

std::optional<double> bus_factor(Operation operation, std::uint64_t ranks) {
    if (ranks < 2) return std::nullopt;
    const auto n = static_cast<double>(ranks);
    switch (operation) {
        case Operation::all_reduce:
            return 2 * (n - 1) / n;
        case Operation::all_gather:
        case Operation::reduce_scatter:
        case Operation::all_to_all:
        case Operation::gather:
        case Operation::scatter:
            return (n - 1) / n;
        case Operation::broadcast:
        case Operation::reduce:
        case Operation::send_recv:
            return 1.0;
        default:
            return std::nullopt;
    }
}

std::optional<double> hops(Operation operation, Algorithm algorithm, std::uint64_t ranks) {
    if (!bus_factor(operation, ranks)) return std::nullopt;
    if (operation == Operation::send_recv) return 1.0;
    const std::uint64_t one_way = algorithm == Algorithm::ring ? ranks - 1 : std::bit_width(ranks - 1);
    return static_cast<double>(operation == Operation::all_reduce ? 2 * one_way : one_way);
}

std::optional<double> predict_ms(const TransferFit& fit, Operation operation, std::uint64_t ranks, Algorithm algorithm,
                                 double bytes, std::uint64_t world) {
    const auto hops_measured = hops(operation, algorithm, ranks);
    const auto hops_wanted = hops(operation, algorithm, world);
    if (!hops_measured || !hops_wanted || !fit.beta_gb_per_s) return std::nullopt;
    const double alpha_ms = fit.alpha_us / 1e3 * *hops_wanted / *hops_measured;
    const double sent = *bus_factor(operation, world) / *bus_factor(operation, ranks);
    return alpha_ms + bytes / (*fit.beta_gb_per_s * 1e6) * sent;
}

}  // namespace cep::comm
