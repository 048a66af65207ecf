// SPDX-License-Identifier: Apache-2.0
//
// Prediction: what a fitted operation would take with other sizes and other numbers of ranks.
#pragma once

#include <cstdint>
#include <optional>

#include "matching/operation.hpp"
#include "stats/transfer_fit.hpp"

namespace cep::comm {

using tool::Operation;

/// Bus bandwidth over algorithm bandwidth: the share of the bytes that each rank sends, as nccl-tests defines it
/// (doc/PERFORMANCE.md). Nothing for one rank, or an operation that is not known or moves no bytes.
[[nodiscard]] std::optional<double> bus_factor(Operation operation, std::uint64_t ranks);

enum class Algorithm : std::uint8_t { ring, tree };

/// Transfers that follow one another from the first to the last. In a ring: n − 1, of an all-reduce twice as many. In
/// a tree: ⌈log2 n⌉, of an all-reduce twice as many, up and down. (Thakur, Rabenseifner, Gropp, "Optimization of
/// collective communication operations in MPICH", IJHPCA 19(1), 2005; Patarasuk and Yuan, "Bandwidth optimal
/// all-reduce algorithms", JPDC 69(2), 2009; Sanders, Speck, Träff, "Two-tree algorithms", Parallel Computing 35(12),
/// 2009, for the trees that use the whole bandwidth.) Nothing for an operation that is not known.
[[nodiscard]] std::optional<double> hops(Operation operation, Algorithm algorithm, std::uint64_t ranks);

/// The fit was measured with `ranks`. Alpha grows as the hops, and the bytes that a rank sends as bus_factor(); what a
/// link does is taken to stay the same. Nothing where one of these is not known.
[[nodiscard]] std::optional<double> predict_ms(const TransferFit& fit, Operation operation, std::uint64_t ranks,
                                               Algorithm algorithm, double bytes, std::uint64_t world);

}  // namespace cep::comm
