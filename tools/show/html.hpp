// SPDX-License-Identifier: Apache-2.0
//
// Documents as HTML: the sections of a page. Every text is escaped here; there are no attributes that run or style.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "show/document.hpp"

namespace cep::tool {

/// The text made safe for HTML and XML, between tags and in quoted attributes.
[[nodiscard]] std::string html_text(std::string_view text);

/// The headline, what it rests on, and what to do; "" where the document has none of these.
[[nodiscard]] std::string html_findings(const Document& document);
[[nodiscard]] std::string html_facts(const std::vector<Fact>& facts);
/// All tables that have lines.
[[nodiscard]] std::string html_tables(const Document& document, std::size_t limit);
/// A list; "" for none.
[[nodiscard]] std::string html_notes(const std::vector<std::string>& notes);

}  // namespace cep::tool
