// SPDX-License-Identifier: Apache-2.0
//
// Trace text: the bytes of a trace as a window that moves, and where values end in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "read/byte_source.hpp"

namespace cep::kernels {

/// Where a value ends.
struct ValueEnd {
    enum class Why : std::uint8_t {
        whole,   // `at` is the byte behind it
        cut,     // the bytes end first
        broken,  // a line ends inside a string, which JSON does not allow
    };
    const char* at = nullptr;
    Why why = Why::cut;
};

/// Bytes that must be readable behind every text given to the functions below.
inline constexpr std::size_t text_padding_bytes = 64;

/// The end of the object or array that begins at `at`. Counts brackets outside strings, 64 bytes at a time.
[[nodiscard]] ValueEnd find_nested_end(const char* at, const char* end);
/// The end of any value.
[[nodiscard]] ValueEnd find_value_end(const char* at, const char* end);
[[nodiscard]] const char* skip_blanks(const char* at, const char* end);

/// The text between the quotes; "" for a value that is no string.
[[nodiscard]] std::string_view inside_quotes(std::string_view value);

/// The bytes of a trace that are in memory.
class TraceWindow : public tool::ByteWindow {
  public:
    // Small enough to stay in a core's cache until its events are processed.
    static constexpr std::size_t block_bytes = std::size_t{256} << 10;

    TraceWindow(tool::ByteSource& source, tool::Progress& progress) : ByteWindow(source, progress, block_bytes) {}

    /// Moves `at` to the next byte that is not blank. '\0' at the end.
    char peek();
    /// Takes the value at `at`, whatever its length, and moves `at` behind it.
    ValueEnd take_value(std::string_view& value);
};

}  // namespace cep::kernels
