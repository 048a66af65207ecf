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

#include "base/atomic.hpp"

namespace cep {

struct Nothing {};

/// Ring of fixed capacity from one producer thread to one consumer thread. Neither ever waits for the other.
///
/// `ConsumerData` is in the consumer's cache line.
template <class T, class ConsumerData = Nothing>
class Ring {
    static_assert(std::is_trivially_copyable_v<T>);

  public:
    /// Holds `capacity` items, rounded up to a power of two. Does not touch memory pages before their first use. May
    /// throw.
    explicit Ring(std::size_t capacity)
        : bytes_(allocate(std::bit_ceil(capacity) * sizeof(T))),
          consumer_(bytes_.get(), std::bit_ceil(capacity) - 1),
          producer_(bytes_.get(), std::bit_ceil(capacity) - 1) {}

    [[nodiscard]] std::size_t capacity() const noexcept { return producer_.mask + 1; }

    /// Producer. Prefetches its own end of the ring.
    void prefetch_producer() const noexcept { __builtin_prefetch(&producer_, 1); }

    /// Producer. Prefetches the memory of the next push, which the consumer on another core read last.
    void prepare_push() noexcept {
        std::byte* const next = producer_.place(producer_.tail.load(std::memory_order_relaxed));
        for (std::size_t i = 0; i < sizeof(T); i += line_bytes) __builtin_prefetch(next + i, 1);
    }

    /// Producer. Whether a push would succeed now.
    [[nodiscard]] bool has_room() noexcept {
        return backlog() <= producer_.mask || refreshed_backlog() <= producer_.mask;
    }

    /// Producer. False when full.
    [[nodiscard]] bool push(const T& item) noexcept {
        if (!has_room()) return false;
        new (next_place()) T(item);
        commit();
        return true;
    }

    /// Producer, if there is room. The memory of the next item, to make it there and then commit().
    [[nodiscard]] void* next_place() noexcept {
        std::byte* const place = producer_.place(producer_.tail.load(std::memory_order_relaxed));
        note_write(place, sizeof(T));
        return place;
    }
    /// Producer. Hands the item from next() to the consumer.
    void commit() noexcept {
        producer_.tail.store(producer_.tail.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }

    /// Producer. Upper bound of the items not yet taken, by the consumer's head that the producer saw last.
    [[nodiscard]] std::size_t backlog() const noexcept {
        return producer_.tail.load(std::memory_order_relaxed) - producer_.seen_head;
    }
    /// Producer. The same by the consumer's present head.
    [[nodiscard]] std::size_t refreshed_backlog() noexcept {
        producer_.seen_head = consumer_.head.load(std::memory_order_acquire);
        return backlog();
    }

    /// Consumer. False when empty. Reads the producer's tail only once all items up to the tail seen last are taken.
    [[nodiscard, gnu::always_inline]] bool pop(T& item) noexcept {
        const std::size_t head = consumer_.head.load(std::memory_order_relaxed);
        if (head == consumer_.seen_tail) {
            consumer_.seen_tail = producer_.tail.load(std::memory_order_acquire);
            if (head == consumer_.seen_tail) return false;
        }
        const std::byte* const place = consumer_.place(head);
        note_read(place, sizeof(T));
        std::memcpy(&item, place, sizeof(T));
        consumer_.head.store(head + 1, std::memory_order_release);
        return true;
    }

    /// Consumer. Prefetches the cache line of items after the next one. Returns the next one; null if the consumer has
    /// seen no further item so far.
    [[nodiscard]] const T* prepare_pop() noexcept {
        const std::size_t head = consumer_.head.load(std::memory_order_relaxed);
        __builtin_prefetch(consumer_.place(head + line_bytes / sizeof(T)));
        return head == consumer_.seen_tail ? nullptr : std::launder(reinterpret_cast<const T*>(consumer_.place(head)));
    }

    [[nodiscard]] ConsumerData& consumer_data() noexcept { return consumer_.data; }

    /// Any thread. Approximate number of items in the ring.
    [[nodiscard]] std::size_t size() const noexcept {
        const std::size_t head = consumer_.head.load(std::memory_order_acquire);
        return producer_.tail.load(std::memory_order_acquire) - head;
    }

    /// Any thread. Number of items ever pushed.
    [[nodiscard]] std::size_t pushed() const noexcept { return producer_.tail.load(std::memory_order_acquire); }

  private:
    static constexpr std::size_t line_bytes = 64;

    struct Free {
        void operator()(std::byte* bytes) const noexcept { ::operator delete[](bytes, std::align_val_t{line_bytes}); }
    };
    using Bytes = std::unique_ptr<std::byte[], Free>;

    // Raw memory, because constructing the items would touch every page.
    [[nodiscard]] static Bytes allocate(std::size_t size) {
        return Bytes(static_cast<std::byte*>(::operator new[](size, std::align_val_t{line_bytes})));
    }

    /// What one side uses: its end of the ring, the other end as it saw it last, and where the items are.
    struct Side {
        Side(std::byte* items, std::size_t item_mask) noexcept : bytes(items), mask(item_mask) {}
        [[nodiscard]] std::byte* place(std::size_t index) const noexcept { return bytes + (index & mask) * sizeof(T); }

        std::byte* const bytes;
        const std::size_t mask;
    };
    struct Producer : Side {
        using Side::Side;
        Atomic<std::size_t> tail{0};
        std::size_t seen_head = 0;
    };
    struct Consumer : Side {
        using Side::Side;
        Atomic<std::size_t> head{0};
        std::size_t seen_tail = 0;
        [[no_unique_address]] ConsumerData data{};
    };

    const Bytes bytes_;
    alignas(line_bytes) Consumer consumer_;
    // Last, so that its owner can have other data of the producer's in the same cache line ([[no_unique_address]]).
    alignas(line_bytes) Producer producer_;
};

/// Ring of bytes with the texts of a Ring's items, in the same order. The Ring's commit() publishes the texts that were
/// pushed before it.
class ByteRing {
  public:
    static constexpr std::size_t default_capacity = 64 * 1024;

    /// Holds `capacity` bytes, rounded up to a power of two.
    explicit ByteRing(std::size_t capacity = default_capacity) noexcept : mask_(std::bit_ceil(capacity) - 1) {}

    /// Producer. False if `text` does not fit now. The first call allocates the memory.
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

    /// Consumer. Takes the next `size` bytes, the text of an item that was taken before. False if memory runs out: the
    /// text is then lost.
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
