// SPDX-License-Identifier: Apache-2.0
#include "manual/page.hpp"

#include <unistd.h>
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "base/output.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"

namespace cep::tool {
namespace {

namespace fs = std::filesystem;

bool has_name(const Page& page, std::string_view word) {
    if (word == page.file || word == page.file.substr(0, page.file.rfind('.'))) return true;
    const auto names = split(page.names, ' ');
    return std::find(names.begin(), names.end(), word) != names.end();
}

/// Where `meson install` puts pages, and where pip puts those of a wheel, relative to the folder of this command.
constexpr std::array places = {"../share/man", "../../../../../share/man"};

/// Minimised images of Ubuntu have a script in man's place, which shows no page.
bool is_program(const std::string& path) {
    std::array<char, 4> magic{};
    return access(path.c_str(), X_OK) == 0 && std::ifstream(path, std::ios::binary).read(magic.data(), magic.size()) &&
           std::string_view(magic.data(), magic.size()) ==
               "\x7f"
               "ELF";
}

std::string find_man() {
    const char* const path = std::getenv("PATH");
    for (const std::string_view folder : split(path == nullptr ? "" : path, ':')) {
        const std::string man = std::string(folder) + "/man";
        if (is_program(man)) return man;
    }
    return "";
}

std::string find_file(const Page& page) {
    std::error_code error;
    const fs::path command = fs::read_symlink("/proc/self/exe", error);
    for (const char* const place : places) {
        const fs::path file =
            command.parent_path() / place / ("man" + std::string(page.file.substr(page.file.size() - 1))) / page.file;
        for (const char* const ending : {"", ".gz"})
            if (!error && fs::exists(file.string() + ending, error)) return file.lexically_normal().string() + ending;
        error.clear();
    }
    return "";
}

void become_man(const std::string& man, const std::string& file) {
    // This command ignores them, and man would inherit that.
    std::signal(SIGPIPE, SIG_DFL);
    std::signal(SIGXFSZ, SIG_DFL);
    execl(man.c_str(), "man", file.c_str(), static_cast<char*>(nullptr));
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace

const Page* find_page(std::string_view word) {
    const auto pages = manual_pages();
    auto found = std::find_if(pages.begin(), pages.end(), [word](const Page& page) { return page.topic == word; });
    if (found == pages.end())
        found = std::find_if(pages.begin(), pages.end(), [word](const Page& page) { return has_name(page, word); });
    return found == pages.end() ? nullptr : &*found;
}

void show_page(const Page& page) {
    if (is_terminal(STDOUT_FILENO)) {
        const std::string man = find_man();
        const std::string file = find_file(page);
        if (!man.empty() && !file.empty()) become_man(man, file);
    }
    std::string text;
    for (const std::string_view line : page.lines) text.append(line) += '\n';
    write_standard_output(text);
}

}  // namespace cep::tool
