// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_name.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace cep::kernels {
namespace {

constexpr std::string_view anonymous = "(anonymous namespace)";

bool is_lower(char c) {
    return c >= 'a' && c <= 'z';
}
bool is_upper(char c) {
    return c >= 'A' && c <= 'Z';
}
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
bool is_letter_or_digit(char c) {
    return is_lower(c) || is_upper(c) || is_digit(c);
}

bool opens(char c) {
    return c == '<' || c == '(' || c == '[' || c == '{';
}
bool closes(char c) {
    return c == '>' || c == ')' || c == ']' || c == '}';
}

// Behind the bracket that closes the one at `at`; the end where none does. The '>' of "->" closes nothing.
std::size_t skip_brackets(std::string_view text, std::size_t at) {
    std::size_t depth = 0;
    for (; at < text.size(); ++at) {
        if (opens(text[at])) ++depth;
        const bool arrow = text[at] == '>' && at > 0 && text[at - 1] == '-';
        if (closes(text[at]) && !arrow && --depth == 0) return at + 1;
    }
    return text.size();
}

/// Walks over the components of a qualified name.
class NameScanner {
  public:
    explicit NameScanner(std::string_view text) : text_(text) {}

    FunctionName scan() {
        while (at_ < text_.size() && !ended_) step();
        take_component();
        return result_;
    }

  private:
    void step() {
        const std::string_view rest = text_.substr(at_);
        if (rest.starts_with("::")) {
            take_component();
            at_ += 2;
            begin_ = at_;
        } else if (rest.starts_with(anonymous)) {
            at_ += anonymous.size();
        } else if (rest.starts_with("operator") && at_ == begin_) {
            pass_operator();
        } else if (rest.front() == ' ') {
            pass_blank();
        } else if (opens(rest.front())) {
            pass_brackets();
        } else {
            ++at_;
        }
    }

    // "operator()", "operator<": brackets that belong to the name.
    void pass_operator() {
        at_ += std::string_view("operator").size();
        if (text_.substr(at_).starts_with("()")) at_ += 2;
        while (at_ < text_.size() && (text_[at_] == '<' || text_[at_] == '>' || text_[at_] == '-')) ++at_;
    }

    // A blank ends a return type, unless "const" or "[clone …]" follows.
    void pass_blank() {
        const std::string_view rest = text_.substr(at_);
        if (rest.starts_with(" const")) {
            at_ += std::string_view(" const").size();
            return;
        }
        if (rest.starts_with(" [")) {
            ended_ = true;
            return;
        }
        result_ = {};
        pending_ = {};
        ++at_;
        begin_ = at_;
    }

    void pass_brackets() {
        const std::size_t begin = at_;
        at_ = skip_brackets(text_, at_);
        if (text_[begin] == '<' && arguments_.empty() && begin > begin_)
            arguments_ = text_.substr(begin + 1, at_ - begin - 2);
        // Behind its parameters a function ends, or is the scope of what is defined inside it.
        const std::string_view rest = text_.substr(at_);
        const bool goes_on = rest.starts_with("::") || rest.starts_with(" const");
        const bool lambda = text_[begin] == '{';
        if (text_[begin] == '(' && begin > begin_ && !goes_on) ended_ = true;
        if (lambda) is_lambda_ = true;
    }

    void take_component() {
        const std::string_view whole = text_.substr(begin_, at_ > begin_ ? at_ - begin_ : 0);
        const std::string_view own =
            whole.starts_with(anonymous) ? whole : whole.substr(0, whole.find_first_of("<({ "));
        const bool nameless = own.empty() || is_lambda_ || own.starts_with("operator") || own == "type";
        if (!nameless) {
            if (!pending_.empty()) result_.scopes.push_back(pending_);
            pending_ = own;
            if (own != anonymous) {
                result_.own = own;
                result_.arguments = arguments_;
            }
        }
        arguments_ = {};
        is_lambda_ = false;
        begin_ = at_;
    }

    std::string_view text_;
    std::size_t at_ = 0;
    std::size_t begin_ = 0;  // of the component
    std::string_view arguments_;
    std::string_view pending_;  // the last component that has a name; a scope once another follows
    bool is_lambda_ = false;
    bool ended_ = false;
    FunctionName result_;
};

bool begins_word(std::string_view text, std::size_t i) {
    const char before = text[i - 1];
    const char here = text[i];
    if (!is_letter_or_digit(before) || is_digit(before) != is_digit(here)) return true;
    if (!is_upper(here)) return false;
    return is_lower(before) || (is_upper(before) && i + 1 < text.size() && is_lower(text[i + 1]));
}

}  // namespace

FunctionName FunctionName::parse(std::string_view text) {
    FunctionName name = NameScanner(text).scan();
    if (name.own.empty()) name.own = text;
    return name;
}

std::vector<std::string_view> split_arguments(std::string_view arguments) {
    std::vector<std::string_view> split;
    std::size_t begin = 0;
    const auto take = [&](std::size_t end) {
        std::string_view argument = arguments.substr(begin, end - begin);
        while (argument.starts_with(' ')) argument.remove_prefix(1);
        while (argument.ends_with(' ')) argument.remove_suffix(1);
        if (!argument.empty()) split.push_back(argument);
        begin = end + 1;
    };
    for (std::size_t at = 0; at < arguments.size();) {
        if (opens(arguments[at])) {
            at = skip_brackets(arguments, at);
        } else {
            if (arguments[at] == ',') take(at);
            ++at;
        }
    }
    if (begin < arguments.size()) take(arguments.size());
    return split;
}

std::vector<std::string> split_words(std::string_view identifier) {
    std::vector<std::string> words;
    for (std::size_t i = 0; i < identifier.size(); ++i) {
        const char c = identifier[i];
        if (!is_letter_or_digit(c)) continue;
        if (i == 0 || begins_word(identifier, i)) words.emplace_back();
        words.back() += is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
    }
    return words;
}

std::string demangled(const std::string& name) {
    // A demangler's work can grow faster than its input; real names are far shorter.
    constexpr std::size_t max_bytes = 8192;
    if (!name.starts_with("_Z") || name.size() > max_bytes) return name;
    const std::string mangled = name.ends_with(".kd") ? name.substr(0, name.size() - 3) : name;
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> text(
        abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
    return status == 0 && text != nullptr ? std::string(text.get()) : name;
}

}  // namespace cep::kernels
