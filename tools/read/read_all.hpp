// SPDX-License-Identifier: Apache-2.0
//
// Reading all inputs, each into a sink of its own. The order of files is decided here only.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "base/progress.hpp"
#include "read/coverage.hpp"
#include "read/file_reader.hpp"
#include "read/inputs.hpp"

namespace cep::tool {

/// The cores that this process may use, at most 16: more are limited by memory bandwidth.
[[nodiscard]] unsigned usable_cores();

struct ReadOptions {
    unsigned threads = 0;  // 0: as many as there are usable cores
    BlockSizes sizes;
    WorkRange range{};

    [[nodiscard]] unsigned thread_count() const { return threads > 0 ? threads : usable_cores(); }
};

namespace detail {

using MakeSink = std::function<std::unique_ptr<RowSink>(const InputFile&, std::size_t)>;
using TakeSink = std::function<void(RowSink&, FileReport&&)>;

InputCounts read_all(const InputSet& set, const ReadOptions& options, const MakeSink& make_sink, const TakeSink& take);

}  // namespace detail

/// `make_sink(file, index)` returns a std::unique_ptr to a RowSink; `take(sink, report)` gets it back after its file,
/// in the order of the files. Both are called from one thread at a time, but not always from the same. Exceptions of
/// theirs or of a sink are thrown on.
template <typename MakeSink, typename Take>
InputCounts read_all(const InputSet& set, const ReadOptions& options, MakeSink make_sink, Take take) {
    using Sink = typename decltype(make_sink(set.files.front(), std::size_t{}))::element_type;
    return detail::read_all(set, options, make_sink, [&take](RowSink& sink, FileReport&& report) {
        take(std::move(static_cast<Sink&>(sink)), std::move(report));
    });
}

}  // namespace cep::tool
