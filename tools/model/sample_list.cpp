// SPDX-License-Identifier: Apache-2.0
#include "model/sample_list.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <new>

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
namespace {

constexpr std::size_t first_samples = 16;

/// Calls `use(column, bit)` for each of the sample columns.
template <typename Use>
void for_each_column(Use use) {
    unsigned bit = 1;
    std::apply([&](const auto&... column) { ((use(column, bit), bit <<= 1U), ...); }, sample_columns);
}

/// A bit for each column that there is.
unsigned set_of(const SampleColumns& columns) {
    unsigned set = 0;
    for_each_column([&](const auto& column, unsigned bit) { set |= columns.*column.values != nullptr ? bit : 0; });
    return set;
}

/// Of each sample.
std::size_t bytes_of(unsigned set) {
    std::size_t bytes = 0;
    for_each_column(
        [&](const auto& column, unsigned bit) { bytes += (set & bit) != 0 ? sizeof(Sample{}.*column.member) : 0; });
    return bytes;
}

SampleColumns columns_in(std::byte* memory, unsigned set, std::size_t capacity) {
    SampleColumns columns;
    const auto take = [&]<typename Value>(const SampleColumn<Value>& column, unsigned bit) {
        if ((set & bit) == 0) return;
        columns.*column.values = reinterpret_cast<Value*>(memory);
        memory += capacity * sizeof(Value);
    };
    for_each_column(take);
    return columns;
}

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

    // Its pages are mapped all at once, which takes half the time of mapping each when it is first touched. Huge pages
    // are faster where they are available, but several times slower in virtual machines that return free memory to
    // their host.
    void add_slab(std::size_t bytes) {
        constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
        void* const slab = ::mmap(nullptr, slab_chunks * distance_bytes(bytes), PROT_READ | PROT_WRITE, flags, -1, 0);
        if (slab == MAP_FAILED) throw std::bad_alloc();
        unused_ = static_cast<std::byte*>(slab);
        unused_chunks_ = slab_chunks;
    }

    std::mutex mutex_;
    std::byte* unused_ = nullptr;  // of the last slab; slabs are never unmapped
    std::size_t unused_chunks_ = 0;
    FreeChunk* free_ = nullptr;
};

// Never destroyed: a list may live as long as the process.
ChunkPool& pool_of(std::size_t sample_bytes) {
    static auto& pools = *new std::array<ChunkPool, sizeof(Sample) / sizeof(std::uint32_t) + 1>;
    return pools[sample_bytes / sizeof(std::uint32_t)];
}

std::byte* allocate(std::size_t capacity, std::size_t sample_bytes) {
    const std::size_t bytes = capacity * sample_bytes;
    if (capacity == SampleList::chunk_samples) return pool_of(sample_bytes).take(bytes);
    void* const chunk = std::malloc(bytes);
    if (chunk == nullptr) throw std::bad_alloc();
    return static_cast<std::byte*>(chunk);
}

void free_chunk(const SampleColumns& columns, std::size_t capacity) {
    const std::size_t sample_bytes = bytes_of(set_of(columns));
    if (capacity == SampleList::chunk_samples) {
        pool_of(sample_bytes).give_back(reinterpret_cast<std::byte*>(columns.duration_ms), capacity * sample_bytes);
    } else {
        std::free(columns.duration_ms);
    }
}

}  // namespace

// Durations always.
SampleList::ColumnSet SampleList::needed_for(const Sample& sample) const {
    const Sample plain = plain_sample();
    ColumnSet needed = 1;
    for_each_column([&](const auto& column, unsigned bit) {
        if (!is_same(sample.*column.member, plain.*column.member)) needed |= bit;
    });
    return needed;
}

// Columns are for ever: what one sample needed, those behind it will.
void SampleList::store_in_new_room(Sample sample) {
    if (empty()) {
        first_step_index_ = sample.step_index;
        constants_ = {sample.place, sample.channel, sample.bytes};
    }
    const ColumnSet columns = set_of(last_) | needed_for(sample);
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
    const SampleColumns to = columns_in(allocate(capacity, bytes_of(columns)), columns, capacity);
    const SampleChunk from = last_chunk();
    for_each_column([&](const auto& column, unsigned) {
        auto* const values = to.*column.values;
        if (values == nullptr) return;
        if (const auto* const old = last_.*column.values) {
            std::copy_n(old, count_, values);
        } else {
            for (std::size_t i = 0; i < count_; ++i) values[i] = from[i].*column.member;
        }
    });
    if (capacity_ > 0) free_chunk(last_, capacity_);
    last_ = to;
    capacity_ = static_cast<std::uint32_t>(capacity);
}

void SampleList::seal() {
    // Of many chunks, the room in the last one is little.
    constexpr std::size_t many_chunks = 32;
    if (count_ == 0 || count_ == capacity_ || full_.size() >= many_chunks) return;
    move_last(count_, set_of(last_));
}

void SampleList::release() {
    if (capacity_ > 0) free_chunk(last_, capacity_);
    for (const SampleColumns& chunk : full_) free_chunk(chunk, chunk_samples);
    full_.clear();
    last_ = {};
    count_ = capacity_ = 0;
}

}  // namespace cep::tool
