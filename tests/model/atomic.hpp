// SPDX-License-Identifier: Apache-2.0
//
// Replaces lib/base/atomic.hpp for the structures under test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "explorer.hpp"

namespace cep {

template <class T>
class Atomic {
    static constexpr std::size_t size_bytes = sizeof(T);  // NOLINT(bugprone-sizeof-expression): of pointers, too
    static_assert(std::is_trivially_copyable_v<T> && size_bytes <= sizeof(std::uint64_t));

  public:
    Atomic() noexcept : Atomic(T{}) {}
    Atomic(T value) noexcept : location_(bits(value)) {}  // NOLINT(google-explicit-constructor)
    Atomic(const Atomic&) = delete;
    Atomic& operator=(const Atomic&) = delete;

    [[nodiscard]] T load(std::memory_order order, const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                         const char* function = __builtin_FUNCTION()) const noexcept {
        return value(location_.load(order, {file, line, function, model::Kind::load, order}));
    }
    void store(T given, std::memory_order order, const char* file = __builtin_FILE(), int line = __builtin_LINE(),
               const char* function = __builtin_FUNCTION()) noexcept {
        location_.store(bits(given), order, {file, line, function, model::Kind::store, order});
    }
    T fetch_add(T operand, std::memory_order order, const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                const char* function = __builtin_FUNCTION()) noexcept {
        return update([](std::uint64_t now, std::uint64_t by) { return now + by; }, operand, order,
                      {file, line, function, model::Kind::update, order});
    }
    T fetch_or(T operand, std::memory_order order, const char* file = __builtin_FILE(), int line = __builtin_LINE(),
               const char* function = __builtin_FUNCTION()) noexcept {
        return update([](std::uint64_t now, std::uint64_t by) { return now | by; }, operand, order,
                      {file, line, function, model::Kind::update, order});
    }
    T fetch_and(T operand, std::memory_order order, const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                const char* function = __builtin_FUNCTION()) noexcept {
        return update([](std::uint64_t now, std::uint64_t by) { return now & by; }, operand, order,
                      {file, line, function, model::Kind::update, order});
    }
    [[nodiscard]] bool compare_exchange_strong(T& expected, T desired, std::memory_order success,
                                               std::memory_order failure, const char* file = __builtin_FILE(),
                                               int line = __builtin_LINE(),
                                               const char* function = __builtin_FUNCTION()) noexcept {
        std::uint64_t now = bits(expected);
        const bool done = location_.compare_exchange(now, bits(desired), success, failure,
                                                     {file, line, function, model::Kind::update, success, failure});
        expected = value(now);
        return done;
    }
    /// Fails only if the strong one would: a spurious failure only repeats the loop, which changes nothing.
    [[nodiscard]] bool compare_exchange_weak(T& expected, T desired, std::memory_order success,
                                             std::memory_order failure, const char* file = __builtin_FILE(),
                                             int line = __builtin_LINE(),
                                             const char* function = __builtin_FUNCTION()) noexcept {
        return compare_exchange_strong(expected, desired, success, failure, file, line, function);
    }

  private:
    [[nodiscard]] static std::uint64_t bits(T value) noexcept {
        std::uint64_t result = 0;
        std::memcpy(&result, &value, size_bytes);
        return result;
    }
    [[nodiscard]] static T value(std::uint64_t bits) noexcept {
        T result{};
        std::memcpy(&result, &bits, size_bytes);
        return result;
    }
    T update(model::Location::Change change, T operand, std::memory_order order, model::Site site) noexcept {
        return value(location_.update(change, bits(operand), order, site));
    }

    model::Location location_;
};

using model::yield_thread;
void note_read(const void* memory, std::size_t bytes) noexcept;
void note_write(const void* memory, std::size_t bytes) noexcept;

}  // namespace cep
