// SPDX-License-Identifier: Apache-2.0
//
// Rank files: buffers rows, and appends them to the files of thousands of ranks, of which few are open at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "simulate/host_clocks.hpp"
#include "simulate/item.hpp"
#include "simulate/job.hpp"
#include "simulate/layout.hpp"
#include "simulate/row_text.hpp"

namespace cep::simulation {

inline constexpr const char* truth_file_name = "truth.json";

/// Removes an old truth, and with `force` old rank files. Without `force`, throws UsageError where there are some.
void prepare_directory(const std::string& directory, bool force);

struct CutFile {
    std::size_t rank = 0;
    std::string path;
    std::uint64_t kept_bytes = 0;
    std::uint64_t lost_rows = 0;  // the one that is cut included
};

class RankFiles {
  public:
    RankFiles(const Job& job, const Layout& layout, const std::vector<HostClock>& clocks, const std::string& directory);
    RankFiles(const RankFiles&) = delete;
    RankFiles& operator=(const RankFiles&) = delete;

    // Different ranks may be written by different threads at once. Ranks that are missing write nothing.
    void begin(std::size_t rank);
    void write(std::size_t rank, const std::vector<Item>& items);
    void end(std::size_t rank, std::int64_t now_ns);

    /// Cuts as many files as the job asks for.
    [[nodiscard]] std::vector<CutFile> cut_files() const;
    [[nodiscard]] RowCounts total() const;
    [[nodiscard]] std::uint64_t files() const;
    /// The size of a rank's rows before compression.
    [[nodiscard]] std::uint64_t text_bytes(std::size_t rank) const { return files_[rank].text_bytes; }

  private:
    struct File {
        std::unique_ptr<RankRows> rows;  // nullptr: missing
        std::string path;
        std::string text;              // rows that are not written yet
        std::uint64_t text_bytes = 0;  // of those that are
        RowCounts counts;
    };

    [[nodiscard]] bool is_dropped(std::size_t rank, const Item& item) const;
    void flush(File& file) const;

    const Job& job_;
    const Layout layout_;
    const RowTexts texts_;
    std::size_t buffer_bytes_;
    std::vector<File> files_;
};

}  // namespace cep::simulation
