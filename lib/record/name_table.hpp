// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "base/atomic.hpp"
#include "base/json_text.hpp"

namespace cep {

/// A name and its JSON text. A name in a table never changes and is never freed.
struct Name {
    explicit Name(std::string_view name) : text(name) { json::append_string(quoted, text); }

    std::string text;
    std::string quoted;
    // Used by the table:
    Name* older = nullptr;   ///< the name added before this one
    Name* next = nullptr;    ///< in the same bucket
    std::size_t number = 0;  ///< names in the table when this one was added, itself included
};

/// All names seen so far. Lookup and insertion take no lock, so the table stays usable in a forked child, whatever
/// other threads were doing at the fork.
///
/// To add a name, a thread pushes it onto the list at `newest_`. That one atomic step numbers the name and prevents a
/// second copy. Then the thread links the name into its hash bucket, for fast lookup. A thread that does not find a
/// name in its bucket searches the whole list if some names are not linked yet.
template <class Node>
class NameTable {
  public:
    explicit NameTable(std::size_t limit) noexcept : limit_(limit) {}
    NameTable(const NameTable&) = delete;
    NameTable& operator=(const NameTable&) = delete;
    ~NameTable() {
        for (Node* node = newest_.load(std::memory_order_relaxed); node != nullptr;) {
            const std::unique_ptr<Node> owned(node);
            node = older_than(*node);
        }
    }

    [[nodiscard]] std::size_t limit() const noexcept { return limit_; }
    [[nodiscard]] std::size_t size() const noexcept { return number_of(newest_.load(std::memory_order_acquire)); }
    /// Visits all names, the newest first.
    template <class Visit>
    void for_each(Visit visit) const {
        for (const Node* node = newest_.load(std::memory_order_acquire); node != nullptr; node = older_than(*node))
            visit(*node);
    }

    /// Null if the name is not in its bucket: it is unknown, or another thread is just adding it.
    [[nodiscard]] Node* find(std::string_view name) const noexcept {
        for (Node* node = buckets_[bucket_of(name)].load(std::memory_order_acquire); node != nullptr;
             node = static_cast<Node*>(node->next))
            if (node->text == name) return node;
        return nullptr;
    }

    /// The node of that name; `make(name)` creates it the first time. Null if the table is full. `make` may throw.
    template <class Make>
    [[nodiscard]] Node* find_or_add(std::string_view name, Make make) {
        if (Node* found = find(name)) return found;
        const std::size_t linked = linked_.load(std::memory_order_acquire);
        Node* newest = newest_.load(std::memory_order_acquire);
        // If all names were linked before, the bucket is complete, and a second look at it is enough.
        Node* found = linked == number_of(newest) ? find(name) : search(newest, nullptr, name);
        std::unique_ptr<Node> node;
        while (found == nullptr) {
            if (number_of(newest) >= limit_) return nullptr;
            if (node == nullptr) node.reset(make(name));
            node->older = newest;
            node->number = number_of(newest) + 1;
            const Node* const searched = newest;
            if (newest_.compare_exchange_strong(newest, node.get(), std::memory_order_release,
                                                std::memory_order_acquire))
                return link(*node.release());
            found = search(newest, searched, name);
        }
        return found;
    }

  private:
    static constexpr std::size_t bucket_count = 128;

    [[nodiscard]] static std::size_t bucket_of(std::string_view name) noexcept {
        std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
        for (char c : name) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3;
        return (hash ^ (hash >> 32)) % bucket_count;
    }
    [[nodiscard]] static std::size_t number_of(const Node* newest) noexcept {
        if (newest == nullptr) return 0;
        return newest->number;
    }
    [[nodiscard]] static Node* older_than(const Node& node) noexcept { return static_cast<Node*>(node.older); }

    /// Searches the list from `newest` back to `until`, which is excluded.
    [[nodiscard]] static Node* search(Node* newest, const Node* until, std::string_view name) noexcept {
        for (; newest != until; newest = older_than(*newest))
            if (newest->text == name) return newest;
        return nullptr;
    }

    Node* link(Node& node) noexcept {
        Atomic<Node*>& bucket = buckets_[bucket_of(node.text)];
        Node* head = bucket.load(std::memory_order_relaxed);
        do {
            node.next = head;
        } while (!bucket.compare_exchange_weak(head, &node, std::memory_order_release, std::memory_order_relaxed));
        linked_.fetch_add(1, std::memory_order_release);
        return &node;
    }

    std::array<Atomic<Node*>, bucket_count> buckets_{};
    Atomic<Node*> newest_{nullptr};
    Atomic<std::size_t> linked_{0};
    const std::size_t limit_;
};

}  // namespace cep
