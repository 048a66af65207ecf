// SPDX-License-Identifier: Apache-2.0
#include "read/line_judge.hpp"

namespace cep::tool {
namespace {

using namespace std::string_view_literals;

constexpr auto byte_order_mark = "\xef\xbb\xbf"sv;
constexpr int max_salvage_tries = 64;

bool is_blank(std::string_view text) {
    return text.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

void LineJudge::take_line(std::string_view text, bool complete) {
    ++report_.lines;
    if (report_.lines == 1 && text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (is_blank(text)) return;
    if (text.front() == '\0' || text.back() == '\0') return read_line_with_nuls(text, complete);
    if (!parse(text)) skip_or_salvage(text, complete);
}

void LineJudge::take_too_long_line(bool complete) {
    ++report_.lines;
    skip("the line is too long", complete);
}

// A machine that went down leaves a block of NULs where the file system had not written yet.
void LineJudge::read_line_with_nuls(std::string_view text, bool complete) {
    const std::size_t first = text.find_first_not_of('\0');
    if (first == std::string_view::npos) {
        report_.cut_off |= !complete;
        return report_.add_damage(report_.lines, "NUL bytes instead of rows");
    }
    const std::string_view inner = text.substr(first, text.find_last_not_of('\0') + 1 - first);
    // Parsed text must be followed by bytes that belong to no value, and NULs are that.
    if (!parse(inner)) return skip_or_salvage(inner, complete);
    report_.cut_off |= !complete && text.back() == '\0';
    report_.add_damage(report_.lines, first > 0 ? "NUL bytes before a row" : "NUL bytes after a row");
}

bool LineJudge::parse(std::string_view text) {
    const Row* row = parser_->parse(text);
    if (row != nullptr) give(*row);
    return row != nullptr;
}

bool LineJudge::parse_known(std::string_view text) {
    const Row* row = parser_->parse(text);
    if (row == nullptr || row->type == RowType::unknown) return false;
    give(*row);
    return true;
}

void LineJudge::skip_or_salvage(std::string_view text, bool complete) {
    const std::string why = parser_->why();
    if (!salvage(text)) skip(why, complete);
}

void LineJudge::skip(const std::string& why, bool complete) {
    report_.cut_off |= !complete;
    report_.skipped_rows += complete;
    report_.add_damage(report_.lines, complete ? why : "cut off in the middle of a row");
}

// After a crash in the middle of a write, a restarted job appends its first row to the broken line. That row is
// intact and is kept; only the piece before it is lost.
bool LineJudge::salvage(std::string_view text) {
    std::size_t at = text.find("{\"", 1);
    for (int tries = 0; at != std::string_view::npos && tries < max_salvage_tries; ++tries) {
        if (parse_known(text.substr(at))) {
            ++report_.skipped_rows;
            report_.add_damage(report_.lines, "a broken row, with an intact one behind it on the same line");
            return true;
        }
        at = text.find("{\"", at + 1);
    }
    return false;
}

}  // namespace cep::tool
