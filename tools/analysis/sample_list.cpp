// SPDX-License-Identifier: Apache-2.0
#include "sample_list.hpp"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <type_traits>

#include "large_memory.hpp"

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

namespace cep::analysis {
namespace {

static_assert(std::is_trivially_copyable_v<Sample>);

constexpr std::size_t first_samples = 16;
constexpr std::size_t pooled_chunk_bytes = SampleList::chunk_samples * sizeof(Sample);

/// The large chunks of all lists. What a list gives back is for the next one, and not for the system.
class ChunkPool {
  public:
    Sample* take() {
        if constexpr (CEP_FINDS_BAD_ADDRESSES) return static_cast<Sample*>(::operator new(pooled_chunk_bytes));
        const std::lock_guard guard(mutex_);
        if (free_ != nullptr) return reinterpret_cast<Sample*>(std::exchange(free_, free_->next));
        if (unused_chunks_ == 0) add_slab();
        --unused_chunks_;
        return reinterpret_cast<Sample*>(std::exchange(unused_, unused_ + distance_bytes));
    }

    void give_back(Sample* chunk) noexcept {
        if constexpr (CEP_FINDS_BAD_ADDRESSES) return ::operator delete(chunk);
        const std::lock_guard guard(mutex_);
        free_ = new (chunk) FreeChunk{free_};
    }

  private:
    struct FreeChunk {
        FreeChunk* next;
    };

    // Phases are written side by side. In chunks that are a power of two apart, they would displace each other from a
    // core's cache.
    static constexpr std::size_t distance_bytes = pooled_chunk_bytes + 192;
    static constexpr std::size_t slab_chunks = 16;

    void add_slab() {
        slabs_.emplace_back(slab_chunks * distance_bytes);
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
ChunkPool& pool() {
    static auto& chunks = *new ChunkPool;
    return chunks;
}

void free_chunk(Sample* chunk, std::size_t capacity) {
    if (capacity == SampleList::chunk_samples) {
        pool().give_back(chunk);
    } else {
        std::free(chunk);
    }
}

// A chunk with room for fewer samples than the large ones.
Sample* resize_small(Sample* chunk, std::size_t capacity) {
    void* const resized = std::realloc(chunk, capacity * sizeof(Sample));
    if (resized == nullptr) throw std::bad_alloc();
    return static_cast<Sample*>(resized);
}

}  // namespace

void SampleList::set_last(Sample* chunk, std::size_t samples, std::size_t capacity) {
    last_ = chunk;
    next_ = chunk + samples;
    end_ = chunk + capacity;
}

void SampleList::grow() {
    const auto samples = static_cast<std::size_t>(next_ - last_);
    if (samples == chunk_samples) {
        full_.push_back(last_);
        set_last(nullptr, 0, 0);
        set_last(pool().take(), 0, chunk_samples);
    } else if (2 * samples < chunk_samples) {
        const std::size_t capacity = std::max(first_samples, 2 * samples);
        set_last(resize_small(last_, capacity), samples, capacity);
    } else {
        Sample* const chunk = pool().take();
        std::copy(last_, next_, chunk);
        std::free(last_);
        set_last(chunk, samples, chunk_samples);
    }
}

void SampleList::seal() {
    const auto samples = static_cast<std::size_t>(next_ - last_);
    const auto capacity = static_cast<std::size_t>(end_ - last_);
    // Of many chunks, the room in the last one is little.
    constexpr std::size_t many_chunks = 32;
    if (samples == 0 || samples == capacity || full_.size() >= many_chunks) return;
    if (capacity < chunk_samples) return set_last(resize_small(last_, samples), samples, samples);
    Sample* const chunk = resize_small(nullptr, samples);
    std::copy(last_, next_, chunk);
    pool().give_back(last_);
    set_last(chunk, samples, samples);
}

void SampleList::shrink_to(std::size_t samples) {
    if (samples == 0) return release();
    const std::size_t last = (samples - 1) / chunk_samples;
    if (last < full_.size()) {
        free_chunk(last_, static_cast<std::size_t>(end_ - last_));
        for (std::size_t i = last + 1; i < full_.size(); ++i) pool().give_back(full_[i]);
        set_last(full_[last], 0, chunk_samples);
        full_.resize(last);
    }
    next_ = last_ + (samples - last * chunk_samples);
}

void SampleList::release() {
    if (last_ != nullptr) free_chunk(last_, static_cast<std::size_t>(end_ - last_));
    for (Sample* const chunk : full_) pool().give_back(chunk);
    full_.clear();
    set_last(nullptr, 0, 0);
}

}  // namespace cep::analysis
