// SPDX-License-Identifier: Apache-2.0
//
// Members of structs, and their keys in JSON: a table of them serves who reads and who writes.
#pragma once

#include <string_view>
#include <tuple>

namespace cep::tool {

template <typename Struct, typename Value>
struct Member {
    std::string_view key;
    Value Struct::*member;
};

template <typename Struct, typename Value>
[[nodiscard]] constexpr Member<Struct, Value> member(std::string_view key, Value Struct::*pointer) {
    return {key, pointer};
}

/// Calls `use(member)` for each member of a tuple of them, in their order.
template <typename Members, typename Use>
constexpr void for_each_member(const Members& members, Use use) {
    std::apply([&use](const auto&... each) { (use(each), ...); }, members);
}

}  // namespace cep::tool
