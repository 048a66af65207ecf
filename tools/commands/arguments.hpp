// SPDX-License-Identifier: Apache-2.0
//
// Arguments: the options that a command takes. Only arguments.cpp and what shows help include CLI11, which takes 10 s
// to compile.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
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

/// One option or argument of a command, which the application owns.
class Option {
  public:
    explicit Option(CLI::Option* option) : option_(option) {}

    /// What stands for the value in the help, such as "FILE".
    Option& value(const std::string& name);
    Option& check(const Check& check);
    Option& description(const std::string& text);
    Option& required();
    /// May be given again, each time with one value.
    Option& repeated();
    Option& separated_by(char delimiter);
    Option& excludes(const Option& other);
    /// Leaves it out of the help.
    Option& hidden();
    [[nodiscard]] bool is_given() const;
    /// "--output".
    [[nodiscard]] std::string name() const;

  private:
    CLI::Option* option_;
};

class Arguments {
  public:
    explicit Arguments(CLI::App& app) : app_(app) {}

    /// `names`: "-o,--output", or "INPUT" of an argument. Defined for the types of values that commands have.
    template <typename Value>
    Option add_option(const std::string& names, Value& value, const std::string& help = "");
    Option add_option_function(const std::string& names, const std::function<void(const std::string&)>& take,
                               const std::string& help);
    Option add_flag(const std::string& names, bool& flag, const std::string& help);
    Option add_flag_callback(const std::string& names, const std::function<void()>& take, const std::string& help);
    [[nodiscard]] Option get_option(const std::string& name);
    void remove_option(const std::string& name);
    /// The help ends with them.
    void set_examples(const std::string& examples);
    [[nodiscard]] CLI::App& app() { return app_; }

  private:
    CLI::App& app_;
};

/// Makes the options of a command refuse an empty value, as of a variable that is not set, and those that take an
/// unsigned number a negative one.
void refuse_odd_values(CLI::App& command);

}  // namespace cep::cli
