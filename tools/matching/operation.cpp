// SPDX-License-Identifier: Apache-2.0
#include "matching/operation.hpp"

#include "schema.hpp"

namespace cep::tool {
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

}  // namespace cep::tool
