// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "base/atomic.hpp"
#include "base/system_call.hpp"
#include "record/record.hpp"

namespace cep {

/// Limit of the metadata, in bytes, that the open spans of all threads of a profiler may keep.
class MetaBudget {
  public:
    static constexpr std::size_t default_bytes = 2 * 1024 * 1024;

    explicit MetaBudget(std::size_t bytes = default_bytes) noexcept : total_(bytes), left_(bytes) {}

    /// Any thread. Takes bytes from the budget. If fewer are left it takes none and returns false.
    [[nodiscard]] bool take(std::size_t bytes) noexcept {
        std::size_t left = left_.load(std::memory_order_relaxed);
        while (left >= bytes)
            if (left_.compare_exchange_weak(left, left - bytes, std::memory_order_relaxed, std::memory_order_relaxed))
                return true;
        return false;
    }
    /// Any thread.
    void give(std::size_t bytes) noexcept { left_.fetch_add(bytes, std::memory_order_relaxed); }

    /// Any thread. Whether more than half is taken: free slots should then keep no buffers.
    [[nodiscard]] bool is_scarce() const noexcept { return left_.load(std::memory_order_relaxed) < total_ / 2; }
    [[nodiscard]] std::size_t left() const noexcept { return left_.load(std::memory_order_relaxed); }

  private:
    const std::size_t total_;
    Atomic<std::size_t> left_;
};

/// An open span. The owner, the thread that begins the span, fills the slot. The thread that ends the span takes it
/// first. Fields that other threads read while the span is open (for `open` rows) are atomic. The rest belongs to the
/// owner until a thread takes the slot, and then to that thread.
struct alignas(64) SpanSlot {
    static constexpr std::uint64_t open_bit = 1;

    // The first cache line. A span without attributes and metadata needs no other.
    Atomic<std::uint64_t> state{0};  ///< generation << 1 | open
    Atomic<cep_region*> region{nullptr};
    Atomic<std::int64_t> step{0};
    Atomic<std::int64_t> begin_host_ns{0};
    Atomic<std::uint32_t> seq{0};
    Atomic<std::uint16_t> depth{0};
    Atomic<bool> on_device{false};
    bool has_extras = false;  ///< the span has attributes or metadata; what is on the next line is then valid
    std::uint16_t stream_number = 0;
    std::uint8_t references = 0;  ///< to the event
    Event* event = nullptr;       ///< of the begin; null: it has only the host's time
    void* stream = nullptr;       ///< of the begin

    Attributes attributes;
    std::unique_ptr<char[]> meta;
    std::uint32_t meta_capacity = 0;
    std::uint32_t meta_bytes = 0;

    [[nodiscard]] std::string_view meta_text() const noexcept { return {meta.get(), meta_bytes}; }
    [[nodiscard]] Stamp begin() const noexcept {
        return {begin_host_ns.load(std::memory_order_relaxed), event, stream_number, references};
    }
    /// Owner, before it publishes the slot.
    void set_begin(const Stamp& stamp, void* begin_stream) noexcept {
        begin_host_ns.store(stamp.host_ns, std::memory_order_release);
        on_device.store(stamp.event != nullptr, std::memory_order_release);
        event = stamp.event;
        stream = begin_stream;
        stream_number = stamp.stream;
        references = stamp.references;
    }
};

/// A copy of an open span's data, as read by another thread.
struct OpenSpan {
    const cep_region* region;
    std::int64_t step;
    std::int64_t begin_host_ns;
    std::uint32_t seq;
    std::uint16_t depth;
    bool on_device;
};

/// The open spans of one thread, the owner. The owner claims a free slot, fills it and publishes it. Any thread may
/// take it to end the span. Then the owner keeps the slot for its next span, while it is still in the cache, or another
/// thread releases it.
class SpanSlots {
  public:
    static constexpr std::size_t max_slots = 1024;

    explicit SpanSlots(MetaBudget& meta_budget) noexcept : meta_budget_(meta_budget) {
        for (auto& word : free_) word.store(~std::uint64_t{0}, std::memory_order_relaxed);
    }
    SpanSlots(const SpanSlots&) = delete;
    SpanSlots& operator=(const SpanSlots&) = delete;
    ~SpanSlots() {
        for (std::size_t block = 0; block < block_count; ++block) {
            const std::unique_ptr<SpanSlot[]> slots(blocks_[block].load(std::memory_order_relaxed));
            for (std::size_t i = 0; slots != nullptr && i < size_of(block); ++i) drop_meta(slots[i]);
        }
    }

    /// Owner. Claims a free slot and returns its index, or −1. Allocates a block if all slots are in use.
    [[nodiscard]] int claim() noexcept {
        if (kept_count_ > 0) [[likely]]
            return kept_[--kept_count_];
        return claim_free();
    }

    /// The owner, or any thread once find() has given it the slot.
    [[nodiscard]] SpanSlot& at(std::size_t index) noexcept {
        if (index < first_block_slots) [[likely]]
            return blocks_[0].load(std::memory_order_relaxed)[index];
        return at_in_block(index);
    }

    /// Any thread. The slot of that index from a caller's handle; null if there is none.
    [[nodiscard]] SpanSlot* find(std::size_t index) noexcept {
        if (index >= max_slots) return nullptr;
        const std::size_t block = index < first_block_slots ? 0 : block_of(index);
        SpanSlot* const slots = blocks_[block].load(std::memory_order_acquire);
        return slots == nullptr ? nullptr : &slots[index - first_of(block)];
    }

    /// Owner, for a claimed slot. Copies the metadata. False if budget or memory has run out: the slot then has none.
    [[nodiscard]] bool set_meta(SpanSlot& slot, std::string_view text) noexcept {
        has_meta_ = true;
        slot.meta_bytes = 0;
        if (text.size() > slot.meta_capacity && !make_meta(slot, text.size())) return false;
        text.copy(slot.meta.get(), text.size());
        slot.meta_bytes = static_cast<std::uint32_t>(text.size());
        return true;
    }

    /// Owner. Publishes a filled slot; returns its generation.
    std::uint32_t publish(std::size_t index) noexcept { return publish(at(index)); }
    static std::uint32_t publish(SpanSlot& slot) noexcept {
        const std::uint64_t generation = slot.state.load(std::memory_order_relaxed) >> 1;
        slot.state.store(generation << 1 | SpanSlot::open_bit, std::memory_order_release);
        return static_cast<std::uint32_t>(generation);
    }

    /// Any thread. True for exactly one caller, which may then end the span of that generation.
    [[nodiscard]] static bool take(SpanSlot& slot, std::uint32_t generation) noexcept {
        std::uint64_t now = slot.state.load(std::memory_order_relaxed);
        if (static_cast<std::uint32_t>(now >> 1) != generation || (now & SpanSlot::open_bit) == 0) return false;
        return slot.state.compare_exchange_strong(now, ((now >> 1) + 1) << 1, std::memory_order_acquire,
                                                  std::memory_order_relaxed);
    }

    /// Owner, for a span that no other thread knows: the same without an atomic update.
    [[nodiscard]] static bool take_unshared(SpanSlot& slot, std::uint32_t generation) noexcept {
        if (!is_open(slot, generation)) return false;
        slot.state.store(((slot.state.load(std::memory_order_relaxed) >> 1) + 1) << 1, std::memory_order_relaxed);
        return true;
    }

    [[nodiscard]] static bool is_open(const SpanSlot& slot, std::uint32_t generation) noexcept {
        const std::uint64_t now = slot.state.load(std::memory_order_relaxed);
        return static_cast<std::uint32_t>(now >> 1) == generation && (now & SpanSlot::open_bit) != 0;
    }

    /// Owner, after it claimed the slot or took the span: keeps the slot, still in the cache, for the next claim().
    void keep(std::size_t index) noexcept {
        if (kept_count_ == kept_.size()) [[unlikely]]
            return release(index);
        reuse(index);
        kept_[kept_count_++] = static_cast<std::uint16_t>(index);
    }

    /// Owner, after it took the span: its next span gets the slot.
    void reuse(std::size_t index) noexcept {
        if (has_meta_) [[unlikely]]
            drop_large_meta(at(index));
    }

    /// Any thread that took the span: frees the slot.
    void release(std::size_t index) noexcept {
        drop_large_meta(at(index));
        free_[index / word_bits].fetch_or(std::uint64_t{1} << index % word_bits, std::memory_order_release);
    }

    /// After all recording has ended: calls `visit(SpanSlot&)` for each span still open.
    template <class Visit>
    void visit_left_open(Visit visit) noexcept {
        for (std::size_t block = 0; block < block_count; ++block)
            if (SpanSlot* slots = blocks_[block].load(std::memory_order_acquire))
                for (std::size_t i = 0; i < size_of(block); ++i)
                    if ((slots[i].state.load(std::memory_order_acquire) & SpanSlot::open_bit) != 0) visit(slots[i]);
    }

    /// Owner. Prefetches the slot that it uses first.
    void prefetch() const noexcept { __builtin_prefetch(blocks_[0].load(std::memory_order_relaxed), 1); }

    /// Any thread: calls `visit(OpenSpan)` for each span open now.
    template <class Visit>
    void visit_open(Visit visit) const {
        OpenSpan span{};
        for (std::size_t block = 0; block < block_count; ++block)
            if (const SpanSlot* slots = blocks_[block].load(std::memory_order_acquire))
                for (std::size_t i = 0; i < size_of(block); ++i)
                    if (read_open(slots[i], span)) visit(span);
    }

  private:
    static constexpr std::size_t first_block_slots = 8;
    static constexpr std::size_t block_count = 8;  ///< of 8, 8, 16, 32 … 512 slots
    static constexpr std::size_t word_bits = 64;
    static constexpr std::size_t kept_meta_bytes = 1024;
    static constexpr std::size_t smallest_meta_bytes = 64;

    [[nodiscard]] static std::size_t block_of(std::size_t index) noexcept {
        return static_cast<std::size_t>(std::bit_width(index | (first_block_slots - 1)) -
                                        std::bit_width(first_block_slots - 1));
    }
    [[nodiscard]] static std::size_t first_of(std::size_t block) noexcept {
        return block == 0 ? 0 : first_block_slots / 2 << block;
    }
    [[nodiscard]] static std::size_t size_of(std::size_t block) noexcept {
        return block == 0 ? first_block_slots : first_of(block);
    }
    static_assert(first_block_slots << (block_count - 1) == max_slots);

    // Out of line: the usual case then needs fewer registers.
    [[nodiscard, gnu::noinline, gnu::cold]] int claim_free() noexcept {
        for (std::size_t w = 0; w < free_.size(); ++w) {
            const std::uint64_t free = free_[w].load(std::memory_order_acquire);
            if (free == 0) continue;
            const auto bit = static_cast<std::size_t>(std::countr_zero(free));
            const std::size_t index = w * word_bits + bit;
            if (!make_block(block_of(index))) return -1;
            free_[w].fetch_and(~(std::uint64_t{1} << bit), std::memory_order_relaxed);
            return static_cast<int>(index);
        }
        return -1;
    }

    [[nodiscard, gnu::noinline, gnu::cold]] SpanSlot& at_in_block(std::size_t index) noexcept {
        const std::size_t block = block_of(index);
        return blocks_[block].load(std::memory_order_relaxed)[index - first_of(block)];
    }

    [[nodiscard]] bool make_block(std::size_t block) noexcept {
        if (blocks_[block].load(std::memory_order_relaxed) != nullptr) return true;
        const KeepErrno keep;
        auto* slots = new (std::nothrow) SpanSlot[size_of(block)];
        if (slots == nullptr) return false;
        blocks_[block].store(slots, std::memory_order_release);
        return true;
    }

    [[nodiscard]] bool make_meta(SpanSlot& slot, std::size_t bytes) noexcept {
        drop_meta(slot);
        // Rounded up, so that a slightly longer text fits the same buffer.
        if (bytes <= kept_meta_bytes) bytes = std::bit_ceil(std::max(bytes, smallest_meta_bytes));
        if (!meta_budget_.take(bytes)) return false;
        const KeepErrno keep;
        slot.meta.reset(new (std::nothrow) char[bytes]);
        if (slot.meta == nullptr) {
            meta_budget_.give(bytes);
            return false;
        }
        slot.meta_capacity = static_cast<std::uint32_t>(bytes);
        return true;
    }

    void drop_meta(SpanSlot& slot) noexcept {
        if (slot.meta_capacity == 0) return;
        slot.meta.reset();
        meta_budget_.give(slot.meta_capacity);
        slot.meta_capacity = 0;
        slot.meta_bytes = 0;
    }

    /// A free slot keeps a small buffer for its next span, unless the budget is scarce.
    void drop_large_meta(SpanSlot& slot) noexcept {
        if (slot.meta_capacity == 0) return;
        if (slot.meta_capacity > kept_meta_bytes || meta_budget_.is_scarce()) drop_meta(slot);
    }

    /// False if the span is not open, or if it ended during the read.
    [[nodiscard]] static bool read_open(const SpanSlot& slot, OpenSpan& span) noexcept {
        const std::uint64_t before = slot.state.load(std::memory_order_acquire);
        if ((before & SpanSlot::open_bit) == 0) return false;
        // Acquire: if a value belongs to the slot's next span, the state read below has changed, too.
        span.region = slot.region.load(std::memory_order_acquire);
        span.step = slot.step.load(std::memory_order_acquire);
        span.begin_host_ns = slot.begin_host_ns.load(std::memory_order_acquire);
        span.seq = slot.seq.load(std::memory_order_acquire);
        span.depth = slot.depth.load(std::memory_order_acquire);
        span.on_device = slot.on_device.load(std::memory_order_acquire);
        return slot.state.load(std::memory_order_relaxed) == before;
    }

    // The owner's cache line, with the first block, which holds the usual number of open spans.
    alignas(64) std::array<std::uint16_t, 16> kept_{};  ///< free, but only the owner may claim these
    std::uint16_t kept_count_ = 0;
    bool has_meta_ = false;  ///< only the owner uses it: some slot may have a buffer
    std::array<Atomic<SpanSlot*>, block_count> blocks_{};
    MetaBudget& meta_budget_;
    alignas(64) std::array<Atomic<std::uint64_t>, max_slots / word_bits> free_{};  ///< a bit each; any thread's
};

/// The spans open on one thread, innermost last. It skips spans that other threads have ended.
class SpanStack {
  public:
    struct Entry {
        std::uint16_t slot;
        std::uint32_t generation;
        bool operator==(const Entry&) const = default;
    };

    SpanStack() noexcept = default;
    SpanStack(const SpanStack&) = delete;
    SpanStack& operator=(const SpanStack&) = delete;

    void clear() noexcept { size_ = 0; }
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }

    /// Any thread, after it has ended a span of the stack that is not its own.
    void note_ended_elsewhere() noexcept { (void)ended_elsewhere_.fetch_or(1, std::memory_order_release); }

    /// The number of spans on the stack, after removing those that other threads have ended.
    [[nodiscard]] std::uint16_t depth(SpanSlots& slots) noexcept {
        if (ended_elsewhere_.load(std::memory_order_relaxed) != 0) [[unlikely]]
            remove_ended_elsewhere(slots);
        return size_;
    }

    /// If memory runs out, the span is not put on the stack, and innermost() and depth() leave it out.
    void push(SpanSlots& slots, Entry entry) noexcept {
        if (size_ == capacity_ && !make_room(slots)) return;
        entries_[size_++] = entry;
    }

    /// The owner has taken the span of that entry, and its slot's next span is its innermost one. Returns that one's
    /// depth.
    [[nodiscard]] std::uint16_t renew(SpanSlots& slots, Entry entry) noexcept {
        const Entry next{entry.slot, entry.generation + 1};
        if (size_ > 0 && entries_[size_ - 1] == entry && ended_elsewhere_.load(std::memory_order_relaxed) == 0)
            [[likely]] {
            entries_[size_ - 1] = next;
            return static_cast<std::uint16_t>(size_ - 1);
        }
        return move_up(slots, entry, next);
    }

    /// Removes the entry from any position.
    void remove(Entry entry) noexcept {
        for (std::size_t i = size_; i-- > 0;) {
            if (entries_[i] != entry) continue;
            for (; i + 1 < size_; ++i) entries_[i] = entries_[i + 1];
            --size_;
            return;
        }
    }

    /// The innermost open span, of `region` if it is not null; null if there is none.
    [[nodiscard]] const Entry* innermost(SpanSlots& slots, const cep_region* region) const noexcept {
        for (std::size_t i = size_; i-- > 0;) {
            SpanSlot& slot = slots.at(entries_[i].slot);
            if (!SpanSlots::is_open(slot, entries_[i].generation)) continue;
            if (region == nullptr || slot.region.load(std::memory_order_relaxed) == region) return &entries_[i];
        }
        return nullptr;
    }

  private:
    static constexpr std::uint16_t first_capacity = 4;
    static constexpr std::uint16_t first_allocation = 16;

    [[gnu::noinline, gnu::cold]] std::uint16_t move_up(SpanSlots& slots, Entry entry, Entry next) noexcept {
        remove(entry);
        const std::uint16_t below = depth(slots);
        push(slots, next);
        return below;
    }

    [[gnu::noinline, gnu::cold]] void remove_ended_elsewhere(SpanSlots& slots) noexcept {
        (void)ended_elsewhere_.fetch_and(0, std::memory_order_acquire);
        compact(slots);
    }

    /// Removes ended spans, and grows if most of the spans are still open. At most max_slots − 1 others are open here.
    [[nodiscard, gnu::noinline, gnu::cold]] bool make_room(SpanSlots& slots) noexcept {
        const KeepErrno keep;
        compact(slots);
        if (size_ < (capacity_ + 1) / 2 || capacity_ == SpanSlots::max_slots) return size_ < capacity_;
        const auto capacity = std::max(first_allocation, static_cast<std::uint16_t>(2 * capacity_));
        std::unique_ptr<Entry[]> entries(new (std::nothrow) Entry[capacity]);
        if (entries == nullptr) return size_ < capacity_;
        std::copy_n(entries_, size_, entries.get());
        more_ = std::move(entries);
        entries_ = more_.get();
        capacity_ = capacity;
        return true;
    }

    /// Removes all ended spans. Those that other threads ended can be below open ones.
    void compact(SpanSlots& slots) noexcept {
        std::uint16_t kept = 0;
        for (std::size_t i = 0; i < size_; ++i)
            if (SpanSlots::is_open(slots.at(entries_[i].slot), entries_[i].generation)) entries_[kept++] = entries_[i];
        size_ = kept;
    }

    std::array<Entry, first_capacity> first_;  ///< most threads need no more
    Entry* entries_ = first_.data();
    std::uint16_t size_ = 0;
    std::uint16_t capacity_ = first_capacity;
    Atomic<std::uint32_t> ended_elsewhere_{0};  ///< 1: other threads may have ended some of the spans
    std::unique_ptr<Entry[]> more_;
};

}  // namespace cep
