// SPDX-License-Identifier: Apache-2.0
/**
 * @file cep.hpp
 * @brief cep, the CUDA Event Profiler, for C++17: classes over the C interface of <cep/cep.h>, with nothing to link.
 *
 * @code{.cpp}
 *   cep::Options options;
 *   options.directory("output/cuda_event_profiler").record_every_n_steps(10);
 *   cep::Profiler profiler(options);
 *   const cep::Region forward = profiler.region("forward");
 *   for (std::int64_t step = 0; step < steps; ++step) {
 *       profiler.step(step);
 *       const cep::Span span = forward.begin(stream);
 *       run_forward(stream);
 *   }
 * @endcode
 *
 * Functions for use outside the step loop throw cep::Error. Functions of the step loop are noexcept and cost as much as
 * the C calls; they return the C code, which may be ignored. A default-constructed Profiler, Region or Span is off and
 * accepts every call, so that a job whose profiler could not be opened continues unprofiled.
 *
 * A stream is a cudaStream_t or CUstream as void *. nullptr is the legacy default stream, CEP_HOST the host clock.
 * Any number of threads may use a Profiler or a Region at once. One thread at a time may use a Span; it can be moved to
 * another thread.
 */
#ifndef CEP_CEP_HPP
#define CEP_CEP_HPP

#include <cep/cep.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace cep {

/// A call of libcep failed. code() is a negative CEP_E… code; what() is one line that names the argument, option or
/// path. A newer library may return codes that this header does not define.
class Error : public std::runtime_error {
  public:
    Error(std::int32_t code, const std::string& message) : std::runtime_error(message), code_(code) {}

    [[nodiscard]] std::int32_t code() const noexcept { return code_; }

  private:
    std::int32_t code_;
};

/// The kind of a phase. Any other CEP_KIND_… value may be cast to it.
enum class Kind : std::int32_t {
    automatic = CEP_KIND_AUTO,  ///< Infer from the words of the name.
    step = CEP_KIND_STEP,
    compute = CEP_KIND_COMPUTE,
    comm = CEP_KIND_COMM,
    data = CEP_KIND_DATA,
    memory = CEP_KIND_MEMORY,
    host = CEP_KIND_HOST,
    other = CEP_KIND_OTHER,
};

enum class Layout : std::int32_t { full = CEP_LAYOUT_FULL, flat = CEP_LAYOUT_FLAT, spans = CEP_LAYOUT_SPANS };

enum class Backend : std::int32_t { automatic = CEP_BACKEND_AUTO, host = CEP_BACKEND_HOST };

/// Default timeout of close() and flush().
inline constexpr std::chrono::milliseconds default_timeout{5000};

namespace detail {

[[noreturn]] inline void raise(std::int32_t code) {
    const char* message = cep_last_error();
    throw Error(code, *message != '\0' ? message : cep_strerror(code));
}

inline void check(std::int32_t code) {
    if (code != CEP_OK) raise(code);
}

/// Until 1.0 a minor version may be incompatible without a new soname.
inline void check_version() {
    const char* version = cep_version();
    char* rest = nullptr;
    const long major = std::strtol(version, &rest, 10);
    const long minor = *rest == '.' ? std::strtol(rest + 1, nullptr, 10) : -1;
    if (major == CEP_VERSION_MAJOR && minor == CEP_VERSION_MINOR) return;
    throw Error(CEP_EINVAL, std::string("this is libcep ") + version + "; this program needs " +
                                std::to_string(CEP_VERSION_MAJOR) + "." + std::to_string(CEP_VERSION_MINOR) + ".x");
}

}  // namespace detail

/// What to record, and where. Each call overrides earlier ones. cep_options_init(3) lists the defaults.
class Options {
  public:
    /// Enabled, with the defaults. Does not read the CEP_ variables; see load_env() and from_env().
    Options() : state_(std::make_unique<State>()) {
        detail::check_version();
        detail::check(cep_options_init(&state_->native, sizeof state_->native));
    }

    /// The options from the environment: off unless CEP_ENABLE or CEP_CONFIG enables the profiler.
    [[nodiscard]] static Options from_env() {
        Options options;
        options.load_env();
        return options;
    }

    /// Loads the CEP_ variables. The first load sets `enable` to false unless the configuration says `"enable": true`.
    Options& load_env() {
        detail::check(cep_options_load_env(&state_->native));
        return *this;
    }
    /// Loads a JSON object, given as text or as the path of a file. For `enable`, see load_env().
    Options& load_json(const std::string& json) {
        detail::check(cep_options_load_json(&state_->native, json.c_str()));
        return *this;
    }

    Options& enable(bool value) { return set(&cep_options::enable, value ? 1 : 0); }
    Options& directory(std::string value) { return set(&cep_options::directory, state_->directory, std::move(value)); }
    Options& rank(std::int32_t value) { return set(&cep_options::rank, value); }
    Options& world_size(std::int32_t value) { return set(&cep_options::world_size, value); }
    Options& local_rank(std::int32_t value) { return set(&cep_options::local_rank, value); }
    Options& layout(Layout value) { return set(&cep_options::layout, static_cast<std::int32_t>(value)); }
    Options& start_step(std::int64_t value) { return set(&cep_options::start_step, value); }
    Options& end_step(std::int64_t value) { return set(&cep_options::end_step, value); }
    Options& record_every_n_steps(std::int64_t value) { return set(&cep_options::record_every_n_steps, value); }
    Options& flush_every_n_steps(std::int64_t value) { return set(&cep_options::flush_every_n_steps, value); }
    /// The ranks to profile; on others the profiler is off. An empty list means all.
    Options& ranks(std::vector<std::int32_t> value) {
        state_->ranks = std::move(value);
        state_->native.ranks = state_->ranks.empty() ? nullptr : state_->ranks.data();
        state_->native.ranks_count = state_->ranks.size();
        return *this;
    }
    Options& max_file_bytes(std::int64_t value) { return set(&cep_options::max_file_bytes, value); }
    Options& ring_capacity(std::int64_t value) { return set(&cep_options::ring_capacity, value); }
    Options& pool_limit(std::int64_t value) { return set(&cep_options::pool_limit, value); }
    Options& backend(Backend value) { return set(&cep_options::backend, static_cast<std::int32_t>(value)); }
    Options& run_id(std::string value) { return set(&cep_options::run_id, state_->run_id, std::move(value)); }
    /// A JSON object, as for Profiler::set_meta().
    Options& meta(std::string value) { return set(&cep_options::meta, state_->meta, std::move(value)); }
    /// Records fewer steps rather than take more of the trainer's time, in percent. 0: no bound.
    Options& max_overhead_percent(double value) { return set(&cep_options::max_overhead_percent, value); }
    /// Steps for `nsys profile --capture-range=cudaProfilerApi`, such as "100-104", or "100-104@0,8" on some ranks.
    Options& capture_range(std::string value) {
        return set(&cep_options::capture_range, state_->capture_range, std::move(value));
    }

    [[nodiscard]] const cep_options& native() const noexcept { return state_->native; }

  private:
    // On the heap, so that the native struct's pointers stay valid when the Options are moved.
    struct State {
        State() = default;
        State(const State&) = delete;
        State& operator=(const State&) = delete;
        ~State() { cep_options_clear(&native); }

        cep_options native{};
        std::string directory, run_id, meta, capture_range;
        std::vector<std::int32_t> ranks;
    };

    template <typename Value>
    Options& set(Value cep_options::*field, Value value) {
        state_->native.*field = value;
        return *this;
    }
    Options& set(const char* cep_options::*field, std::string& owner, std::string value) {
        owner = std::move(value);
        state_->native.*field = owner.c_str();
        return *this;
    }

    std::unique_ptr<State> state_;
};

/// Attributes of a span besides its times. Strings are not copied: they must live until the call that takes the
/// attributes returns.
class Attributes {
  public:
    Attributes() noexcept {
        native_.struct_size = sizeof native_;
        native_.coll = -1;
    }

    /// Bytes that the operation moves.
    Attributes& bytes(std::int64_t value) noexcept { return set(&cep_attrs::bytes, value); }
    /// Floating-point operations.
    Attributes& flops(double value) noexcept { return set(&cep_attrs::flops, value); }
    /// Process group of a collective, at most 63 bytes, and the index of the collective within it.
    Attributes& collective(const char* group, std::int64_t index) noexcept {
        native_.group = group;
        return set(&cep_attrs::coll, index);
    }
    /// Process group without an index.
    Attributes& group(const char* value) noexcept { return set(&cep_attrs::group, value); }
    /// Why the phase failed, at most 63 bytes.
    Attributes& error(const char* value) noexcept { return set(&cep_attrs::error, value); }
    /// A JSON object, at most 16384 bytes.
    Attributes& meta(const char* value) noexcept { return set(&cep_attrs::meta, value); }

    [[nodiscard]] const cep_attrs* native() const noexcept { return &native_; }

  private:
    template <typename Value>
    Attributes& set(Value cep_attrs::*field, Value value) noexcept {
        native_.*field = value;
        return *this;
    }

    cep_attrs native_{};
};

class Span;

/// A named phase of a profiler. A handle, cheap to copy. It stays valid after its profiler is closed, and is then
/// inert.
class Region {
  public:
    Region() noexcept = default;
    explicit Region(cep_region* native) noexcept : native_(native) {}

    /// Begins a span, which ends with its scope. Records nothing if the step is not recorded.
    [[nodiscard]] inline Span begin(void* stream = nullptr) const noexcept;
    /// Begins a span with attributes. If they are invalid the span has none, and cep_last_error() tells why.
    [[nodiscard]] inline Span begin(void* stream, const Attributes& attributes) const noexcept;

    /// Adds a span that was timed elsewhere. Its start is a UNIX time; 0: now minus the duration.
    std::int32_t record(std::int64_t start_ns, std::int64_t duration_ns) const noexcept {
        return cep_record(native_, start_ns, duration_ns, nullptr);
    }
    std::int32_t record(std::int64_t start_ns, std::int64_t duration_ns, const Attributes& attributes) const noexcept {
        return cep_record(native_, start_ns, duration_ns, attributes.native());
    }

    [[nodiscard]] cep_region* native() const noexcept { return native_; }

  private:
    cep_region* native_ = nullptr;
};

/// A span, from Region::begin() to end() or the end of its scope. If an exception leaves the scope, the row gets the
/// error "exception".
class [[nodiscard]] Span {
  public:
    Span() noexcept = default;
    Span(cep_region* region, cep_span native, void* stream) noexcept
        : region_(region), native_(native), stream_(stream), exceptions_(exceptions_now()) {}
    Span(Span&& other) noexcept
        : region_(other.region_),
          native_(std::exchange(other.native_, CEP_SPAN_NONE)),
          stream_(other.stream_),
          exceptions_(exceptions_now()) {}  // of the thread that takes the span
    Span& operator=(Span&& other) noexcept {
        if (this == &other) return *this;
        end();
        region_ = other.region_;
        native_ = std::exchange(other.native_, CEP_SPAN_NONE);
        stream_ = other.stream_;
        exceptions_ = exceptions_now();
        return *this;
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;
    ~Span() {
        if (native_ == CEP_SPAN_NONE) return;
        if (std::uncaught_exceptions() > exceptions_)
            end(Attributes().error("exception"));
        else
            end();
    }

    /// Ends the span on the stream that it began on. A second call does nothing.
    void end() noexcept { end_on(stream_); }
    /// Ends the span on another stream.
    void end_on(void* stream) noexcept {
        if (native_ != CEP_SPAN_NONE) cep_end(region_, std::exchange(native_, CEP_SPAN_NONE), stream);
    }
    /// Ends the span with attributes. Each replaces the same attribute from the begin; invalid ones are left out.
    std::int32_t end(const Attributes& attributes) noexcept {
        if (native_ == CEP_SPAN_NONE) return CEP_OK;
        return cep_end_with(region_, std::exchange(native_, CEP_SPAN_NONE), stream_, attributes.native());
    }

    /// Ends the span and begins one of another region with one event: N back-to-back phases cost N + 1 records. An
    /// empty region only ends the span.
    void switch_to(Region region) noexcept { switch_to(region, stream_); }
    void switch_to(Region region, void* stream) noexcept {
        native_ = cep_switch(native_, region.native(), stream);
        region_ = region.native();
        stream_ = stream;
        exceptions_ = exceptions_now();
    }

    /// Whether the span is recorded and has not ended.
    [[nodiscard]] bool recorded() const noexcept { return native_ != CEP_SPAN_NONE; }

  private:
    // The end of an unrecorded span does not use the count, so its begin need not read it.
    [[nodiscard]] int exceptions_now() const noexcept {
        return native_ == CEP_SPAN_NONE ? 0 : std::uncaught_exceptions();
    }

    cep_region* region_ = nullptr;
    cep_span native_ = CEP_SPAN_NONE;
    void* stream_ = nullptr;
    int exceptions_ = 0;
};

inline Span Region::begin(void* stream) const noexcept {
    return Span(native_, cep_begin(native_, stream), stream);
}

inline Span Region::begin(void* stream, const Attributes& attributes) const noexcept {
    return Span(native_, cep_begin_with(native_, stream, attributes.native()), stream);
}

/// The profiler of one process of a job. The destructor closes it with default_timeout and reports no error; call
/// close() to see errors.
class Profiler {
  public:
    /// Off.
    Profiler() noexcept = default;
    /// Opens a profiler. Throws Error if an option is invalid, or if the directory or file cannot be made.
    explicit Profiler(const Options& options) {
        detail::check_version();
        detail::check(cep_open(&options.native(), &native_));
    }
    /// A profiler with the options from the environment: off unless that enables it.
    [[nodiscard]] static Profiler from_env() { return Profiler(Options::from_env()); }

    Profiler(Profiler&& other) noexcept : native_(std::exchange(other.native_, nullptr)) {}
    Profiler& operator=(Profiler&& other) noexcept {
        if (this != &other) {
            close_quietly();
            native_ = std::exchange(other.native_, nullptr);
        }
        return *this;
    }
    Profiler(const Profiler&) = delete;
    Profiler& operator=(const Profiler&) = delete;
    ~Profiler() { close_quietly(); }

    /// Ends recording, writes all finished spans, and closes the file. False if that did not finish within the timeout;
    /// stats() counts what is lost. Throws Error if rows could not be written.
    bool close(std::chrono::milliseconds timeout = default_timeout) {
        return native_ == nullptr || finished(cep_close(native_, timeout.count()));
    }
    /// Writes out everything finished before the call. False if that did not finish within the timeout.
    bool flush(std::chrono::milliseconds timeout = default_timeout) {
        return native_ == nullptr || finished(cep_flush(native_, timeout.count()));
    }
    /// Whether this process is profiled: on, its rank listed, not closed, not a forked child.
    [[nodiscard]] bool enabled() const noexcept { return cep_enabled(native_) != 0; }
    /// This process's rank, from the options or the launcher; 0 if default-constructed.
    [[nodiscard]] std::int32_t rank() const noexcept { return native_ == nullptr ? 0 : cep_rank(native_); }
    /// Adds facts about this rank to its run row: a JSON object; see cep_set_meta(3).
    void set_meta(const std::string& json) {
        if (native_ != nullptr) detail::check(cep_set_meta(native_, json.c_str()));
    }
    /// The counts so far; all 0 if the profiler is off.
    [[nodiscard]] cep_stats stats() const {
        cep_stats counts{};
        counts.struct_size = sizeof counts;
        if (native_ != nullptr) detail::check(cep_get_stats(native_, &counts));
        return counts;
    }
    /// The phase of that name, created the first time. Call it once per phase, outside the step loop. Throws Error for
    /// a bad name.
    [[nodiscard]] Region region(const std::string& name, Kind kind = Kind::automatic) {
        if (native_ == nullptr) return Region();
        cep_region* found = cep_region_get(native_, name.c_str(), static_cast<std::int32_t>(kind));
        if (found == nullptr) detail::raise(CEP_EINVAL);
        return Region(found);
    }

    /// Sets the current step.
    std::int32_t step(std::int64_t step) noexcept { return cep_step(native_, step); }
    /// Whether spans begun now are recorded.
    [[nodiscard]] bool recording() const noexcept { return cep_recording(native_) != 0; }
    /// Sets the calling thread's current phase: ends the phase before it, if there is one, and begins the next with the
    /// same event. The library keeps the phase, so phases chain across steps. A step that is not recorded ends the
    /// phase and begins none. Returns CEP_EINVAL if the region belongs to another profiler.
    std::int32_t phase(Region region, void* stream) noexcept { return cep_phase(native_, region.native(), stream); }
    /// Ends the calling thread's current phase, if it has one, in `stream`.
    void end_phase(void* stream) noexcept { (void)cep_phase(native_, nullptr, stream); }
    /// Records a value in the current step, if that step is recorded.
    std::int32_t counter(const char* name, double value) noexcept { return cep_counter(native_, name, value); }
    /// Records an event in the current step, sampled or not. `meta` is a JSON object or nullptr.
    std::int32_t mark(const char* name, const char* meta = nullptr) noexcept { return cep_mark(native_, name, meta); }

    [[nodiscard]] cep_profiler* native() const noexcept { return native_; }

  private:
    static bool finished(std::int32_t code) {
        if (code == CEP_ETIMEDOUT) return false;
        detail::check(code);
        return true;
    }
    void close_quietly() noexcept {
        if (native_ != nullptr) cep_close(native_, default_timeout.count());
    }

    cep_profiler* native_ = nullptr;
};

}  // namespace cep

#endif  // CEP_CEP_HPP
