// SPDX-License-Identifier: Apache-2.0
#include "kernels/trace_inputs.hpp"

#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "base/failure.hpp"
#include "kernels/kernel_name.hpp"

namespace cep::kernels {
namespace {

namespace fs = std::filesystem;

class TraceFinder {
  public:
    void add_argument(const std::string& argument) {
        std::error_code error;
        if (fs::is_directory(argument, error)) {
            add_directory(argument);
        } else if (argument != "-" && !fs::exists(argument, error) && has_wildcard(argument)) {
            add_glob(argument);
        } else {
            files_.push_back(argument);
        }
    }

    void add_list(const std::string& files_from) {
        if (files_from == "-") {
            if (std::find(files_.begin(), files_.end(), "-") != files_.end())
                throw tool::UsageError("standard input (-) can be read only once");
            return add_lines(std::cin);
        }
        std::ifstream list(files_from);
        if (!list) throw tool::UsageError("--files-from " + files_from + ": " + std::strerror(errno));
        add_lines(list);
    }

    tool::InputSet finish() {
        tool::InputSet set = tool::find_inputs(files_, "");
        set.unusable.insert(set.unusable.end(), unusable_.begin(), unusable_.end());
        return set;
    }

  private:
    static bool has_wildcard(const std::string& text) { return text.find_first_of("*?[") != std::string::npos; }

    void add_lines(std::istream& list) {
        for (std::string line; std::getline(list, line);) {
            if (!line.empty() && line.back() == '\r') line.pop_back();
            if (!line.empty()) add_argument(line);
        }
    }

    // A FIFO that was found, not named, could wait for ever.
    void add_found(const std::string& path) {
        std::error_code error;
        if (fs::is_regular_file(path, error)) return files_.push_back(path);
        unusable_.push_back(path + ": not a regular file");
    }

    void add_directory(const std::string& directory) {
        std::error_code error;
        bool any = false;
        for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
            std::error_code not_there;
            if (!is_trace_name(entry.path().filename().native()) || entry.is_directory(not_there)) continue;
            add_found(entry.path().native());
            any = true;
        }
        if (error) {
            unusable_.push_back(directory + ": " + error.message());
        } else if (!any) {
            unusable_.push_back(directory + ": no *.json files, also not *.json.gz or *.json.zst");
        }
    }

    void add_glob(const std::string& pattern) {
        glob_t found{};
        const bool matched = ::glob(pattern.c_str(), GLOB_TILDE, nullptr, &found) == 0;
        for (std::size_t i = 0; matched && i < found.gl_pathc; ++i) {
            std::error_code error;
            if (fs::is_directory(found.gl_pathv[i], error)) {
                add_directory(found.gl_pathv[i]);
            } else {
                add_found(found.gl_pathv[i]);
            }
        }
        ::globfree(&found);
        if (!matched) unusable_.push_back(pattern + ": nothing of this name");
    }

    std::vector<std::string> files_;
    std::vector<std::string> unusable_;
};

std::optional<std::int64_t> rank_of_words(std::string_view text) {
    const std::vector<std::string> words = split_words(text);
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
        const std::string& digits = words[i + 1];
        std::int64_t rank = 0;
        const auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
        if (words[i] == "rank" && error == std::errc{} && last == digits.data() + digits.size()) return rank;
    }
    return std::nullopt;
}

}  // namespace

tool::InputSet find_traces(const std::vector<std::string>& arguments, const std::string& files_from) {
    TraceFinder finder;
    for (const std::string& argument : arguments) finder.add_argument(argument);
    if (!files_from.empty()) finder.add_list(files_from);
    return finder.finish();
}

bool is_trace_name(std::string_view name) {
    return name.ends_with(".json") || name.ends_with(".json.gz") || name.ends_with(".json.zst");
}

std::optional<std::int64_t> rank_of_trace_name(std::string_view path) {
    const std::size_t slash = path.rfind('/');
    const auto rank = rank_of_words(path.substr(slash + 1));
    if (rank || slash == std::string_view::npos) return rank;
    const std::string_view directory = path.substr(0, slash);
    return rank_of_words(directory.substr(directory.rfind('/') + 1));
}

}  // namespace cep::kernels
