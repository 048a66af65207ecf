// SPDX-License-Identifier: Apache-2.0
//
// Arguments: the options that a command takes. Only arguments.cpp and what shows help include CLI11, which takes 10 s
// to compile.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace cep::cli {

/// What is wrong with a value, or "".
struct Check {
    std::function<std::string(const std::string&)> why_not;
    std::vector<std::string> words{};  // if it takes only these
};

/// For options that take a number above 0.
extern const Check positive_number;
/// For options that take a whole number between these, both included.
[[nodiscard]] Check whole_number_from(std::uint64_t least, std::uint64_t most);
/// For arguments that take one of a few words.
[[nodiscard]] Check one_of(const std::vector<std::string>& words);

/// One option or argument of a command.
struct Option {
    std::string names;         // "-o,--output", or "INPUT" of an argument
    std::string help{};        // what it is about
    std::string value{};       // what stands for the value in the help, such as "FILE"
    Check check{};             // of each value
    char delimiter = '\0';     // between the values of a list; else there is one
    bool is_required = false;  // may not be left out
    bool is_repeated = false;  // may be given again, each time with one value
    bool is_hidden = false;    // is not in the help
};

/// Where the value or the flag goes, or what takes it.
using Target = std::variant<bool*, int*, unsigned*, std::uint64_t*, double*, std::string*, std::vector<std::string>*,
                            std::vector<std::uint64_t>*, std::optional<double>*,
                            std::function<void(const std::string&)>, std::function<void()>>;

class Arguments {
  public:
    explicit Arguments(CLI::App& app) : app_(app) {}

    /// Options that take a text refuse an empty one, and those that take an unsigned number a negative one.
    void add(const Target& target, const Option& option);
    void remove(const std::string& name);
    void set_help(const std::string& name, const std::string& help);
    void exclude(const std::string& name, const std::string& other);
    [[nodiscard]] bool is_given(const std::string& name) const;
    /// The help ends with them.
    void set_examples(const std::string& examples);
    [[nodiscard]] CLI::App& app() { return app_; }

  private:
    CLI::App& app_;
};

}  // namespace cep::cli
