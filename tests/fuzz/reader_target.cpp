// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target: what is read from a file, plain or compressed, does not depend on the size of blocks, or on which lines
// are read by a template.
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "read/byte_source.hpp"
#include "read/file_reader.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t line_limit_bytes = 4096;

/// Writes down all that it gets.
class Notes : public RowSink {
  public:
    void take(const Row& row, RunOfRow run, std::uint64_t line) override {
        notes_ += std::to_string(line) + ' ' + row_type_names[static_cast<std::size_t>(row.type)].data() + ' ';
        notes_.append(row.text).append(row.name).append(row.odd_key).append(row.group);
        for (const auto& number :
             {row.step, row.rank, row.start_ns, row.seq, row.depth, row.stream, row.bytes, row.coll})
            notes_ += number ? std::to_string(*number) + ',' : "-,";
        for (const double number : {row.duration_ms, row.elapsed_ms, row.value, row.lag_ms.value_or(-1)})
            notes_ += std::to_string(std::bit_cast<std::uint64_t>(number)) + ',';
        notes_ += std::to_string(static_cast<int>(row.kind)) + std::to_string(static_cast<int>(row.clock)) + ',' +
                  std::to_string(run.index) + '\n';
    }
    std::string finish(const FileReport& report) {
        notes_ += report.unreadable + ' ' + std::to_string(report.rows) + ' ' + std::to_string(report.lines) + ' ' +
                  std::to_string(report.skipped_rows) + ' ' + std::to_string(report.damage_count) +
                  (report.cut_off ? " cut off\n" : "\n");
        for (const Damage& damage : report.damages) notes_ += std::to_string(damage.line) + ' ' + damage.why + '\n';
        return std::move(notes_);
    }

  private:
    std::string notes_;
};

std::string read_as(const InputFile& file, std::size_t block_bytes) {
    Notes notes;
    Progress progress(0);
    RowReader reader;
    RunTracker runs;
    return notes.finish(
        read_file({file, notes, runs, nullptr}, reader, progress, false, block_bytes, line_limit_bytes));
}

/// Line by line, each with the parser.
std::string read_by_line(const InputFile& file) {
    const std::unique_ptr<ByteSource> source = open_source(file);
    std::string text;
    for (std::size_t count = 1; count > 0;) {
        char bytes[1000];
        count = source->read(bytes, sizeof bytes);
        text.append(bytes, count);
    }
    Notes notes;
    RowReader reader;
    RunTracker runs;
    LineValidator validator(file.path, notes, reader, runs, nullptr);
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t newline = text.find('\n', at);
        const bool complete = newline != std::string::npos;
        std::string line = text.substr(at, newline - at);
        at = complete ? newline + 1 : text.size();
        const std::size_t size = line.size();
        line.append(RowParser::padding_bytes, '\0');
        if (size >= line_limit_bytes) {
            validator.take_too_long_line(complete);
        } else {
            validator.take_line(std::string_view(line).substr(0, size), complete);
        }
    }
    FileReport& report = validator.report();
    if (report.rows == 0 && report.skipped_rows > 0 && !file.name_rank) {
        report.set_no_rank_file();
        return notes.finish(report);
    }
    if (!source->damage().empty()) report.end_early(source->damage());
    return notes.finish(report);
}

void check(const std::string& expected, const std::string& found) {
    if (found == expected) return;
    std::fprintf(stderr, "expected:\n%s\nfound:\n%s\n", expected.c_str(), found.c_str());
    std::abort();
}

}  // namespace
}  // namespace cep::tool

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace cep::tool;
    static const int fd = ::memfd_create("cep-fuzz", MFD_CLOEXEC);
    if (fd < 0 || ::ftruncate(fd, 0) != 0 || ::pwrite(fd, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
    // What is named like a rank file is one, whatever is in it.
    const std::optional<std::int64_t> name_rank = size % 2 == 0 ? std::nullopt : std::optional<std::int64_t>(0);
    const InputFile file{"/proc/self/fd/" + std::to_string(fd), size, name_rank};
    const std::string expected = read_by_line(file);
    for (const std::size_t block_bytes : {16U, 100U, 1000U, 100'000U}) check(expected, read_as(file, block_bytes));
    return 0;
}
