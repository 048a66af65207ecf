// SPDX-License-Identifier: Apache-2.0
//
// The C functions of cep.h. No exception leaves them.
#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>

#include "base/error.hpp"
#include "base/guarded.hpp"
#include "base/host_clock.hpp"
#include "cep/cep.h"
#include "profiler.hpp"
#include "record/attributes.hpp"

#define CEP_STRINGIFY_(x) #x
#define CEP_STRINGIFY(x) CEP_STRINGIFY_(x)

namespace cep {
namespace {

constexpr std::size_t max_name_bytes = 255;

/// Times a call if it stands for many (cep_stats.trainer_ns).
class CallTimer {
  public:
    explicit CallTimer(ThreadRecorder& recorder) noexcept {
        if (recorder.is_timed_call()) [[unlikely]] {
            recorder_ = &recorder;
            start_ns_ = monotonic_ns();
        }
    }
    CallTimer(const CallTimer&) = delete;
    CallTimer& operator=(const CallTimer&) = delete;
    ~CallTimer() {
        if (recorder_ != nullptr) [[unlikely]]
            recorder_->add_timed_call(monotonic_ns() - start_ns_);
    }

  private:
    ThreadRecorder* recorder_ = nullptr;
    std::int64_t start_ns_ = 0;
};

[[gnu::hot]] cep_span begin_span(cep_region& region, void* stream, const GivenAttributes* given) noexcept {
    const StepContext context = region.board->read();
    if (!context.recording()) return CEP_SPAN_NONE;
    SessionGuard guard(*region.profiler);
    if (guard.session() == nullptr) {
        guard.count_if_refused();
        return CEP_SPAN_NONE;
    }
    ThreadRecorder* recorder = guard.recorder();
    if (recorder == nullptr) [[unlikely]]
        return CEP_SPAN_NONE;
    recorder->prefetch();
    const CallTimer timer(*recorder);
    return recorder->begin(region, context, stream, given);
}

[[gnu::noinline, gnu::cold]] bool find_innermost(ThreadRecorder* recorder, const cep_region* region,
                                                 SpanId& id) noexcept {
    return recorder != nullptr && recorder->innermost(region, id);
}

/// Finds the recorder that holds the span, and the span's id. CEP_SPAN_INNERMOST is looked up on this thread. Null if
/// no recorder holds it.
[[gnu::always_inline]] inline ThreadRecorder* locate(Session& session, ThreadRecorder* recorder,
                                                     const cep_region* region, cep_span span, SpanId& id) noexcept {
    if (span == CEP_SPAN_INNERMOST) [[unlikely]]
        return find_innermost(recorder, region, id) ? recorder : nullptr;
    id = {span};
    if (recorder != nullptr && recorder->owns(id)) [[likely]]
        return recorder;  // as find() would say, without a look at its table
    return session.recorder.find(id);
}

[[gnu::hot]] void end_span(cep_region& region, cep_span span, void* stream, const GivenAttributes* given) noexcept {
    if (span == CEP_SPAN_INNERMOST && !this_thread_has_recorded()) return;
    SessionGuard guard(*region.profiler);
    if (guard.session() == nullptr) return;
    ThreadRecorder* recorder = guard.existing_recorder();
    SpanId id{CEP_SPAN_NONE};
    ThreadRecorder* began_by = locate(*guard.session(), recorder, &region, span, id);
    if (began_by == nullptr) return;
    if (recorder == nullptr && began_by->has_open(id)) recorder = guard.recorder();
    if (recorder == nullptr) return;
    recorder->prefetch();
    const CallTimer timer(*recorder);
    recorder->end(*began_by, id, stream, given);
}

/// Without a region, the span ends and none begins.
[[gnu::hot]] cep_span switch_span(cep_profiler& profiler, cep_region* region, cep_span span, void* stream) noexcept {
    const StepContext context = profiler.board.read();
    if (!context.recording()) region = nullptr;
    if (region == nullptr && (span == CEP_SPAN_NONE || (span == CEP_SPAN_INNERMOST && !this_thread_has_recorded())))
        return CEP_SPAN_NONE;
    SessionGuard guard(profiler);
    if (guard.session() == nullptr) {
        if (region != nullptr) guard.count_if_refused();
        return CEP_SPAN_NONE;
    }
    ThreadRecorder* recorder = guard.existing_recorder();
    SpanId id{CEP_SPAN_NONE};
    ThreadRecorder* began_by = locate(*guard.session(), recorder, nullptr, span, id);
    if (recorder == nullptr && (region != nullptr || (began_by != nullptr && began_by->has_open(id))))
        recorder = guard.recorder();
    if (recorder == nullptr) return CEP_SPAN_NONE;
    recorder->prefetch();
    const CallTimer timer(*recorder);
    return recorder->switch_span(began_by, id, region, context, stream);
}

/// The profiler that has made the span; null if that is closed. The innermost one is of the profiler that this thread
/// has recorded with last.
[[nodiscard, gnu::noinline, gnu::cold]] cep_profiler* profiler_of(cep_span span) noexcept {
    if (span == CEP_SPAN_INNERMOST) return this_thread.node != nullptr ? this_thread.node->latest.profiler : nullptr;
    cep_profiler* profiler = newest_profiler();
    while (profiler != nullptr && !(profiler->is_on() && SpanId{span}.is_of_profiler(profiler->serial)))
        profiler = profiler->opened_before;
    return profiler;
}

[[gnu::hot]] void change_phase(cep_profiler& profiler, cep_region* region, void* stream) noexcept {
    if (!this_thread_has_phase() && (region == nullptr || !profiler.recording())) return;
    const StepContext context = profiler.board.read();
    if (!context.recording()) region = nullptr;
    SessionGuard guard(profiler);
    if (guard.session() == nullptr) {
        if (region != nullptr) guard.count_if_refused();
        return;
    }
    ThreadRecorder* recorder = region != nullptr ? guard.recorder() : guard.existing_recorder();
    if (recorder == nullptr) return;
    recorder->prefetch();
    const CallTimer timer(*recorder);
    const bool before = recorder->has_phase();
    recorder->change_phase(region, context, stream);
    note_phase(before, recorder->has_phase());
}

/// Hands a counter, mark or external span to the writer.
void add_record(cep_profiler& profiler, const Record& record, const GivenAttributes& attributes) noexcept {
    SessionGuard guard(profiler);
    if (guard.session() == nullptr) return guard.count_if_refused();
    ThreadRecorder* recorder = guard.recorder();
    if (recorder == nullptr) return;
    recorder->prefetch();
    const CallTimer timer(*recorder);
    recorder->add(record, attributes);
}

void wake_writer(cep_profiler& profiler) noexcept {
    const SessionGuard guard(profiler);
    if (guard.session() != nullptr) guard.session()->wakeup.notify();
}

/// For the bound of the cost: notes when the first recorded step began, and lets the writer look at the cost now and
/// then.
[[gnu::noinline, gnu::cold]] void count_recorded_step(cep_profiler& profiler, std::int64_t step) noexcept {
    constexpr std::uint64_t steps_between_looks = 8;
    WriterInputs& inputs = profiler.inputs;
    const std::uint64_t before = inputs.recorded_steps.fetch_add(1, std::memory_order_relaxed);
    if (before == 0) {
        inputs.first_step_ns.store(monotonic_ns(), std::memory_order_relaxed);
        inputs.first_step.store(step, std::memory_order_release);
    }
    if ((before + 1) % steps_between_looks != 0) return;
    wake_writer(profiler);
}

/// At the ends of capture_range. A capture that this thread's spans have met since the step before may go on.
[[gnu::noinline, gnu::cold]] void switch_capture(cep_profiler& profiler, std::int64_t step) noexcept {
    const SessionGuard guard(profiler);
    if (guard.session() == nullptr) return;
    const ThreadRecorder* const recorder = guard.existing_recorder();
    profiler.capture.at_step(step, recorder != nullptr ? recorder->capture_skipped() : 0);
}

/// Tries again to start the threads that the system refused before. Called at flush steps.
void retry_thread_start(cep_profiler& profiler) noexcept {
    const SessionGuard guard(profiler);
    if (guard.session() != nullptr) guard.session()->writer.start();
}

/// Runs a load call on a copy, so that an error changes nothing.
template <class Load>
std::int32_t load_options(const char* function, cep_options* options, Load load) noexcept {
    if (options == nullptr) return fail(CEP_EINVAL, "%s: options is NULL", function);
    const std::size_t given_bytes = std::min<std::size_t>(options->struct_size, sizeof(cep_options));
    if (given_bytes < loadable_options_bytes)
        return fail(CEP_EINVAL, "%s: struct_size %" PRIu32 " is too small; call cep_options_init first", function,
                    options->struct_size);
    return guarded(function, [&] {
        cep_options changed = default_options();
        if (options->storage != nullptr) changed = static_cast<const OptionStorage*>(options->storage)->loaded;
        std::memcpy(static_cast<void*>(&changed), options, given_bytes);
        std::unique_ptr<OptionStorage> fresh;
        auto* storage = static_cast<OptionStorage*>(changed.storage);
        if (storage == nullptr) {
            fresh = std::make_unique<OptionStorage>();
            storage = fresh.get();
            changed.enable = 0;  // off unless the configuration enables it
        }
        const std::int32_t code = load(changed, *storage);
        if (code != CEP_OK) return code;
        storage->loaded = changed;
        if (fresh != nullptr) changed.storage = fresh.release();
        std::memcpy(static_cast<void*>(options), &changed, given_bytes);
        return CEP_OK;
    });
}

}  // namespace
}  // namespace cep

using cep::fail;

extern "C" {

const char* cep_version(void) {
    return CEP_STRINGIFY(CEP_VERSION_MAJOR) "." CEP_STRINGIFY(CEP_VERSION_MINOR) "." CEP_STRINGIFY(CEP_VERSION_PATCH);
}

const char* cep_strerror(int32_t code) {
    return cep::describe(code);
}

const char* cep_last_error(void) {
    return cep::last_error();
}

int32_t cep_options_init(cep_options* options, uint32_t struct_size) {
    if (options == nullptr) return fail(CEP_EINVAL, "cep_options_init: options is NULL");
    if (struct_size < offsetof(cep_options, directory))
        return fail(CEP_EINVAL, "cep_options_init: struct_size %" PRIu32 " is too small; pass sizeof(cep_options)",
                    struct_size);
    cep_options defaults = cep::default_options();
    defaults.struct_size = struct_size;
    std::memset(static_cast<void*>(options), 0, struct_size);
    std::memcpy(static_cast<void*>(options), &defaults, std::min<std::size_t>(struct_size, sizeof defaults));
    return CEP_OK;
}

int32_t cep_options_load_json(cep_options* options, const char* json) {
    if (json == nullptr) return fail(CEP_EINVAL, "cep_options_load_json: json is NULL");
    return cep::load_options("cep_options_load_json", options, [json](cep_options& to, cep::OptionStorage& storage) {
        return cep::load_options_json(to, json, storage);
    });
}

int32_t cep_options_load_env(cep_options* options) {
    return cep::load_options("cep_options_load_env", options, [](cep_options& to, cep::OptionStorage& storage) {
        return cep::load_options_env(to, storage);
    });
}

void cep_options_clear(cep_options* options) {
    if (options == nullptr || options->struct_size < cep::loadable_options_bytes) return;
    const cep::KeepErrno keep;
    delete static_cast<cep::OptionStorage*>(options->storage);
    (void)cep_options_init(options, options->struct_size);
}

int32_t cep_open(const cep_options* options, cep_profiler** out) {
    if (out == nullptr) return fail(CEP_EINVAL, "cep_open: out is NULL");
    *out = nullptr;
    return cep::guarded("cep_open", [&] {
        cep::Config config;
        const int32_t code = cep::make_config(options, config);
        return code != CEP_OK ? code : cep::open_profiler(std::move(config), *out);
    });
}

int32_t cep_close(cep_profiler* profiler, int64_t timeout_ms) {
    if (profiler == nullptr) return fail(CEP_EINVAL, "cep_close: profiler is NULL");
    if (timeout_ms < 0) return fail(CEP_EINVAL, "cep_close: timeout_ms: %" PRId64 " is negative", timeout_ms);
    const cep::KeepErrno keep;
    return cep::close_profiler(*profiler, cep::deadline_after(timeout_ms), false);
}

int32_t cep_flush(cep_profiler* profiler, int64_t timeout_ms) {
    if (profiler == nullptr) return fail(CEP_EINVAL, "cep_flush: profiler is NULL");
    if (timeout_ms < 0) return fail(CEP_EINVAL, "cep_flush: timeout_ms: %" PRId64 " is negative", timeout_ms);
    return cep::flush_profiler(*profiler, timeout_ms);
}

int32_t cep_enabled(const cep_profiler* profiler) {
    return profiler != nullptr && profiler->is_on() ? 1 : 0;
}

int32_t cep_rank(const cep_profiler* profiler) {
    return profiler != nullptr ? profiler->rank : fail(CEP_EINVAL, "cep_rank: profiler is NULL");
}

int32_t cep_set_meta(cep_profiler* profiler, const char* json) {
    if (profiler == nullptr || json == nullptr)
        return fail(CEP_EINVAL, "cep_set_meta: %s is NULL", profiler == nullptr ? "profiler" : "json");
    if (!profiler->is_on()) return CEP_OK;
    return cep::guarded("cep_set_meta", [&] {
        cep::WriterInputs& inputs = profiler->inputs;
        const cep::MetaLock lock(inputs);
        const int32_t code = inputs.meta.merge(json);
        if (code == CEP_OK) inputs.meta_version.fetch_add(1, std::memory_order_release);
        if (code == CEP_OK) cep::wake_writer(*profiler);
        return code;
    });
}

int32_t cep_get_stats(cep_profiler* profiler, cep_stats* stats) {
    if (profiler == nullptr || stats == nullptr)
        return fail(CEP_EINVAL, "cep_get_stats: %s is NULL", profiler == nullptr ? "profiler" : "stats");
    const uint32_t size = stats->struct_size;
    if (size < offsetof(cep_stats, recorded))
        return fail(CEP_EINVAL, "cep_get_stats: struct_size %" PRIu32 " is too small; set it to sizeof(cep_stats)",
                    size);
    cep::Totals totals;
    if (const int32_t code = cep::read_totals(*profiler, totals); code != CEP_OK) return code;
    totals.struct_size = size;
    std::memcpy(static_cast<void*>(stats), static_cast<const cep_stats*>(&totals),
                std::min<std::size_t>(size, sizeof *stats));
    return CEP_OK;
}

int32_t cep_step(cep_profiler* profiler, int64_t step) {
    if (profiler == nullptr) return CEP_OK;
    if (step < 0) return fail(CEP_EINVAL, "cep_step: step: %" PRId64 " is negative", step);
    if (!profiler->is_on()) return CEP_OK;
    const cep::Sampling& sampling = profiler->sampling;
    cep::WriterInputs& inputs = profiler->inputs;
    const bool in_window = sampling.in_window(step);
    const bool recorded = in_window && sampling.is_on_stride(step, profiler->stride.load(std::memory_order_relaxed));
    profiler->board.publish(step, recorded, in_window);
    if (profiler->capture.is_set()) [[unlikely]]
        cep::switch_capture(*profiler, step);
    if (profiler->is_bounded && recorded) [[unlikely]]
        cep::count_recorded_step(*profiler, step);
    if (!sampling.flushes(step)) return CEP_OK;
    inputs.flush_due.store(true, std::memory_order_release);
    if (inputs.thread_start_failed.load(std::memory_order_relaxed)) cep::retry_thread_start(*profiler);
    return CEP_OK;
}

int32_t cep_recording(const cep_profiler* profiler) {
    return profiler != nullptr && profiler->recording() ? 1 : 0;
}

cep_region* cep_region_get(cep_profiler* profiler, const char* name, int32_t kind) {
    if (profiler == nullptr) {
        fail(CEP_EINVAL, "cep_region_get: profiler is NULL");
        return nullptr;
    }
    if (cep::check_text("cep_region_get: name", name, cep::max_name_bytes) != CEP_OK) return nullptr;
    if (kind < CEP_KIND_AUTO || kind > CEP_KIND_OTHER) {
        fail(CEP_EINVAL, "cep_region_get: kind: %" PRId32 " is not a CEP_KIND_ value", kind);
        return nullptr;
    }
    cep_region* region = nullptr;
    (void)cep::guarded("cep_region_get", [&] {
        const auto given = static_cast<cep::schema::Kind>(kind);
        region = profiler->regions.find_or_add(name, [&](std::string_view text) {
            return new cep_region(text, given == cep::schema::Kind::infer ? cep::schema::infer_kind(text) : given,
                                  profiler, &profiler->board);
        });
        return region != nullptr
                   ? CEP_OK
                   : fail(CEP_ELIMIT, "cep_region_get: no room for \"%s\": the profiler already has %zu regions", name,
                          cep_profiler::max_names);
    });
    return region;
}

[[gnu::hot]] cep_span cep_begin(cep_region* region, void* stream) {
    if (region == nullptr || !region->profiler->recording()) return CEP_SPAN_NONE;
    return cep::begin_span(*region, stream, nullptr);
}

cep_span cep_begin_with(cep_region* region, void* stream, const cep_attrs* attrs) {
    if (region == nullptr || !region->profiler->recording()) return CEP_SPAN_NONE;
    cep::GivenAttributes given;
    (void)cep::read_attributes(region->profiler->names, attrs, given);
    return cep::begin_span(*region, stream, attrs != nullptr ? &given : nullptr);
}

[[gnu::hot]] void cep_end(cep_region* region, cep_span span, void* stream) {
    if (region == nullptr || span == CEP_SPAN_NONE || !region->profiler->is_on()) return;
    cep::end_span(*region, span, stream, nullptr);
}

int32_t cep_end_with(cep_region* region, cep_span span, void* stream, const cep_attrs* attrs) {
    if (region == nullptr || span == CEP_SPAN_NONE || !region->profiler->is_on()) return CEP_OK;
    cep::GivenAttributes given;
    const int32_t code = cep::read_attributes(region->profiler->names, attrs, given);
    cep::end_span(*region, span, stream, attrs != nullptr ? &given : nullptr);
    return code;
}

[[gnu::hot]] cep_span cep_switch(cep_span span, cep_region* region, void* stream) {
    cep_profiler* const profiler = region != nullptr ? region->profiler : cep::profiler_of(span);
    return profiler != nullptr ? cep::switch_span(*profiler, region, span, stream) : CEP_SPAN_NONE;
}

[[gnu::hot]] int32_t cep_phase(cep_profiler* profiler, cep_region* region, void* stream) {
    if (profiler == nullptr || !profiler->is_on()) return CEP_OK;
    if (region != nullptr && region->profiler != profiler)
        return fail(CEP_EINVAL, "cep_phase: region: \"%s\" belongs to another profiler", region->text.c_str());
    cep::change_phase(*profiler, region, stream);
    return CEP_OK;
}

int32_t cep_record(cep_region* region, int64_t start_ns, int64_t duration_ns, const cep_attrs* attrs) {
    if (region == nullptr) return CEP_OK;
    if (start_ns < 0) return fail(CEP_EINVAL, "cep_record: start_ns: %" PRId64 " is negative", start_ns);
    if (duration_ns < 0) return fail(CEP_EINVAL, "cep_record: duration_ns: %" PRId64 " is negative", duration_ns);
    cep_profiler& profiler = *region->profiler;
    cep::StepContext context = profiler.board.read();
    if (!context.recording()) return CEP_OK;
    cep::GivenAttributes given;
    const int32_t code = cep::read_attributes(profiler.names, attrs, given);
    cep::Record record;
    if (!cep::number_span(*region, context, record.seq)) return code;
    record.type = start_ns != 0 ? cep::RecordType::external : cep::RecordType::external_ending_now;
    record.region = region;
    record.step = context.step;
    record.begin_ns = start_ns != 0 ? start_ns : cep::monotonic_ns();
    record.duration_ns = duration_ns;
    cep::add_record(profiler, record, given);
    return code;
}

int32_t cep_counter(cep_profiler* profiler, const char* name, double value) {
    if (profiler == nullptr) return CEP_OK;
    if (!std::isfinite(value)) return fail(CEP_EINVAL, "cep_counter: value: %g is not a finite number", value);
    const cep::StepContext context = profiler->board.read();
    if (!context.recording() || profiler->only_spans) return CEP_OK;
    cep::Record record;
    const int32_t code = cep::intern(profiler->names, "cep_counter: name", name, cep::max_name_bytes, record.name);
    if (code != CEP_OK) return code;
    record.type = cep::RecordType::counter;
    record.step = context.step;
    record.begin_ns = cep::monotonic_ns();
    record.value = value;
    cep::add_record(*profiler, record, {});
    return CEP_OK;
}

int32_t cep_mark(cep_profiler* profiler, const char* name, const char* meta) {
    if (profiler == nullptr) return CEP_OK;
    const cep::StepContext context = profiler->board.read();
    if (!context.in_window() || profiler->only_spans) return CEP_OK;
    cep::Record record;
    cep::GivenAttributes given;
    int32_t code = cep::intern(profiler->names, "cep_mark: name", name, cep::max_name_bytes, record.name);
    if (code == CEP_OK && meta != nullptr) code = cep::read_meta(meta, given.meta);
    if (code != CEP_OK) return code;
    record.type = cep::RecordType::mark;
    record.step = context.step;
    record.begin_ns = cep::monotonic_ns();
    cep::add_record(*profiler, record, given);
    return CEP_OK;
}

}  // extern "C"
