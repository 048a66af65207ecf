// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>

#include "atomic.hpp"

namespace cep {

/// Fixed ring from one producer thread to one consumer thread. Neither ever waits for the other.
template <class T>
class Ring {
    static_assert(std::is_trivially_copyable_v<T>);

  public:
    /// Holds `capacity` items, rounded up to a power of two. Memory pages are first touched when used. May throw.
    explicit Ring(std::size_t capacity)
        : mask_(std::bit_ceil(capacity) - 1), bytes_(allocate((mask_ + 1) * sizeof(T))) {}

    [[nodiscard]] std::size_t capacity() const noexcept { return mask_ + 1; }

    /// Producer. Begins to fetch the memory of the next push: the consumer has read it last, on another core.
    void prepare_push() noexcept {
        std::byte* const next = at(tail_.load(std::memory_order_relaxed));
        for (std::size_t i = 0; i < sizeof(T); i += line_bytes) __builtin_prefetch(next + i, 1);
    }

    /// Producer. Whether a push now succeeds.
    [[nodiscard]] bool has_room() noexcept { return backlog() <= mask_ || refreshed_backlog() <= mask_; }

    /// Producer. False when full.
    [[nodiscard]] bool push(const T& item) noexcept {
        if (!has_room()) return false;
        next() = item;
        commit();
        return true;
    }

    /// Producer, when there is room: a new item in its place, to be filled and committed.
    [[nodiscard]] T& next() noexcept {
        std::byte* const place = at(tail_.load(std::memory_order_relaxed));
        note_write(place, sizeof(T));
        return *new (place) T;
    }
    /// Producer. The consumer may take what next() gave.
    void commit() noexcept { tail_.store(tail_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

    /// Producer. Items not yet taken, at most; counts against the head the producer last saw.
    [[nodiscard]] std::size_t backlog() const noexcept { return tail_.load(std::memory_order_relaxed) - cached_head_; }
    /// Producer. The same against the consumer's present head.
    [[nodiscard]] std::size_t refreshed_backlog() noexcept {
        cached_head_ = head_.load(std::memory_order_acquire);
        return backlog();
    }

    /// Consumer. False when empty.
    [[nodiscard]] bool pop(T& item) noexcept {
        const std::size_t head = head_.load(std::memory_order_relaxed);
        if (head == tail_.load(std::memory_order_acquire)) return false;
        note_read(at(head), sizeof(T));
        std::memcpy(&item, at(head), sizeof(T));
        head_.store(head + 1, std::memory_order_release);
        return true;
    }

    /// Consumer. Begins to fetch the items after the next line's.
    void prepare_pop() noexcept {
        __builtin_prefetch(at(head_.load(std::memory_order_relaxed) + line_bytes / sizeof(T)));
    }

    /// Either thread, or any other: items in the ring, about.
    [[nodiscard]] std::size_t size() const noexcept {
        const std::size_t head = head_.load(std::memory_order_acquire);
        return tail_.load(std::memory_order_acquire) - head;
    }

    /// Any thread: items ever pushed.
    [[nodiscard]] std::size_t pushed() const noexcept { return tail_.load(std::memory_order_acquire); }

  private:
    static constexpr std::size_t line_bytes = 64;

    struct Free {
        void operator()(std::byte* bytes) const noexcept { ::operator delete[](bytes, std::align_val_t{line_bytes}); }
    };
    using Bytes = std::unique_ptr<std::byte[], Free>;

    // Raw: constructing the items would touch every page.
    [[nodiscard]] static Bytes allocate(std::size_t size) {
        return Bytes(static_cast<std::byte*>(::operator new[](size, std::align_val_t{line_bytes})));
    }
    [[nodiscard]] std::byte* at(std::size_t index) noexcept { return bytes_.get() + (index & mask_) * sizeof(T); }

    const std::size_t mask_;
    const Bytes bytes_;
    alignas(64) Atomic<std::size_t> tail_{0};
    std::size_t cached_head_ = 0;  // producer's
    alignas(64) Atomic<std::size_t> head_{0};
};

/// Ring of bytes beside a Ring: the texts of its items, in the same order. The Ring's commit is what shows the consumer
/// a text that was pushed before it.
class ByteRing {
  public:
    static constexpr std::size_t default_capacity = 64 * 1024;

    /// Holds `capacity` bytes, rounded up to a power of two.
    explicit ByteRing(std::size_t capacity = default_capacity) noexcept : mask_(std::bit_ceil(capacity) - 1) {}

    /// Producer. False when `text` does not fit now. The memory is allocated by the first call.
    [[nodiscard]] bool push(std::string_view text) noexcept {
        if (bytes_ == nullptr) bytes_.reset(new (std::nothrow) char[mask_ + 1]);
        const std::size_t room = mask_ + 1 - (tail_ - head_.load(std::memory_order_acquire));
        if (bytes_ == nullptr || room < text.size()) return false;
        const std::size_t at = tail_ & mask_;
        const std::size_t first = std::min(text.size(), mask_ + 1 - at);
        write(at, text.substr(0, first));
        write(0, text.substr(first));
        tail_ += text.size();
        return true;
    }

    /// Consumer. Takes the next `size` bytes, which an item taken before promised. False without memory: they are lost.
    bool pop(std::size_t size, std::string& out) noexcept {
        const std::size_t head = head_.load(std::memory_order_relaxed);
        const std::size_t at = head & mask_;
        const std::size_t first = std::min(size, mask_ + 1 - at);
        bool copied = true;
        try {
            out.assign(read(at, first));
            out.append(read(0, size - first));
        } catch (const std::exception&) {
            out.clear();
            copied = false;
        }
        head_.store(head + size, std::memory_order_release);
        return copied;
    }

  private:
    void write(std::size_t at, std::string_view text) noexcept {
        note_write(bytes_.get() + at, text.size());
        text.copy(bytes_.get() + at, text.size());
    }
    [[nodiscard]] std::string_view read(std::size_t at, std::size_t size) const noexcept {
        note_read(bytes_.get() + at, size);
        return {bytes_.get() + at, size};
    }

    const std::size_t mask_;
    std::unique_ptr<char[]> bytes_;
    std::size_t tail_ = 0;  // producer's
    alignas(64) Atomic<std::size_t> head_{0};
};

}  // namespace cep
