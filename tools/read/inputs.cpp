// SPDX-License-Identifier: Apache-2.0
#include "read/inputs.hpp"

#include <fmt/core.h>

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/failure.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "schema.hpp"

namespace cep::tool {
namespace {

namespace fs = std::filesystem;

std::string_view without_suffix(std::string_view text, std::string_view suffix) {
    return text.ends_with(suffix) ? text.substr(0, text.size() - suffix.size()) : text;
}

class InputFinder {
  public:
    explicit InputFinder(const NamePattern& names) : names_(names) {}

    void add_argument(const std::string& argument) {
        if (argument == "-") {
            take_standard_input();
            set_.files.push_back({"-", 0, std::nullopt});
            return;
        }
        if (!add_path(argument, true) && !add_glob(argument))
            set_.unusable.push_back(argument + ": " + std::strerror(ENOENT));
    }

    void add_list(const std::string& files_from) {
        set_.list = files_from;
        if (files_from == "-") {
            take_standard_input();
            return add_names(std::cin, files_from);
        }
        std::ifstream list(files_from);
        if (!list) throw UsageError("--files-from " + files_from + ": " + std::strerror(errno));
        add_names(list, files_from);
    }

    InputSet finish() {
        sort_files();
        for (const InputFile& file : set_.files) set_.size_bytes += file.size_bytes;
        return std::move(set_);
    }

  private:
    void take_standard_input() {
        if (std::exchange(reads_standard_input_, true)) throw UsageError("standard input (-) can be read only once");
    }

    void sort_files() {
        std::map<fs::path, std::vector<InputFile>> folders;
        for (InputFile& file : set_.files) folders[fs::path(file.path).parent_path()].push_back(std::move(file));
        set_.files.clear();
        const auto key_of = [](const InputFile& file) {
            return std::tuple(file.name_rank.value_or(-1),
                              std::string_view(file.path).substr(file.path.rfind('/') + 1));
        };
        for (auto& [folder, files] : folders) {
            std::stable_sort(files.begin(), files.end(),
                             [&key_of](const InputFile& a, const InputFile& b) { return key_of(a) < key_of(b); });
            std::move(files.begin(), files.end(), std::back_inserter(set_.files));
        }
    }

    /// One a line, or, as `find -print0` writes them, each up to a NUL.
    void add_names(std::istream& list, const std::string& files_from) {
        std::string all;
        try {
            all.assign(std::istreambuf_iterator<char>(list), {});
        } catch (const std::ios_base::failure&) {
            throw UsageError("--files-from " + files_from + ": " + std::strerror(errno));
        }
        const char separator = all.find('\0') == std::string::npos ? '\n' : '\0';
        for (std::string_view name : split(all, separator)) {
            if (separator == '\n') name = without_suffix(name, "\r");
            if (!name.empty()) add_argument(std::string(name));
        }
    }

    // False if nothing of that name exists: then it may be a glob. Reading a FIFO could wait for ever. A FIFO that the
    // user names is read: that is how shells pass a process's output.
    bool add_path(const std::string& path, bool is_named) {
        struct stat info {};
        if (::stat(path.c_str(), &info) != 0) {
            if (errno == ENOENT) return false;
            set_.unusable.push_back(path + ": " + std::strerror(errno));
        } else if (S_ISDIR(info.st_mode)) {
            add_directory(path);
        } else if (is_named || S_ISREG(info.st_mode)) {
            add_file(path, info);
        } else {
            set_.unusable.push_back(path + ": not a regular file");
        }
        return true;
    }

    void add_file(const std::string& path, const struct stat& info) {
        const bool regular = S_ISREG(info.st_mode);
        if (regular && !seen_.insert({info.st_dev, info.st_ino}).second) {
            ++set_.repeated_files;
            return;
        }
        set_.files.push_back({path, regular ? static_cast<std::uint64_t>(info.st_size) : 0, rank_of_file_name(path)});
    }

    void add_directory(const std::string& directory) {
        if (add_matching_files(directory)) return;
        const fs::path inner = fs::path(directory) / names_.inner_directory;
        std::error_code error;
        if (!names_.inner_directory.empty() && fs::is_directory(inner, error) && add_matching_files(inner)) return;
        set_.unusable.push_back(directory + ": no " + std::string(names_.in_words) + describe_children(directory));
    }

    [[nodiscard]] bool has_matching_files(const fs::path& directory) const {
        std::error_code error;
        const fs::directory_iterator entries(directory, error);
        return !error && std::any_of(fs::begin(entries), fs::end(entries), [this](const fs::directory_entry& entry) {
            return names_.matches(entry.path().native());
        });
    }

    /// The directories inside of it that have such files, in words; "" for none.
    [[nodiscard]] std::string describe_children(const std::string& directory) const {
        constexpr std::size_t most_named = 3;
        std::set<std::string> children;
        std::error_code error;
        for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
            std::error_code ignored;
            if (!entry.is_directory(ignored)) continue;
            if (has_matching_files(entry) ||
                (!names_.inner_directory.empty() && has_matching_files(entry.path() / names_.inner_directory)))
                children.insert(entry.path().native());
        }
        if (children.empty()) return "";
        std::vector<std::string> named(children.begin(), children.end());
        named.resize(std::min(most_named, named.size()));
        if (children.size() > most_named) named.push_back(format_count(children.size() - most_named) + " more");
        return fmt::format("; there are some in {}", join(named, ", "));
    }

    bool add_matching_files(const fs::path& directory) {
        std::error_code error;
        bool any = false;
        for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
            std::error_code ignored;
            if (names_.matches(entry.path().native()) && !entry.is_directory(ignored))
                any |= add_path(entry.path().native(), false);
        }
        if (!error) return any;
        set_.unusable.push_back(directory.native() + ": " + error.message());
        return true;
    }

    bool add_glob(const std::string& pattern) {
        if (pattern.find_first_of("*?[") == std::string::npos) return false;
        glob_t found{};
        const bool matched = ::glob(pattern.c_str(), GLOB_TILDE, nullptr, &found) == 0;
        for (std::size_t i = 0; matched && i < found.gl_pathc; ++i) add_path(found.gl_pathv[i], false);
        ::globfree(&found);
        return matched;
    }

    const NamePattern& names_;
    InputSet set_;
    std::set<std::pair<dev_t, ino_t>> seen_;
    bool reads_standard_input_ = false;
};

}  // namespace

bool can_be_read_twice(const InputFile& file) {
    std::error_code error;
    return !file.copy.empty() || (!file.is_standard_input() && std::filesystem::is_regular_file(file.path, error));
}

std::optional<std::int64_t> rank_of_file_name(std::string_view path) {
    std::string_view name = path.substr(path.rfind('/') + 1);
    name = without_suffix(without_suffix(name, ".gz"), ".zst");
    if (!name.starts_with(schema::file_prefix) || !name.ends_with(schema::file_suffix)) return std::nullopt;
    name = without_suffix(name.substr(schema::file_prefix.size()), schema::file_suffix);
    const auto rank = parse_number<std::int64_t>(name);
    return rank && *rank >= 0 ? rank : std::nullopt;
}

InputSet find_inputs(const std::vector<std::string>& arguments, const std::string& files_from) {
    static const std::string in_words = fmt::format("{}*{} files", schema::file_prefix, schema::file_suffix);
    return find_inputs(arguments, files_from,
                       {[](std::string_view path) { return rank_of_file_name(path).has_value(); }, in_words,
                        schema::default_directory_name});
}

InputSet find_inputs(const std::vector<std::string>& arguments, const std::string& files_from,
                     const NamePattern& names) {
    InputFinder finder(names);
    for (const std::string& argument : arguments) finder.add_argument(argument);
    if (!files_from.empty()) finder.add_list(files_from);
    return finder.finish();
}

}  // namespace cep::tool
