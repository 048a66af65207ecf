// SPDX-License-Identifier: Apache-2.0
#include "explorer.hpp"

#include <ucontext.h>
#include <csetjmp>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <unordered_map>

#include "atomic.hpp"

namespace model {
namespace {

/// The next operation of a thread. Without a location it waits for other threads.
struct Operation {
    const void* location = nullptr;
    bool writes = true;
};

/// Whether the order of two operations of different threads matters.
[[nodiscard]] bool depends(const Operation& a, const Operation& b) {
    const bool same = a.location == b.location || a.location == nullptr || b.location == nullptr;
    return same && (a.writes || b.writes);
}

/// A branch of the search: over a set of threads, or over a number of values.
struct Branch {
    bool of_threads;
    std::uint32_t options;
    std::uint32_t taken;
    std::uint32_t done;    ///< threads tried so far
    std::uint32_t asleep;  ///< threads whose next operation was tried earlier with the same effect
};

struct Fiber {
    static constexpr std::size_t stack_bytes = 128 * 1024;
    std::unique_ptr<char[]> stack{new char[stack_bytes]};
    ucontext_t context{};
    std::jmp_buf place{};
    bool started = false;
    bool finished = false;
    bool waits = false;
    bool sees_latest = false;  ///< it has waited until no other thread could run
    Operation next;
    std::size_t ready_since = 0;  ///< the step after which `next` could run
};

struct Event {
    std::size_t thread;
    Site site;
    const void* location;
    std::uint64_t value;
};

/// The search of this process, and its current execution.
class Explorer {
  public:
    void execute(const Maker& maker);
    [[nodiscard]] bool advance();

    // For the running thread.
    [[nodiscard]] std::size_t thread() const { return thread_; }
    [[nodiscard]] Clock& clock() { return clocks_[thread_]; }
    [[nodiscard]] std::size_t step() const { return steps_; }
    [[nodiscard]] std::size_t ready_since() const { return fibers_[thread_].ready_since; }
    std::uint32_t tick() { return ++clock()[thread_]; }
    void before(Operation operation);
    [[nodiscard]] std::uint32_t choose_value(std::uint32_t count);
    void wait();
    void fail(const std::string& what);
    void log(const Site& site, const void* location, std::uint64_t value);
    [[nodiscard]] bool is(Mutation::What what, const Site& site) const;

    Mutation mutation;
    Outcome outcome;
    std::unordered_map<const std::byte*, Shadow> memory;

  private:
    static void fiber_main();
    void resume(std::size_t thread);
    void park();
    void start_threads();
    void run_threads();
    [[nodiscard]] std::uint32_t runnable();
    [[nodiscard]] std::size_t choose_thread(std::uint32_t enabled);
    void fall_asleep(std::uint32_t candidates, std::size_t taken);
    void note_site(const Site& site);

    std::array<Fiber, max_threads> fibers_;
    std::array<Clock, max_threads> clocks_{};
    std::jmp_buf scheduler_{};
    Scenario* scenario_ = nullptr;
    std::size_t thread_ = 0;
    std::vector<Branch> path_;
    std::size_t depth_ = 0;
    std::uint32_t asleep_ = 0;
    bool draining_ = false;  ///< the execution only runs to its end and branches no more
    std::size_t steps_ = 0;
    std::vector<Event> events_;
};

Explorer* explorer = nullptr;

void Explorer::fiber_main() {
    for (;;) {
        explorer->scenario_->run(explorer->thread_);
        explorer->fibers_[explorer->thread_].finished = true;
        explorer->park();
    }
}

void Explorer::resume(std::size_t thread) {
    thread_ = thread;
    if (_setjmp(scheduler_) == 0) {
        Fiber& fiber = fibers_[thread];
        if (fiber.started) _longjmp(fiber.place, 1);
        fiber.started = true;
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.get();
        fiber.context.uc_stack.ss_size = Fiber::stack_bytes;
        makecontext(&fiber.context, &Explorer::fiber_main, 0);
        setcontext(&fiber.context);
    }
    thread_ = 0;
}

void Explorer::park() {
    if (_setjmp(fibers_[thread_].place) == 0) _longjmp(scheduler_, 1);
}

void Explorer::before(Operation operation) {
    if (thread_ == 0) return;
    fibers_[thread_].next = operation;
    fibers_[thread_].ready_since = steps_;
    park();
}

void Explorer::wait() {
    fibers_[thread_].waits = true;
    before({});
    fibers_[thread_].waits = false;
}

void Explorer::start_threads() {
    for (std::size_t t = 1; t <= scenario_->threads(); ++t) {
        fibers_[t].finished = fibers_[t].waits = fibers_[t].sees_latest = false;
        clocks_[t] = clocks_[0];
        clocks_[t][t] = 1;
        resume(t);  // to its first operation
    }
}

std::uint32_t Explorer::runnable() {
    std::uint32_t ready = 0;
    std::uint32_t waiting = 0;
    for (std::size_t t = 1; t <= scenario_->threads(); ++t)
        if (!fibers_[t].finished) (fibers_[t].waits ? waiting : ready) |= 1U << t;
    if (ready != 0 || waiting == 0) return ready;
    for (std::size_t t = 1; t <= scenario_->threads(); ++t) {
        if (fibers_[t].finished) continue;
        if (fibers_[t].sees_latest) fail("deadlock: threads wait for each other");
        fibers_[t].sees_latest = true;
    }
    return waiting;
}

std::size_t Explorer::choose_thread(std::uint32_t enabled) {
    const std::uint32_t awake = enabled & ~asleep_;
    if (draining_ || awake == 0) {
        draining_ = true;
        const std::uint32_t later = enabled & ~((2U << (steps_ % scenario_->threads())) - 1);
        return static_cast<std::size_t>(std::countr_zero(later != 0 ? later : enabled));
    }
    const bool replayed = depth_ < path_.size();
    if (std::has_single_bit(awake)) {
        const auto only = static_cast<std::size_t>(std::countr_zero(awake));
        fall_asleep(asleep_, only);
        return only;
    }
    if (!replayed) path_.push_back({true, enabled, static_cast<std::uint32_t>(std::countr_zero(awake)), 0, asleep_});
    const Branch& branch = path_[depth_++];
    fall_asleep(branch.asleep | branch.done, branch.taken);
    return branch.taken;
}

/// Threads whose operation is independent of the one taken stay asleep.
void Explorer::fall_asleep(std::uint32_t candidates, std::size_t taken) {
    asleep_ = 0;
    for (std::size_t t = 1; t <= scenario_->threads(); ++t)
        if ((candidates >> t & 1) != 0 && t != taken && !depends(fibers_[t].next, fibers_[taken].next))
            asleep_ |= 1U << t;
}

std::uint32_t Explorer::choose_value(std::uint32_t count) {
    if (count == 1 || draining_ || thread_ == 0 || fibers_[thread_].sees_latest) return 0;
    if (depth_ == path_.size()) path_.push_back({false, count, 0, 0, 0});
    return path_[depth_++].taken;
}

void Explorer::run_threads() {
    for (std::uint32_t enabled = runnable(); enabled != 0; enabled = runnable()) {
        if (++steps_ > 20'000) {
            std::fprintf(stderr, "an execution does not end\n%s\n", outcome.failure.c_str());
            std::abort();
        }
        const std::size_t taken = choose_thread(enabled);
        const bool wrote = fibers_[taken].next.location != nullptr && fibers_[taken].next.writes;
        resume(taken);
        for (std::size_t t = 1; wrote && t <= scenario_->threads(); ++t)
            if (t != taken) fibers_[t].waits = fibers_[t].sees_latest = false;
    }
}

void Explorer::execute(const Maker& maker) {
    ++outcome.executions;
    memory.clear();
    events_.clear();
    clocks_ = {};
    clocks_[0][0] = 1;
    depth_ = steps_ = asleep_ = 0;
    draining_ = false;
    const std::unique_ptr<Scenario> scenario = maker();
    scenario_ = scenario.get();
    tick();
    start_threads();
    run_threads();
    for (const Clock& clock : clocks_)
        for (std::size_t t = 0; t < max_threads; ++t) clocks_[0][t] = std::max(clocks_[0][t], clock[t]);
    scenario->finish();
}

bool Explorer::advance() {
    for (; !path_.empty(); path_.pop_back()) {
        Branch& last = path_.back();
        if (!last.of_threads) {
            if (++last.taken < last.options) return true;
            continue;
        }
        last.done |= 1U << last.taken;
        const std::uint32_t rest = last.options & ~last.asleep & ~last.done;
        last.taken = static_cast<std::uint32_t>(std::countr_zero(rest));
        if (rest != 0) return true;
    }
    return false;
}

[[nodiscard]] std::string base_name(const char* path) {
    const char* const slash = std::strrchr(path, '/');
    return slash == nullptr ? path : slash + 1;
}

void Explorer::fail(const std::string& what) {
    if (!outcome.failure.empty()) return;
    std::ostringstream text;
    text << what << " (execution " << outcome.executions << ")\n";
    for (const Event& event : events_)
        text << "  thread " << event.thread << ": " << event.site.function << " "
             << (event.site.kind == Kind::load    ? "loads"
                 : event.site.kind == Kind::store ? "stores"
                                                  : "updates")
             << " " << event.location << " " << std::hex << event.value << std::dec << " at "
             << base_name(event.site.file) << ":" << event.site.line << "\n";
    outcome.failure = text.str();
    draining_ = true;
}

void Explorer::log(const Site& site, const void* location, std::uint64_t value) {
    note_site(site);
    events_.push_back({thread_, site, location, value});
}

[[nodiscard]] bool is_same(const Site& a, const Site& b) {
    return a.line == b.line && a.kind == b.kind && a.order == b.order && std::strcmp(a.file, b.file) == 0;
}

void Explorer::note_site(const Site& site) {
    for (const Site& known : outcome.sites)
        if (is_same(known, site)) return;
    outcome.sites.push_back(site);
}

bool Explorer::is(Mutation::What what, const Site& site) const {
    return mutation.what == what && is_same(mutation.site, site);
}

[[nodiscard]] bool acquires(std::memory_order order) {
    return order == std::memory_order_acquire || order == std::memory_order_acq_rel ||
           order == std::memory_order_seq_cst;
}

[[nodiscard]] bool releases(std::memory_order order) {
    return order == std::memory_order_release || order == std::memory_order_acq_rel ||
           order == std::memory_order_seq_cst;
}

[[nodiscard]] std::memory_order mutated(const Site& site, std::memory_order order) {
    if (explorer->is(Mutation::What::no_acquire, site))
        return releases(order) ? std::memory_order_release : std::memory_order_relaxed;
    if (explorer->is(Mutation::What::no_release, site))
        return acquires(order) ? std::memory_order_acquire : std::memory_order_relaxed;
    return order;
}

[[nodiscard]] std::vector<Mutation> mutations_of(const Site& site) {
    std::vector<Mutation> mutations;
    if (acquires(site.order)) mutations.push_back({Mutation::What::no_acquire, site});
    if (releases(site.order)) mutations.push_back({Mutation::What::no_release, site});
    if (acquires(site.failure)) mutations.push_back({Mutation::What::no_acquire_on_failure, site});
    if (site.kind == Kind::update) mutations.push_back({Mutation::What::split, site});
    return mutations;
}

}  // namespace

Outcome explore(const Maker& maker, const Mutation& mutation) {
    Explorer own;
    own.mutation = mutation;
    explorer = &own;
    do {
        own.execute(maker);
    } while (own.outcome.failure.empty() && own.advance());
    explorer = nullptr;
    return std::move(own.outcome);
}

std::vector<std::string> surviving_mutations(const std::vector<Maker>& scenarios, const std::string& file,
                                             std::size_t& mutations) {
    std::vector<std::string> survivors;
    std::vector<Mutation> all;
    for (const Maker& scenario : scenarios)
        for (const Site& site : explore(scenario).sites) {
            if (base_name(site.file) != file) continue;
            if (std::any_of(all.begin(), all.end(), [&](const Mutation& m) { return is_same(m.site, site); })) continue;
            for (const Mutation& mutation : mutations_of(site)) all.push_back(mutation);
        }
    mutations = all.size();
    for (const Mutation& mutation : all)
        if (std::none_of(scenarios.begin(), scenarios.end(),
                         [&](const Maker& scenario) { return !explore(scenario, mutation).failure.empty(); }))
            survivors.push_back(mutation.text());
    return survivors;
}

std::string Mutation::text() const {
    const char* const operation = site.kind == Kind::load ? "load" : site.kind == Kind::store ? "store" : "update";
    const char* const fault = what == What::split        ? "in two steps"
                              : what == What::no_acquire ? "without acquire"
                              : what == What::no_release ? "without release"
                                                         : "without acquire on failure";
    return std::string(site.function) + ": " + operation + " " + fault;
}

void require(bool condition, const char* what) {
    if (!condition) explorer->fail(what);
}

void yield_thread() noexcept {
    explorer->wait();
}

Shadow::Shadow() noexcept : written_at_(explorer->clock()[explorer->thread()]), written_by_(explorer->thread()) {}

void Shadow::read() noexcept {
    if (written_at_ > explorer->clock()[written_by_]) explorer->fail("data race: read of what another thread writes");
    read_at_[explorer->thread()] = explorer->clock()[explorer->thread()];
}

void Shadow::write() noexcept {
    const Clock& clock = explorer->clock();
    if (written_at_ > clock[written_by_]) explorer->fail("data race: write of what another thread writes");
    for (std::size_t t = 0; t < max_threads; ++t)
        if (read_at_[t] > clock[t]) explorer->fail("data race: write of what another thread reads");
    written_by_ = explorer->thread();
    written_at_ = clock[written_by_];
}

Location::Location(std::uint64_t value) noexcept {
    append(value, std::memory_order_relaxed, nullptr);
}

/// The oldest store that this thread's loads can see. It happened before the load, or the thread has seen it.
std::size_t Location::oldest_visible() const noexcept {
    const Clock& clock = explorer->clock();
    if (stores_[0].time > clock[stores_[0].thread]) explorer->fail("data race: an atomic is used before it is made");
    std::size_t oldest = stores_.size() - 1;
    while (oldest > 0 && stores_[oldest].time > clock[stores_[oldest].thread]) --oldest;
    for (const Seen& seen : seen_)
        if (seen.time <= clock[seen.thread]) oldest = std::max(oldest, seen.store);
    return oldest;
}

/// If a store came while the load could already run, the load need not try older stores here: another branch runs the
/// load before that store.
std::size_t Location::oldest_to_try() const noexcept {
    const std::size_t oldest = oldest_visible();
    return stores_.back().step > explorer->ready_since() ? stores_.size() - 1 : oldest;
}

std::uint64_t Location::see(std::size_t store, std::memory_order order) const noexcept {
    const Store& seen = stores_[store];
    seen_.push_back({explorer->thread(), explorer->tick(), store});
    if (acquires(order))
        for (std::size_t t = 0; t < max_threads; ++t)
            explorer->clock()[t] = std::max(explorer->clock()[t], seen.released[t]);
    return seen.value;
}

void Location::append(std::uint64_t value, std::memory_order order, const Clock* sequence) noexcept {
    Store store{value, explorer->thread(), explorer->tick(), explorer->step(), {}};
    if (releases(order)) {
        store.released = explorer->clock();
        explorer->tick();  // later operations of the thread are not part of this release
    }
    for (std::size_t t = 0; sequence != nullptr && t < max_threads; ++t)
        store.released[t] = std::max(store.released[t], (*sequence)[t]);
    stores_.push_back(store);
}

std::uint64_t Location::load(std::memory_order order, Site site) const noexcept {
    explorer->before({this, false});
    const std::size_t latest = stores_.size() - 1;
    const auto visible = static_cast<std::uint32_t>(latest - oldest_to_try() + 1);
    const std::uint64_t value = see(latest - explorer->choose_value(visible), mutated(site, order));
    explorer->log(site, this, value);
    return value;
}

void Location::store(std::uint64_t value, std::memory_order order, Site site) noexcept {
    explorer->before({this, true});
    (void)oldest_visible();
    append(value, mutated(site, order), nullptr);
    explorer->log(site, this, value);
}

std::uint64_t Location::update(Change change, std::uint64_t operand, std::memory_order order, Site site) noexcept {
    explorer->before({this, true});
    (void)oldest_visible();
    const std::memory_order used = mutated(site, order);
    const std::uint64_t old = see(stores_.size() - 1, used);
    const Clock sequence = stores_.back().released;
    if (explorer->is(Mutation::What::split, site)) explorer->before({this, true});
    append(change(old, operand), used, &sequence);
    explorer->log(site, this, change(old, operand));
    return old;
}

bool Location::compare_exchange(std::uint64_t& expected, std::uint64_t desired, std::memory_order success,
                                std::memory_order failure, Site site) noexcept {
    explorer->before({this, true});
    const std::size_t latest = stores_.size() - 1;
    // A failing compare and exchange may see an older value, unless that equals the expected one.
    std::vector<std::size_t> seen{latest};
    for (std::size_t i = latest; i-- > oldest_to_try();)
        if (stores_[i].value != expected) seen.push_back(i);
    const std::size_t chosen = seen[explorer->choose_value(static_cast<std::uint32_t>(seen.size()))];
    const bool equal = stores_[chosen].value == expected;
    if (explorer->is(Mutation::What::no_acquire_on_failure, site)) failure = std::memory_order_relaxed;
    const std::uint64_t old = see(chosen, equal ? mutated(site, success) : failure);
    const Clock sequence = stores_[chosen].released;
    if (equal) {
        if (explorer->is(Mutation::What::split, site)) explorer->before({this, true});
        append(desired, mutated(site, success), &sequence);
    }
    explorer->log(site, this, equal ? desired : old);
    expected = old;
    return equal;
}

}  // namespace model

namespace cep {

void note_read(const void* memory, std::size_t bytes) noexcept {
    for (std::size_t i = 0; i < bytes; ++i)
        model::explorer->memory.try_emplace(static_cast<const std::byte*>(memory) + i).first->second.read();
}

void note_write(const void* memory, std::size_t bytes) noexcept {
    for (std::size_t i = 0; i < bytes; ++i)
        model::explorer->memory.try_emplace(static_cast<const std::byte*>(memory) + i).first->second.write();
}

}  // namespace cep
