// SPDX-License-Identifier: Apache-2.0
//
// Rank files: buffers rows, and appends them to the files of thousands of ranks, of which few are open at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "simulate/item.hpp"
#include "simulate/job.hpp"
#include "simulate/layout.hpp"
#include "simulate/random.hpp"

namespace cep::simulation {

/// UNIX time of the job's start.
inline constexpr std::int64_t job_start_unix_ns = 1'763'700'000'000'000'000;

struct HostClock {
    std::int64_t offset_ns = 0;  // at the job's start
    double drift_ppm = 0;

    /// `true_ns` counts from the job's start.
    [[nodiscard]] std::int64_t unix_ns(std::int64_t true_ns) const {
        const auto drift_ns = static_cast<std::int64_t>(drift_ppm * 1e-6 * static_cast<double>(true_ns));
        return job_start_unix_ns + true_ns + offset_ns + drift_ns;
    }
};

/// The clock of each host.
[[nodiscard]] inline std::vector<HostClock> make_host_clocks(const Job& job, const Layout& layout) {
    const Random random(job.seed);
    std::vector<HostClock> clocks(layout.hosts());
    for (std::size_t host = 0; host < clocks.size(); ++host) {
        const double offset = 2.0 * random.uniform(Stream::clock_offset, host) - 1.0;
        const double drift = 2.0 * random.uniform(Stream::clock_drift, host) - 1.0;
        clocks[host].offset_ns = static_cast<std::int64_t>(offset * job.clock_skew_ms * 1e6);
        if (job.clock_drift_ppm > 0) clocks[host].drift_ppm = drift * job.clock_drift_ppm;
    }
    return clocks;
}

/// The numbers of rows in a rank's file.
struct RowCounts {
    std::uint64_t spans = 0;
    std::uint64_t counters = 0;
    std::uint64_t marks = 0;
    std::uint64_t dropped_spans = 0;

    [[nodiscard]] std::uint64_t written() const { return spans + counters + marks; }
    void add(const RowCounts& other);
};

/// What the rows of all ranks share: names as JSON strings.
class RowTexts {
  public:
    explicit RowTexts(const Layout& layout);

    [[nodiscard]] std::string_view group(std::uint32_t group) const { return groups_[group]; }
    [[nodiscard]] const std::pair<std::string, schema::Kind>& name(Name name) const {
        return names_[static_cast<std::size_t>(name)];
    }

  private:
    std::array<std::pair<std::string, schema::Kind>, name_count> names_;
    std::vector<std::string> groups_;
};

/// The rows of one rank.
class RankRows {
  public:
    RankRows(const Layout& layout, std::size_t rank, const HostClock& clock);

    [[nodiscard]] std::string run(const Job& job, const Layout& layout) const;
    [[nodiscard]] std::string stats(const RowCounts& counts, std::int64_t step, std::int64_t now_ns) const;
    /// Appends the row of an item.
    void write(std::string& out, const Item& item, const RowTexts& texts) const;

  private:
    std::size_t rank_;
    HostClock clock_;
    std::string rank_text_;
    std::int32_t device_;
};

inline constexpr const char* truth_file_name = "truth.json";

/// Removes an old truth, and with `force` old rank files. Without `force`, throws UsageError where there are some.
void prepare_directory(const std::string& directory, bool force);

class RankFiles {
  public:
    RankFiles(const Job& job, const Layout& layout, const std::vector<HostClock>& clocks, const std::string& directory);
    RankFiles(const RankFiles&) = delete;
    RankFiles& operator=(const RankFiles&) = delete;

    // Different ranks may be written by different threads at once. Ranks that are missing write nothing.
    void begin(std::size_t rank);
    void write(std::size_t rank, const std::vector<Item>& items);
    void end(std::size_t rank, std::int64_t now_ns);

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
