// SPDX-License-Identifier: Apache-2.0
//
// Runs a scenario of two or three threads in every order of their atomic operations, with every value that each load
// may see. Threads switch only at atomic operations. Vector clocks find data races on plain memory, whatever the order
// of execution.
//
// The memory model is that of C++20 with two restrictions: a location's stores are ordered by their execution, and a
// load sees only stores executed before it. So relaxed, acquire and release operations and release sequences behave as
// on weakly ordered hardware, except that a load is never reordered with a later store of the same thread. The
// structures use no fences and no seq_cst, so the explorer does not model these.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace model {

/// Thread 0 sets up the scenario and checks it at the end; the other threads run concurrently.
inline constexpr std::size_t max_threads = 4;
using Clock = std::array<std::uint32_t, max_threads>;

enum class Kind : std::uint8_t { load, store, update };

/// An atomic operation in the source.
struct Site {
    const char* file;
    int line;
    const char* function;
    Kind kind;
    std::memory_order order;
    std::memory_order failure = std::memory_order_relaxed;  ///< of a compare and exchange
};

/// A planted fault: an operation loses part of its memory order, or an update is no longer atomic.
struct Mutation {
    enum class What : std::uint8_t { none, no_acquire, no_release, no_acquire_on_failure, split } what = What::none;
    Site site{};
    [[nodiscard]] std::string text() const;
};

/// The operations of the threads on one structure. Each execution makes a new one.
class Scenario {
  public:
    Scenario() = default;
    Scenario(const Scenario&) = delete;
    Scenario& operator=(const Scenario&) = delete;
    virtual ~Scenario() = default;
    [[nodiscard]] virtual std::size_t threads() const { return 2; }
    virtual void run(std::size_t thread) = 0;  ///< from 1
    virtual void finish() {}                   ///< after all threads have run
};
using Maker = std::function<std::unique_ptr<Scenario>()>;

template <class T>
[[nodiscard]] Maker maker_of() {
    return [] { return std::make_unique<T>(); };
}

struct Outcome {
    std::uint64_t executions = 0;
    std::string failure;      ///< the first failure, with the operations of its execution
    std::vector<Site> sites;  ///< all executed operations
};

/// Runs all executions, and stops at the first failure.
[[nodiscard]] Outcome explore(const Maker& maker, const Mutation& mutation = {});

/// The faults of single operations of `file` that no scenario finds, as text.
[[nodiscard]] std::vector<std::string> surviving_mutations(const std::vector<Maker>& scenarios, const std::string& file,
                                                           std::size_t& mutations);

/// Within a scenario.
void require(bool condition, const char* what);
void yield_thread() noexcept;

/// The threads that last wrote and read a plain memory location.
class Shadow {
  public:
    Shadow() noexcept;
    void read() noexcept;
    void write() noexcept;

  private:
    std::uint32_t written_at_;
    std::size_t written_by_;
    Clock read_at_{};
};

/// Plain data that the threads of a scenario hand to each other.
template <class T>
class Plain {
  public:
    Plain(T value = {}) noexcept : value_(value) {}  // NOLINT(google-explicit-constructor)
    Plain(const Plain& other) noexcept : value_(other) {}
    Plain& operator=(const Plain& other) noexcept { return *this = static_cast<T>(other); }
    Plain& operator=(T value) noexcept {
        shadow_.write();
        value_ = value;
        return *this;
    }
    operator T() const noexcept {  // NOLINT(google-explicit-constructor)
        shadow_.read();
        return value_;
    }

  private:
    T value_;
    mutable Shadow shadow_;
};

/// The stores of one atomic, as bits, and the threads that have seen them.
class Location {
  public:
    explicit Location(std::uint64_t value) noexcept;
    [[nodiscard]] std::uint64_t load(std::memory_order order, Site site) const noexcept;
    void store(std::uint64_t value, std::memory_order order, Site site) noexcept;
    using Change = std::uint64_t (*)(std::uint64_t now, std::uint64_t operand);
    std::uint64_t update(Change change, std::uint64_t operand, std::memory_order order, Site site) noexcept;
    [[nodiscard]] bool compare_exchange(std::uint64_t& expected, std::uint64_t desired, std::memory_order success,
                                        std::memory_order failure, Site site) noexcept;

  private:
    struct Store {
        std::uint64_t value;
        std::size_t thread;
        std::uint32_t time;  ///< clock of the storing thread
        std::size_t step;    ///< step of the execution
        Clock released;      ///< an acquire of this store synchronises with this
    };
    struct Seen {
        std::size_t thread;
        std::uint32_t time;
        std::size_t store;
    };

    [[nodiscard]] std::size_t oldest_visible() const noexcept;
    [[nodiscard]] std::size_t oldest_to_try() const noexcept;
    std::uint64_t see(std::size_t store, std::memory_order order) const noexcept;
    void append(std::uint64_t value, std::memory_order order, const Clock* sequence) noexcept;

    std::vector<Store> stores_;
    mutable std::vector<Seen> seen_;
};

}  // namespace model
