// SPDX-License-Identifier: Apache-2.0
//
// Reading a file: its rows to a sink, its damage to a report. Files are independent of each other, so that they can
// be read in parallel: a sink and a report belong to one file.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/progress.hpp"
#include "read/block_reader.hpp"
#include "read/file_report.hpp"
#include "read/inputs.hpp"
#include "read/row_reader.hpp"

namespace cep::tool {

struct BlockSizes {
    std::size_t block_bytes = BlockReader::default_block_bytes;
    std::size_t line_limit_bytes = BlockReader::default_line_limit_bytes;
};

/// The state of one reading thread, for all files that it reads.
struct ReadingThread {
    RowReader reader;
    Block block;
};

/// Reads the file to its end, or until it is abandoned. Damage in it is reported, never thrown; exceptions of the sink
/// are thrown on.
[[nodiscard]] FileReport read_file(const InputFile& file, RowSink& sink, ReadingThread& thread, Progress& progress,
                                   const BlockSizes& sizes, const std::atomic<bool>& abandoned);

}  // namespace cep::tool
