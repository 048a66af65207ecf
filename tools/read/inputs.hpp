// SPDX-License-Identifier: Apache-2.0
//
// Inputs: from the arguments of a command to the list of files to read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cep::tool {

struct InputFile {
    std::string path;  // as shown to the user; "-" is standard input
    std::uint64_t size_bytes = 0;
    std::optional<std::int64_t> name_rank;  // <r> of cuda_events_rank_<r>.jsonl
    std::string copy{};                     // a file that has the contents of a stream; "" for none

    [[nodiscard]] bool is_standard_input() const { return path == "-"; }
};

struct InputSet {
    std::vector<InputFile> files;
    std::vector<std::string> unusable;  // "PATH: why", one for each input that cannot be used
    std::uint64_t repeated_files = 0;   // the same file named more than once; read once
    std::uint64_t size_bytes = 0;
    std::string list;  // the file that names them; "" for none
};

/// Which files of a directory are inputs.
struct NamePattern {
    bool (*matches)(std::string_view path);
    std::string_view in_words;         // "*.json"
    std::string_view inner_directory;  // where to look too if there are none; "": nowhere
};

/// Expands files, directories, globs and "-"; reads more of them, one a line, or each up to a NUL, from
/// `files_from` unless it is empty.
/// Files come ordered by directory, then rank, then name. Throws UsageError if "-" is used twice.
[[nodiscard]] InputSet find_inputs(const std::vector<std::string>& arguments, const std::string& files_from);
/// The same for files with other names.
[[nodiscard]] InputSet find_inputs(const std::vector<std::string>& arguments, const std::string& files_from,
                                   const NamePattern& names);

/// Standard input, pipes and devices can be read only once, unless there is a copy.
[[nodiscard]] bool can_be_read_twice(const InputFile& file);

/// The rank in a rank file's name, compressed or not; nothing for another name.
[[nodiscard]] std::optional<std::int64_t> rank_of_file_name(std::string_view path);

}  // namespace cep::tool
