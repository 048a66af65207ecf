// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "json_text.hpp"

namespace cep {

/// A name and its JSON form, ready to be written. Never changes and is never freed once it is in a table.
struct Name {
    explicit Name(std::string_view name) : text(name) { json::append_string(quoted, text); }

    std::string text;
    std::string quoted;
    Name* next = nullptr;
};

/// Names seen so far, found without a lock and never forgotten: append-only buckets of atomic lists. It stays usable
/// in a forked child, whatever another thread was doing at the fork.
template <class Node>
class NameTable {
  public:
    explicit NameTable(std::size_t limit) noexcept : limit_(limit) {}
    NameTable(const NameTable&) = delete;
    NameTable& operator=(const NameTable&) = delete;
    ~NameTable() {
        for (auto& bucket : buckets_)
            for (Node* node = bucket.load(std::memory_order_relaxed); node != nullptr;) {
                std::unique_ptr<Node> owned(node);
                node = static_cast<Node*>(node->next);
            }
    }

    [[nodiscard]] std::size_t limit() const noexcept { return limit_; }

    [[nodiscard]] Node* find(std::string_view name) const noexcept {
        return search(buckets_[bucket_of(name)].load(std::memory_order_acquire), nullptr, name);
    }

    /// The node of that name, made by `make(name)` the first time. Null when the table is full; make may throw.
    template <class Make>
    [[nodiscard]] Node* find_or_add(std::string_view name, Make make) {
        if (Node* found = find(name)) return found;
        if (size_.fetch_add(1, std::memory_order_relaxed) >= limit_) {
            size_.fetch_sub(1, std::memory_order_relaxed);
            return nullptr;
        }
        return insert(name, std::unique_ptr<Node>(make(name)));
    }

  private:
    static constexpr std::size_t bucket_count = 128;

    [[nodiscard]] static std::size_t bucket_of(std::string_view name) noexcept {
        std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
        for (char c : name) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3;
        return (hash ^ (hash >> 32)) % bucket_count;
    }

    [[nodiscard]] static Node* search(Node* from, const Node* until, std::string_view name) noexcept {
        for (; from != until; from = static_cast<Node*>(from->next))
            if (from->text == name) return from;
        return nullptr;
    }

    Node* insert(std::string_view name, std::unique_ptr<Node> node) noexcept {
        std::atomic<Node*>& bucket = buckets_[bucket_of(name)];
        Node* head = bucket.load(std::memory_order_acquire);
        const Node* searched = nullptr;
        for (;;) {
            if (Node* other = search(head, searched, name)) {
                size_.fetch_sub(1, std::memory_order_relaxed);
                return other;
            }
            searched = head;
            node->next = head;
            if (bucket.compare_exchange_weak(head, node.get(), std::memory_order_release, std::memory_order_acquire))
                return node.release();
        }
    }

    std::array<std::atomic<Node*>, bucket_count> buckets_{};
    std::atomic<std::size_t> size_{0};
    const std::size_t limit_;
};

}  // namespace cep
