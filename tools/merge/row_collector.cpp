// SPDX-License-Identifier: Apache-2.0
#include "merge/row_collector.hpp"

#include <utility>

namespace cep::tool {

void RowCollector::begin_block(const BlockLocation& location) {
    block_ = location;
    if (!file_) file_ = location.descriptor >= 0 ? sorter_.keep_file(location.descriptor, path_) : nullptr;
}

void RowCollector::add(RowEntry& entry, std::string_view text) {
    if (!batch_) batch_ = copies() ? sorter_.take_batch() : sorter_.take_empty_batch();
    entry.file = index_;
    entry.position = block_.position + static_cast<std::uint64_t>(text.data() - block_.begin);
    if (copies()) {
        batch_->add(entry, text);
    } else {
        batch_->add_reference(entry, text);
    }
    if (batch_->used_bytes() < sorter_.batch_bytes()) return;
    sorter_.add(std::move(*batch_), *file_);
    batch_.reset();
}

void RowCollector::end() {
    if (!batch_) return;
    if (copies()) {
        sorter_.give_back(std::move(*batch_));
    } else {
        sorter_.add(std::move(*batch_), *file_);
    }
    batch_.reset();
}

}  // namespace cep::tool
