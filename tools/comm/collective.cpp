// SPDX-License-Identifier: Apache-2.0
#include "comm/collective.hpp"

#include <algorithm>

#include "schema.hpp"

namespace cep::comm {
namespace {

struct Words {
    std::string_view words;
    Operation operation;
};

// The longest that is found decides, and of equally long ones the first: "reduce scatter" is no reduce.
constexpr Words known_words[] = {
    {"all reduce", Operation::all_reduce},
    {"allreduce", Operation::all_reduce},
    {"grad sync", Operation::all_reduce},
    {"gradient sync", Operation::all_reduce},
    {"sync grads", Operation::all_reduce},
    {"sync gradients", Operation::all_reduce},
    {"all gather", Operation::all_gather},
    {"allgather", Operation::all_gather},
    {"allgatherv", Operation::all_gather},
    {"reduce scatter", Operation::reduce_scatter},
    {"reducescatter", Operation::reduce_scatter},
    {"all to all", Operation::all_to_all},
    {"alltoall", Operation::all_to_all},
    {"alltoallv", Operation::all_to_all},
    {"all2all", Operation::all_to_all},
    {"a2a", Operation::all_to_all},
    {"broadcast", Operation::broadcast},
    {"bcast", Operation::broadcast},
    {"reduce", Operation::reduce},
    {"gather", Operation::gather},
    {"scatter", Operation::scatter},
    {"send recv", Operation::send_recv},
    {"sendrecv", Operation::send_recv},
    {"send", Operation::send_recv},
    {"isend", Operation::send_recv},
    {"recv", Operation::send_recv},
    {"irecv", Operation::send_recv},
    {"p2p", Operation::send_recv},
    {"barrier", Operation::barrier},
};

bool is_end_of_kind(char c) {
    return c == '.' || c == ':' || c == '[' || c == '(' || c == '/' || (c >= '0' && c <= '9');
}

}  // namespace

Operation operation_of_name(std::string_view name) {
    char buffer[schema::detail::normalized_capacity] = {};
    const std::string_view words(buffer, schema::detail::normalize(name, buffer));
    const Words* best = nullptr;
    for (std::size_t at = 1; at < words.size(); at = words.find(' ', at) + 1) {
        const std::string_view rest = words.substr(at);
        for (const Words& known : known_words) {
            const std::size_t size = known.words.size();
            if (size >= rest.size() || rest[size] != ' ' || !rest.starts_with(known.words)) continue;
            const bool is_longer = best == nullptr || size > best->words.size();
            if (is_longer || (size == best->words.size() && &known < best)) best = &known;
        }
    }
    return best != nullptr ? best->operation : Operation::other;
}

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

std::string group_kind(std::string_view group) {
    const auto* const end = std::find_if(group.begin(), group.end(), is_end_of_kind);
    std::string kind(group.begin(), end);
    while (!kind.empty() && (kind.back() == '_' || kind.back() == '-')) kind.pop_back();
    return kind;
}

}  // namespace cep::comm
