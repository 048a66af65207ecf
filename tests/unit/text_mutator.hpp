// SPDX-License-Identifier: Apache-2.0
//
// Random changes of texts, the same in every run: what a reader must take or refuse, and never choke on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>

namespace cep::test {

class TextMutator {
  public:
    /// `pieces` are inserted as they are: what means something to the reader.
    explicit TextMutator(std::span<const std::string_view> pieces) : pieces_(pieces) {}

    /// Below `limit`, which is not 0.
    [[nodiscard]] std::size_t below(std::size_t limit) { return random_() % limit; }
    [[nodiscard]] std::uint64_t any_bits() { return random_(); }

    [[nodiscard]] std::string mutated(std::string text, std::size_t changes) {
        for (; changes > 0; --changes) change(text);
        return text;
    }

  private:
    void change(std::string& text) {
        const std::size_t at = below(text.size() + 1);
        const std::size_t length = below(6);
        switch (below(5)) {
            case 0:
                text.insert(at, pieces_[below(pieces_.size())]);
                break;
            case 1:
                text.erase(at, length);
                break;
            case 2:
                text.insert(below(text.size() + 1), text.substr(at, 4 * length));
                break;
            case 3:
                if (at < text.size()) text[at] = static_cast<char>(below(256));
                break;
            default:
                if (at < text.size()) text[at] = "0123456789eE+-.\"\\{}[]:, u"[below(25)];
                break;
        }
    }

    std::span<const std::string_view> pieces_;
    std::mt19937_64 random_{20240229};
};

}  // namespace cep::test
