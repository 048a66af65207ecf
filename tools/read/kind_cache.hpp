// SPDX-License-Identifier: Apache-2.0
//
// Kinds inferred from names: a job has few names and many rows.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "schema.hpp"

namespace cep::tool {

class KindCache {
  public:
    [[nodiscard]] schema::Kind of(std::string_view name);

  private:
    static constexpr schema::Kind kind_of_nothing = schema::infer_kind("");
    struct Entry {
        std::string name;
        schema::Kind kind = kind_of_nothing;
    };
    static constexpr std::size_t entries = 256;  // a name has one place, and the last one there stays
    std::array<Entry, entries> entries_;
};

}  // namespace cep::tool
