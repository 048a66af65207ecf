// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target: on every line that the row reader reads by a template, it agrees with the row parser.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "reader_and_parser.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace cep::tool;
    ReaderAndParser both;
    std::string_view rest(reinterpret_cast<const char*>(data), size);
    while (!rest.empty()) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        if (both.read(line) == ReaderAndParser::Outcome::differs) std::abort();
        rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    }
    return 0;
}
