// SPDX-License-Identifier: Apache-2.0
//
// Remarks: what a check has to say of a file or a job.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cep::tool {

/// From good to bad. `incomplete`: measurements are missing; `damaged`: something in the files cannot be trusted.
enum class Severity : std::uint8_t { fine, note, incomplete, damaged };
inline constexpr std::array<std::string_view, 4> severity_names = {"fine", "note", "incomplete", "damaged"};

[[nodiscard]] constexpr std::string_view severity_name(Severity severity) {
    return severity_names[static_cast<std::size_t>(severity)];
}

struct Remark {
    Severity severity = Severity::note;
    std::string code;  // stable, for programs: "cut_off", "rows_skipped", …
    std::string message;
    std::uint64_t line = 0;  // 0: the whole file
};

/// Remarks in the order in which they are made. Of one code it keeps max_of_code, and counts the others.
class Remarks {
  public:
    static constexpr std::uint64_t max_of_code = 100;

    void add(Severity severity, std::string_view code, std::string message, std::uint64_t line = 0);
    void note(std::string_view code, std::string message, std::uint64_t line = 0) {
        add(Severity::note, code, std::move(message), line);
    }
    /// Calls `describe` for the message only if it is kept.
    template <std::invocable Describe>
    void note(std::string_view code, const Describe& describe) {
        if (count(Severity::note, code)) findings_.push_back({Severity::note, std::string(code), describe(), 0});
    }
    /// With a last finding for each code that has more.
    [[nodiscard]] std::vector<Remark> finish();

  private:
    struct Counted {
        Severity severity = Severity::fine;
        std::uint64_t count = 0;
    };

    /// Returns whether the finding is kept.
    bool count(Severity severity, std::string_view code);

    std::vector<Remark> findings_;
    std::map<std::string, Counted> counts_;
};

[[nodiscard]] Severity worst_of(const std::vector<Remark>& findings);

}  // namespace cep::tool
