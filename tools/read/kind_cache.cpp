// SPDX-License-Identifier: Apache-2.0
#include "read/kind_cache.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace cep::tool {
namespace {

// Names differ at their ends ("layer_17"), and in length.
std::size_t place_of(std::string_view name) {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    const std::size_t size = std::min<std::size_t>(name.size(), sizeof begin);
    if (size > 0) {
        std::memcpy(&begin, name.data(), size);
        std::memcpy(&end, name.data() + name.size() - size, size);
    }
    const std::uint64_t hash = (begin ^ (end * 3) ^ name.size()) * 0x9e3779b97f4a7c15U;
    return static_cast<std::size_t>(hash >> 56);
}

}  // namespace

schema::Kind KindCache::of(std::string_view name) {
    Entry& entry = entries_[place_of(name)];
    if (entry.name != name) {
        entry.name = name;
        entry.kind = schema::infer_kind(name);
    }
    return entry.kind;
}

}  // namespace cep::tool
