// SPDX-License-Identifier: Apache-2.0
//
// The C functions of cep.h. No exception passes them.
#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>

#include "cep/cep.h"
#include "error.hpp"
#include "host_clock.hpp"
#include "json_text.hpp"
#include "profiler.hpp"

#define CEP_STRINGIFY_(x) #x
#define CEP_STRINGIFY(x) CEP_STRINGIFY_(x)

namespace cep {
namespace {

constexpr std::size_t max_name_bytes = 255;
constexpr std::size_t max_attribute_bytes = 63;
constexpr std::size_t max_meta_bytes = 16384;

/// Runs `body` and turns what it throws into a code.
template <class Body>
std::int32_t guarded(const char* function, Body body) noexcept {
    try {
        return body();
    } catch (const std::bad_alloc&) {
        return fail(CEP_ENOMEM, "%s: out of memory", function);
    } catch (const std::exception& error) {
        return fail(CEP_EINTERNAL, "%s: %s", function, error.what());
    } catch (...) {
        return fail(CEP_EINTERNAL, "%s: unknown exception", function);
    }
}

std::int32_t check_text(const char* what, const char* text, std::size_t max_bytes) noexcept {
    if (text == nullptr) return fail(CEP_EINVAL, "%s: NULL", what);
    const std::size_t bytes = strnlen(text, max_bytes + 1);
    if (bytes == 0) return fail(CEP_EINVAL, "%s: an empty string", what);
    if (bytes > max_bytes) return fail(CEP_EINVAL, "%s: \"%.40s…\" is longer than %zu bytes", what, text, max_bytes);
    if (!json::is_plain_text({text, bytes})) return fail(CEP_EINVAL, "%s: not UTF-8 without control characters", what);
    return CEP_OK;
}

std::int32_t check_meta(const char* meta, std::string_view& text) noexcept {
    const std::size_t bytes = strnlen(meta, max_meta_bytes + 1);
    if (bytes > max_meta_bytes) return fail(CEP_EINVAL, "meta: longer than %zu bytes", max_meta_bytes);
    const json::Check check = json::check_object({meta, bytes});
    if (!check.valid) return fail(CEP_EJSON, "meta: not a JSON object: %s at byte %zu", check.reason, check.offset);
    text = {meta, bytes};
    return CEP_OK;
}

Name* make_name(std::string_view text) {
    return new Name(text);
}

std::int32_t intern(cep_profiler& profiler, const char* what, const char* text, std::size_t max_bytes,
                    const Name*& name) noexcept {
    if (const std::int32_t code = check_text(what, text, max_bytes); code != CEP_OK) return code;
    return guarded(what, [&] {
        name = profiler.names.find_or_add(text, make_name);
        return name != nullptr ? CEP_OK
                               : fail(CEP_ELIMIT, "%s: \"%s\" is one more than %zu distinct names", what, text,
                                      cep_profiler::max_names);
    });
}

std::int32_t copy_attributes(const cep_attrs& from, cep_attrs& to) noexcept {
    if (from.struct_size < offsetof(cep_attrs, bytes))
        return fail(CEP_EINVAL, "attrs: struct_size %" PRIu32 " is too small", from.struct_size);
    const auto* bytes = reinterpret_cast<const char*>(&from);
    for (std::size_t i = sizeof to; i < from.struct_size; ++i)
        if (bytes[i] != 0) return fail(CEP_EINVAL, "attrs: the field at byte %zu is newer than this library", i);
    to = {};
    std::memcpy(&to, &from, std::min<std::size_t>(from.struct_size, sizeof to));
    return to.reserved == 0 ? CEP_OK : fail(CEP_EINVAL, "attrs: reserved: %" PRIu32 " is not 0", to.reserved);
}

std::int32_t read_attributes(cep_profiler& profiler, const cep_attrs& from, GivenAttributes& given) noexcept {
    cep_attrs attrs{};
    if (const std::int32_t copied = copy_attributes(from, attrs); copied != CEP_OK) return copied;
    if (attrs.bytes < 0) return fail(CEP_EINVAL, "attrs: bytes: %" PRId64 " is negative", attrs.bytes);
    if (!std::isfinite(attrs.flops) || attrs.flops < 0)
        return fail(CEP_EINVAL, "attrs: flops: %g is not a number of at least 0", attrs.flops);
    if (attrs.coll < -1) return fail(CEP_EINVAL, "attrs: coll: %" PRId64 " is less than -1", attrs.coll);
    if (attrs.coll > 0 && attrs.group == nullptr)
        return fail(CEP_EINVAL, "attrs: coll: %" PRId64 " without a group", attrs.coll);
    given.values.bytes = attrs.bytes;
    given.values.flops = attrs.flops;
    given.values.coll = attrs.group != nullptr ? attrs.coll : -1;
    std::int32_t code = CEP_OK;
    if (attrs.group != nullptr) code = intern(profiler, "group", attrs.group, max_attribute_bytes, given.values.group);
    if (code == CEP_OK && attrs.error != nullptr)
        code = intern(profiler, "error", attrs.error, max_attribute_bytes, given.values.error);
    if (code == CEP_OK && attrs.meta != nullptr) code = check_meta(attrs.meta, given.meta);
    return code;
}

cep_span begin_span(cep_region& region, void* stream, const GivenAttributes* given) noexcept {
    cep_profiler& profiler = *region.profiler;
    Visit visit(profiler);
    if (visit.session() == nullptr) return CEP_SPAN_NONE;
    ThreadRecorder* recorder = visit.recorder();
    return recorder == nullptr ? CEP_SPAN_NONE : recorder->begin(region, profiler.step_context(), stream, given);
}

/// Which recorder has a handle's span; CEP_SPAN_INNERMOST is looked up on this thread. Null if none has.
ThreadRecorder* locate(Session& session, ThreadRecorder& recorder, const cep_region* region, cep_span span,
                       SpanId& id) noexcept {
    if (span == CEP_SPAN_INNERMOST) return recorder.innermost(region, id) ? &recorder : nullptr;
    id = SpanId::from(span);
    return span == CEP_SPAN_NONE ? nullptr : session.recorder.find(id);
}

void end_span(cep_region& region, cep_span span, void* stream, const GivenAttributes* given) noexcept {
    Visit visit(*region.profiler);
    if (visit.session() == nullptr) return;
    ThreadRecorder* recorder = visit.recorder();
    if (recorder == nullptr) return;
    SpanId id{};
    if (ThreadRecorder* began_by = locate(*visit.session(), *recorder, &region, span, id))
        recorder->end(*began_by, id, stream, given);
}

cep_span switch_span(cep_region& region, cep_span span, bool records, void* stream) noexcept {
    cep_profiler& profiler = *region.profiler;
    Visit visit(profiler);
    if (visit.session() == nullptr) return CEP_SPAN_NONE;
    ThreadRecorder* recorder = visit.recorder();
    if (recorder == nullptr) return CEP_SPAN_NONE;
    SpanId id{};
    ThreadRecorder* began_by = locate(*visit.session(), *recorder, nullptr, span, id);
    return recorder->switch_span(began_by, id, records ? &region : nullptr, profiler.step_context(), stream);
}

/// Hands a counter, mark or external span to the resolver.
void add_record(cep_profiler& profiler, const Record& record, std::string_view meta) noexcept {
    Visit visit(profiler);
    if (visit.session() == nullptr) return;
    if (ThreadRecorder* recorder = visit.recorder()) recorder->add(record, meta);
}

void copy_totals(const Totals& totals, cep_stats& stats) noexcept {
    stats.threads = totals.threads;
    stats.recorded = totals.recorded;
    stats.written = totals.written;
    stats.dropped_ring = totals.dropped_ring;
    stats.dropped_slots = totals.dropped_slots;
    stats.dropped_pool = totals.dropped_pool;
    stats.dropped_file = totals.dropped_file;
    stats.dropped_io = totals.dropped_io;
    stats.dropped_meta = totals.dropped_meta;
    stats.capture_skipped = totals.capture_skipped;
    stats.cuda_errors = totals.cuda_errors;
    stats.abandoned = totals.abandoned;
    stats.open_spans = totals.open_spans;
    stats.bytes_written = totals.bytes_written;
    stats.self_ns = totals.self_ns;
}

/// Runs a load call on a copy, so that an error changes nothing.
template <class Load>
std::int32_t load_options(const char* function, cep_options* options, Load load) noexcept {
    if (options == nullptr) return fail(CEP_EINVAL, "%s: options is NULL", function);
    if (options->struct_size < sizeof(cep_options))
        return fail(CEP_EINVAL, "%s: struct_size %" PRIu32 " is too small; call cep_options_init first", function,
                    options->struct_size);
    return guarded(function, [&] {
        cep_options changed = *options;
        std::unique_ptr<OptionStorage> fresh;
        auto* storage = static_cast<OptionStorage*>(changed.storage);
        if (storage == nullptr) {
            fresh = std::make_unique<OptionStorage>();
            storage = fresh.get();
            changed.enable = 0;  // a configuration has to say so
        }
        const std::int32_t code = load(changed, *storage);
        if (code != CEP_OK) return code;
        if (fresh != nullptr) changed.storage = fresh.release();
        *options = changed;
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
        return fail(CEP_EINVAL, "cep_options_init: struct_size %" PRIu32 " is too small", struct_size);
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
    if (options == nullptr || options->struct_size < sizeof(cep_options)) return;
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
    if (timeout_ms < 0) return fail(CEP_EINVAL, "cep_close: timeout_ms %" PRId64 " is negative", timeout_ms);
    return cep::close_profiler(*profiler, timeout_ms, false);
}

int32_t cep_flush(cep_profiler* profiler, int64_t timeout_ms) {
    if (profiler == nullptr) return fail(CEP_EINVAL, "cep_flush: profiler is NULL");
    if (timeout_ms < 0) return fail(CEP_EINVAL, "cep_flush: timeout_ms %" PRId64 " is negative", timeout_ms);
    return cep::flush_profiler(*profiler, timeout_ms);
}

int32_t cep_set_meta(cep_profiler* profiler, const char* json) {
    if (profiler == nullptr || json == nullptr)
        return fail(CEP_EINVAL, "cep_set_meta: %s is NULL", profiler == nullptr ? "profiler" : "json");
    if (profiler->session.load(std::memory_order_relaxed) == nullptr) return CEP_OK;
    return cep::guarded("cep_set_meta", [&] {
        cep::ResolverInputs& inputs = profiler->inputs;
        const std::lock_guard guard(inputs.meta_mutex);
        const int32_t code = inputs.meta.merge(json);
        if (code == CEP_OK) inputs.meta_version.fetch_add(1, std::memory_order_release);
        return code;
    });
}

int32_t cep_get_stats(cep_profiler* profiler, cep_stats* stats) {
    if (profiler == nullptr || stats == nullptr)
        return fail(CEP_EINVAL, "cep_get_stats: %s is NULL", profiler == nullptr ? "profiler" : "stats");
    if (stats->struct_size < sizeof(uint32_t))
        return fail(CEP_EINVAL, "cep_get_stats: struct_size %" PRIu32 " is too small", stats->struct_size);
    cep::Totals totals;
    {
        cep::Visit visit(*profiler);
        if (visit.session() != nullptr)
            totals = visit.session()->resolver.totals();
        else if (const cep::Totals* last = profiler->final_totals.load(std::memory_order_acquire))
            totals = *last;
    }
    cep_stats all{};
    all.struct_size = stats->struct_size;
    cep::copy_totals(totals, all);
    std::memset(static_cast<void*>(stats), 0, all.struct_size);
    std::memcpy(static_cast<void*>(stats), &all, std::min<std::size_t>(all.struct_size, sizeof all));
    return CEP_OK;
}

int32_t cep_step(cep_profiler* profiler, int64_t step) {
    if (profiler == nullptr) return CEP_OK;
    if (step < 0) return fail(CEP_EINVAL, "cep_step: step %" PRId64 " is negative", step);
    if (profiler->session.load(std::memory_order_relaxed) == nullptr) return CEP_OK;
    const cep::Sampling& sampling = profiler->sampling;
    const bool open = !profiler->closing.load(std::memory_order_relaxed);
    profiler->inputs.step.store(step, std::memory_order_relaxed);
    profiler->epoch.fetch_add(1, std::memory_order_relaxed);
    profiler->in_window.store(open && sampling.in_window(step), std::memory_order_relaxed);
    profiler->recording.store(open && sampling.records(step), std::memory_order_relaxed);
    if (sampling.flushes(step)) profiler->inputs.flush_due.store(true, std::memory_order_release);
    return CEP_OK;
}

int32_t cep_recording(const cep_profiler* profiler) {
    return profiler != nullptr && profiler->recording.load(std::memory_order_relaxed) ? 1 : 0;
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
                                  profiler);
        });
        return region != nullptr ? CEP_OK
                                 : fail(CEP_ELIMIT, "cep_region_get: \"%s\" is one more than %zu regions", name,
                                        cep_profiler::max_names);
    });
    return region;
}

cep_span cep_begin(cep_region* region, void* stream) {
    if (region == nullptr || !region->profiler->recording.load(std::memory_order_relaxed)) return CEP_SPAN_NONE;
    return cep::begin_span(*region, stream, nullptr);
}

cep_span cep_begin_with(cep_region* region, void* stream, const cep_attrs* attrs) {
    if (region == nullptr || !region->profiler->recording.load(std::memory_order_relaxed)) return CEP_SPAN_NONE;
    if (attrs == nullptr) return cep::begin_span(*region, stream, nullptr);
    cep::GivenAttributes given;
    if (cep::read_attributes(*region->profiler, *attrs, given) != CEP_OK) return CEP_SPAN_NONE;
    return cep::begin_span(*region, stream, &given);
}

void cep_end(cep_region* region, cep_span span, void* stream) {
    if (region == nullptr || span == CEP_SPAN_NONE) return;
    if (region->profiler->session.load(std::memory_order_relaxed) == nullptr) return;
    cep::end_span(*region, span, stream, nullptr);
}

int32_t cep_end_with(cep_region* region, cep_span span, void* stream, const cep_attrs* attrs) {
    if (region == nullptr || span == CEP_SPAN_NONE) return CEP_OK;
    if (region->profiler->session.load(std::memory_order_relaxed) == nullptr) return CEP_OK;
    cep::GivenAttributes given;
    const int32_t code = attrs != nullptr ? cep::read_attributes(*region->profiler, *attrs, given) : CEP_OK;
    cep::end_span(*region, span, stream, code == CEP_OK && attrs != nullptr ? &given : nullptr);
    return code;
}

cep_span cep_switch(cep_span span, cep_region* region, void* stream) {
    if (region == nullptr) return CEP_SPAN_NONE;
    const bool records = region->profiler->recording.load(std::memory_order_relaxed);
    if (!records && span == CEP_SPAN_NONE) return CEP_SPAN_NONE;
    return cep::switch_span(*region, span, records, stream);
}

int32_t cep_record(cep_region* region, int64_t start_ns, int64_t duration_ns, const cep_attrs* attrs) {
    if (region == nullptr) return CEP_OK;
    if (start_ns < 0) return fail(CEP_EINVAL, "cep_record: start_ns: %" PRId64 " is negative", start_ns);
    if (duration_ns < 0) return fail(CEP_EINVAL, "cep_record: duration_ns: %" PRId64 " is negative", duration_ns);
    cep_profiler& profiler = *region->profiler;
    if (!profiler.recording.load(std::memory_order_relaxed)) return CEP_OK;
    cep::GivenAttributes given;
    if (attrs != nullptr)
        if (const int32_t code = cep::read_attributes(profiler, *attrs, given); code != CEP_OK) return code;
    const cep::StepContext context = profiler.step_context();
    cep::Record record;
    record.type = cep::RecordType::external;
    record.region = region;
    record.step = context.step;
    record.seq = region->next_seq(context.epoch);
    record.begin.host_ns = start_ns != 0 ? start_ns : cep::clock_ns(CLOCK_REALTIME) - duration_ns;
    record.end.host_ns = duration_ns;
    record.attributes = given.values;
    cep::add_record(profiler, record, given.meta);
    return CEP_OK;
}

int32_t cep_counter(cep_profiler* profiler, const char* name, double value) {
    if (profiler == nullptr) return CEP_OK;
    if (!std::isfinite(value)) return fail(CEP_EINVAL, "cep_counter: value: %g is not a finite number", value);
    if (!profiler->recording.load(std::memory_order_relaxed) || profiler->flat) return CEP_OK;
    cep::Record record;
    if (const int32_t code = cep::intern(*profiler, "cep_counter: name", name, cep::max_name_bytes, record.name);
        code != CEP_OK)
        return code;
    record.type = cep::RecordType::counter;
    record.step = profiler->step_context().step;
    record.begin.host_ns = cep::monotonic_ns();
    record.value = value;
    cep::add_record(*profiler, record, {});
    return CEP_OK;
}

int32_t cep_mark(cep_profiler* profiler, const char* name, const char* meta) {
    if (profiler == nullptr) return CEP_OK;
    if (!profiler->in_window.load(std::memory_order_relaxed) || profiler->flat) return CEP_OK;
    cep::Record record;
    std::string_view text;
    int32_t code = cep::intern(*profiler, "cep_mark: name", name, cep::max_name_bytes, record.name);
    if (code == CEP_OK && meta != nullptr) code = cep::check_meta(meta, text);
    if (code != CEP_OK) return code;
    record.type = cep::RecordType::mark;
    record.step = profiler->step_context().step;
    record.begin.host_ns = cep::monotonic_ns();
    cep::add_record(*profiler, record, text);
    return CEP_OK;
}

}  // extern "C"
