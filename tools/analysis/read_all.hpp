// SPDX-License-Identifier: Apache-2.0
//
// Reading all inputs, each into a sink of its own. This is the one place that says in which order files are read.
#pragma once

#include <memory>
#include <utility>

#include "coverage.hpp"
#include "file_reader.hpp"
#include "inputs.hpp"
#include "progress.hpp"

namespace cep::analysis {

/// `make_sink(file, index)` returns a std::unique_ptr to a RowSink; `take(sink, report)` gets it back when its file is
/// read, in the order of the files.
template <typename MakeSink, typename Take>
InputCounts read_all(const InputSet& set, MakeSink make_sink, Take take) {
    InputCounts counts;
    counts.add(set);
    Progress progress(set.size_bytes);
    for (std::size_t i = 0; i < set.files.size(); ++i) {
        auto sink = make_sink(set.files[i], i);
        FileReport report = read_file(set.files[i], *sink, progress);
        counts.add(report);
        take(std::move(*sink), std::move(report));
    }
    progress.clear();
    return counts;
}

}  // namespace cep::analysis
