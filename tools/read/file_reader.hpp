// SPDX-License-Identifier: Apache-2.0
//
// Reading a file: its rows to a sink, its damage to a report. Files are independent of each other, so that they can
// be read in parallel: a sink and a report belong to one file.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/progress.hpp"
#include "read/block_reader.hpp"
#include "read/file_report.hpp"
#include "read/inputs.hpp"
#include "read/line_validator.hpp"
#include "read/row.hpp"
#include "read/row_reader.hpp"

namespace cep::tool {

struct BlockSizes {
    std::size_t block_bytes = BlockReader::default_block_bytes;
    std::size_t line_limit_bytes = BlockReader::default_line_limit_bytes;
};

/// A block whose rows were scanned before its turn to deliver.
struct ScannedBlock {
    struct Line {
        std::string_view text;          // none behind the last line
        std::uint32_t blank_lines = 0;  // in front of it
        bool is_row = false;            // the next of the rows; else to be parsed when it is delivered
    };

    Block block;
    std::vector<Line> lines;
    std::vector<Row> rows;
};

/// The state of one reading thread, for all files that it reads.
struct ReadingThread {
    RowReader reader;
    std::unique_ptr<ScannedBlock> block;
};

/// Reads one file to its end, by one thread or by several: they read blocks in turn, scan them in
/// parallel, and deliver the rows to the sink in order. Damage in the file is reported, never thrown.
class FileReader {
  public:
    FileReader(const InputFile& file, RowSink& sink, Progress& progress, const BlockSizes& sizes = {});

    /// Reads with this thread until nothing is left to do. The file is read when all threads have returned. An
    /// exception of the sink is thrown in one of the threads; the others then return early.
    void work(ReadingThread& thread);
    /// Makes all threads return soon.
    void abandon();
    /// Call once, after all work() calls.
    [[nodiscard]] FileReport finish();

  private:
    using OwnBlock = std::unique_ptr<ScannedBlock>;
    static constexpr std::size_t max_waiting = 32;

    bool read_block(Block& block, std::uint64_t& index);
    OwnBlock spare_block();
    bool begin_turn(std::uint64_t index);
    void end_turn(RowReader& reader);
    void begin_block(const Block& block, RowReader& reader);
    void give(const ScannedBlock& block, RowReader& reader);
    void give_directly(ReadingThread& thread);
    void stop_if_given_up();
    void wait_for_turn(std::uint64_t index, ReadingThread& thread);

    const InputFile& file_;
    Progress& progress_;
    BlockSizes sizes_;
    LineValidator validator_;  // of the thread whose turn it is
    std::atomic<bool> abandoned_{false};

    std::mutex read_mutex_;  // held while a block is read
    std::unique_ptr<ByteSource> source_;
    std::unique_ptr<BlockReader> blocks_;
    std::uint64_t next_read_ = 0;
    std::uint64_t bytes_taken_ = 0;
    bool all_read_ = false;
    std::string unreadable_;

    std::mutex turn_mutex_;  // guards whose turn it is to deliver rows; held briefly
    std::condition_variable turn_passed_;
    std::uint64_t next_turn_ = 0;
    bool in_turn_ = false;
    std::map<std::uint64_t, OwnBlock> waiting_;
    std::vector<OwnBlock> spare_;  // to be reused
};

}  // namespace cep::tool
