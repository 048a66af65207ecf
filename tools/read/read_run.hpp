// SPDX-License-Identifier: Apache-2.0
//
// Reading the rows of one run from all inputs, each file into a sink of its own. The order of files is decided here
// only.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "base/progress.hpp"
#include "read/coverage.hpp"
#include "read/file_reader.hpp"
#include "read/inputs.hpp"
#include "read/run_choice.hpp"

namespace cep::tool {

/// The cores that this process may use, at most 16: more are limited by memory bandwidth.
[[nodiscard]] unsigned usable_cores();

struct ReadOptions {
    unsigned threads = 0;  // 0: as many as there are usable cores
    WorkRange range{};

    [[nodiscard]] unsigned thread_count() const { return threads > 0 ? threads : usable_cores(); }
};

namespace detail {

struct SinkCalls {
    std::function<void()> restart;
    std::function<std::unique_ptr<RowSink>(const InputFile&, std::size_t)> make;
    std::function<void(RowSink&, FileReport&&)> take;
};

InputCounts read_run(const InputSet& set, const ReadOptions& options, RunSelection& selection, const SinkCalls& calls);

}  // namespace detail

/// `make_sink(file, index)` returns a std::unique_ptr to a RowSink; `take(sink, report)` gets it back after its file,
/// in the order of the files. Both are called from one thread at a time, but not always from the same. Exceptions of
/// theirs or of a sink are thrown on.
///
/// Sinks get the rows of one run only. The first reading with a selection settles it; where it turns out to have other
/// runs too, `restart` is called and the files of the run are read again: what sinks and `take` did until then must be
/// undone. Throws UsageError, too: see RunSelection.
template <typename Restart, typename MakeSink, typename Take>
InputCounts read_run(const InputSet& set, const ReadOptions& options, RunSelection& selection, Restart restart,
                     MakeSink make_sink, Take take) {
    using Sink = typename decltype(make_sink(set.files.front(), std::size_t{}))::element_type;
    return detail::read_run(set, options, selection, {restart, make_sink, [&take](RowSink& sink, FileReport&& report) {
                                                          take(std::move(static_cast<Sink&>(sink)), std::move(report));
                                                      }});
}

}  // namespace cep::tool
