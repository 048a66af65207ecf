// SPDX-License-Identifier: Apache-2.0
#include "model/sample_list.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <new>
#include <numeric>

#include "base/large_memory.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define CEP_FINDS_BAD_ADDRESSES true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CEP_FINDS_BAD_ADDRESSES true
#endif
#endif
#ifndef CEP_FINDS_BAD_ADDRESSES
#define CEP_FINDS_BAD_ADDRESSES false
#endif

namespace cep::tool {

struct SampleList::ColumnSet {
    static ColumnSet of(const SampleColumns& columns) {
        return {columns.start_ns != nullptr, columns.lag_ms != nullptr, columns.collective != nullptr,
                columns.step_index != nullptr, columns.place != nullptr};
    }
    [[nodiscard]] ColumnSet with(const ColumnSet& more) const {
        return {start_ns || more.start_ns, lag_ms || more.lag_ms, collective || more.collective,
                step_index || more.step_index, place || more.place};
    }
    /// Of each sample.
    [[nodiscard]] std::size_t bytes() const {
        const int narrow = lag_ms + collective + step_index + place;
        return sizeof(double) + (start_ns ? sizeof(std::int64_t) : 0) +
               static_cast<std::size_t>(narrow) * sizeof(std::uint32_t);
    }
    /// The wide columns first, so that all are aligned.
    [[nodiscard]] SampleColumns in(std::byte* memory, std::size_t capacity) const {
        const auto take = [&]<typename Value>(Value*& column) {
            column = reinterpret_cast<Value*>(memory);
            memory += capacity * sizeof(Value);
        };
        SampleColumns columns;
        take(columns.duration_ms);
        if (start_ns) take(columns.start_ns);
        if (lag_ms) take(columns.lag_ms);
        if (collective) take(columns.collective);
        if (step_index) take(columns.step_index);
        if (place) take(columns.place);
        return columns;
    }

    bool start_ns;
    bool lag_ms;
    bool collective;
    bool step_index;
    bool place;
};

namespace {

constexpr std::size_t first_samples = 16;
constexpr std::size_t most_bytes = sizeof(Sample);  // of a sample with all columns

/// Large chunks of one size, of all lists. What a list gives back is for the next one; but its memory is for the system
/// until then, as samples that are thinned out are often followed by some of another size.
class ChunkPool {
  public:
    std::byte* take(std::size_t bytes) {
        if constexpr (CEP_FINDS_BAD_ADDRESSES) return static_cast<std::byte*>(::operator new(bytes));
        const std::lock_guard guard(mutex_);
        if (free_ != nullptr) return reinterpret_cast<std::byte*>(std::exchange(free_, free_->next));
        if (unused_chunks_ == 0) add_slab(bytes);
        --unused_chunks_;
        return std::exchange(unused_, unused_ + distance_bytes(bytes));
    }

    void give_back(std::byte* chunk, std::size_t bytes) noexcept {
        if constexpr (CEP_FINDS_BAD_ADDRESSES) return ::operator delete(chunk);
        release_pages(chunk + sizeof(FreeChunk), chunk + bytes);
        const std::lock_guard guard(mutex_);
        free_ = new (chunk) FreeChunk{free_};
    }

  private:
    struct FreeChunk {
        FreeChunk* next;
    };

    static constexpr std::size_t slab_chunks = 16;

    // Phases are written side by side. In chunks that are a power of two apart, they would displace each other from a
    // core's cache.
    static std::size_t distance_bytes(std::size_t bytes) { return bytes + 192; }

    static void release_pages(std::byte* first, std::byte* last) noexcept {
        constexpr std::uintptr_t page_bytes = 4096;  // or more: then the call fails, and the memory stays
        const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(first) + page_bytes - 1) & ~(page_bytes - 1);
        const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(last) & ~(page_bytes - 1);
        if (begin < end) static_cast<void>(::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED));
    }

    void add_slab(std::size_t bytes) {
        slabs_.emplace_back(slab_chunks * distance_bytes(bytes));
        unused_ = slabs_.back().data();
        unused_chunks_ = slab_chunks;
    }

    std::mutex mutex_;
    std::vector<LargeMemory> slabs_;
    std::byte* unused_ = nullptr;  // of the last slab
    std::size_t unused_chunks_ = 0;
    FreeChunk* free_ = nullptr;
};

// Never destroyed: a list may live as long as the process.
ChunkPool& pool_of(std::size_t sample_bytes) {
    static auto& pools = *new std::array<ChunkPool, most_bytes / sizeof(std::uint32_t) + 1>;
    return pools[sample_bytes / sizeof(std::uint32_t)];
}

std::byte* allocate(std::size_t capacity, std::size_t sample_bytes) {
    const std::size_t bytes = capacity * sample_bytes;
    if (capacity == SampleList::chunk_samples) return pool_of(sample_bytes).take(bytes);
    void* const chunk = std::malloc(bytes);
    if (chunk == nullptr) throw std::bad_alloc();
    return static_cast<std::byte*>(chunk);
}

void free_chunk(const SampleColumns& columns, std::size_t capacity, std::size_t sample_bytes) {
    if (capacity == SampleList::chunk_samples) {
        pool_of(sample_bytes).give_back(reinterpret_cast<std::byte*>(columns.duration_ms), capacity * sample_bytes);
    } else {
        std::free(columns.duration_ms);
    }
}

/// What a column has in another place; a new one, what it had without.
template <typename Value>
void carry(const Value* from, Value* to, std::size_t count, Value without) {
    if (to == nullptr) return;
    if (from == nullptr) {
        std::fill_n(to, count, without);
    } else {
        std::copy_n(from, count, to);
    }
}

}  // namespace

SampleList::ColumnSet SampleList::needed_for(const Sample& sample) const {
    return {sample.has_start(), !std::isnan(sample.lag_ms), sample.collective != 0,
            sample.step_index != first_step_index_ + count_, sample.place != place_};
}

// Columns are for ever: what one sample needed, those behind it will.
void SampleList::store_in_new_room(Sample sample) {
    if (empty()) {
        first_step_index_ = sample.step_index;
        place_ = sample.place;
    }
    const ColumnSet columns = ColumnSet::of(last_).with(needed_for(sample));
    std::size_t capacity = capacity_;
    if (count_ == chunk_samples) {
        full_.push_back(std::exchange(last_, {}));
        first_step_index_ += chunk_samples;
        count_ = capacity_ = 0;
    } else if (count_ == capacity_) {
        const bool is_small = 2 * count_ < chunk_samples;
        capacity = is_small ? std::max<std::size_t>(first_samples, 2 * count_) : chunk_samples;
    }
    move_last(capacity, columns);
    store(sample);
}

void SampleList::append(const SampleList& other, std::size_t count) {
    for (const Sample sample : other) {
        if (count-- == 0) return;
        push_back(sample);
    }
}

void SampleList::move_last(std::size_t capacity, ColumnSet columns) {
    const SampleColumns to = columns.in(allocate(capacity, columns.bytes()), capacity);
    const SampleColumns& from = last_;
    carry(from.duration_ms, to.duration_ms, count_, 0.0);
    carry(from.start_ns, to.start_ns, count_, Sample::no_start);
    carry(from.lag_ms, to.lag_ms, count_, std::numeric_limits<float>::quiet_NaN());
    carry(from.collective, to.collective, count_, 0U);
    carry(from.step_index, to.step_index, count_, 0U);
    if (from.step_index == nullptr && to.step_index != nullptr)
        std::iota(to.step_index, to.step_index + count_, first_step_index_);
    carry(from.place, to.place, count_, place_);
    if (capacity_ > 0) free_chunk(last_, capacity_, ColumnSet::of(last_).bytes());
    last_ = to;
    capacity_ = static_cast<std::uint32_t>(capacity);
}

void SampleList::seal() {
    // Of many chunks, the room in the last one is little.
    constexpr std::size_t many_chunks = 32;
    if (count_ == 0 || count_ == capacity_ || full_.size() >= many_chunks) return;
    move_last(count_, ColumnSet::of(last_));
}

void SampleList::release() {
    if (capacity_ > 0) free_chunk(last_, capacity_, ColumnSet::of(last_).bytes());
    for (const SampleColumns& chunk : full_) free_chunk(chunk, chunk_samples, ColumnSet::of(chunk).bytes());
    full_.clear();
    last_ = {};
    count_ = capacity_ = 0;
}

}  // namespace cep::tool
