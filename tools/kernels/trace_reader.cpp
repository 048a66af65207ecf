// SPDX-License-Identifier: Apache-2.0
#include "kernels/trace_reader.hpp"

#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/failure.hpp"
#include "base/text.hpp"
#include "kernels/kernel_rules.hpp"
#include "kernels/trace_text.hpp"
#include "read/byte_source.hpp"

namespace cep::kernels {
namespace {

struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

class TraceReader {
  public:
    TraceReader(tool::ByteSource& source, tool::Progress& progress, TraceData& data)
        : source_(source), window_(source, progress), data_(data) {}

    void read() {
        skip_byte_order_mark();
        const char first = window_.peek();
        if (first == '{') {
            read_object();
        } else if (first == '[') {
            read_events(true);
        } else {
            data_.unusable = first == '\0' ? "empty" : "not JSON";
        }
        finish();
    }

  private:
    void skip_byte_order_mark() {
        window_.peek();
        constexpr std::string_view mark = "\xef\xbb\xbf";
        if (std::string_view(window_.at, window_.end()).starts_with(mark)) window_.at += mark.size();
    }

    void finish() {
        if (!stopped_ && window_.peek() != '\0') damage("text behind the end of the trace");
        while (window_.extend()) window_.at = window_.end();
        data_.size_bytes = window_.offset_of(window_.end());
        if (!source_.damage().empty()) {
            data_.truncated = true;
            data_.add_damage(data_.size_bytes, source_.damage());
        }
        if (!data_.unusable.empty()) return;
        if (!has_events_) data_.unusable = "not a trace: it has no traceEvents";
        if (data_.all_events > 0 && data_.all_events == data_.skipped_events)
            data_.unusable = "not a trace: none of its elements is an event";
    }

    void damage(std::string why) { data_.add_damage(window_.offset_of(window_.at), std::move(why)); }

    void cut_off() { broken("the trace is cut off here; whole events in front of it count"); }

    void broken(std::string why = "not JSON from here on; the rest is not read") {
        stopped_ = true;
        data_.truncated = true;
        damage(std::move(why));
    }

    void stop(ValueEnd::Why why) {
        if (why == ValueEnd::Why::broken) return broken();
        if (window_.ended()) return cut_off();
        broken("a value longer than can be held in memory; the rest is not read");
    }

    /// Calls `read_item` with the first character of each item up to `closing`. False where the text ends first.
    template <typename ReadItem>
    bool read_items(char closing, ReadItem read_item) {
        ++window_.at;
        while (!stopped_) {
            const char c = window_.peek();
            if (c == '\0') return false;
            if (c == ',' || c == closing) {
                ++window_.at;
                if (c == closing) return true;
            } else {
                read_item(c);
            }
        }
        return true;
    }

    // The members of the outermost object.
    void read_object() {
        if (!read_items('}', [this](char c) { c == '"' ? read_member() : broken(); })) cut_off();
    }

    void read_member() {
        std::string_view text;
        const ValueEnd end = window_.take_value(text);
        if (end.why != ValueEnd::Why::whole) return stop(end.why);
        const std::string name(inside_quotes(text));
        const char colon = window_.peek();
        if (colon != ':') return colon == '\0' ? cut_off() : broken();
        ++window_.at;
        const char first = window_.peek();
        if (first == '\0') return cut_off();
        if (name == "traceEvents" && first == '[') return read_events(false);
        const ValueEnd value_end = window_.take_value(text);
        if (value_end.why != ValueEnd::Why::whole) return stop(value_end.why);
        read_fact(name, text);
    }

    void read_fact(std::string_view name, std::string_view value) {
        if (name == "baseTimeNanoseconds") {
            constexpr std::int64_t max_base_ns = std::int64_t{1} << 61;
            const std::int64_t base_ns = parse_integer(value).value_or(0);
            if (base_ns > 0 && base_ns < max_base_ns) data_.facts.base_ns = base_ns;
        }
        if (name == "distributedInfo" && value.starts_with('{')) read_job(value);
        if (name == "deviceProperties" && value.starts_with('[')) read_devices(value);
    }

    void read_job(std::string_view value) {
        read_members(json_, value, [this](ondemand::raw_json_string key, ondemand::value item) {
            const auto number = parse_integer(token_of(item));
            if (!number || *number < 0) return true;
            if (key == "rank") data_.facts.rank = number;
            if (key == "world_size") data_.facts.world_size = number;
            return true;
        });
    }

    void read_devices(std::string_view value) {
        ondemand::document document;
        ondemand::array devices;
        if (json_.iterate(with_padding(value)).get(document) != simdjson::SUCCESS) return;
        if (document.get_array().get(devices) != simdjson::SUCCESS) return;
        for (auto device : devices) {
            ondemand::object object;
            if (std::move(device).get_object().get(object) == simdjson::SUCCESS) read_device(object);
        }
    }

    void read_device(ondemand::object device) {
        std::optional<std::int64_t> id;
        std::string_view name;
        read_members(device, [&](ondemand::raw_json_string key, ondemand::value item) {
            if (key == "id") id = parse_integer(token_of(item));
            if (key == "name" && item.get_string().get(name) != simdjson::SUCCESS) name = {};
            return true;
        });
        if (id && !name.empty()) data_.facts.device_names[*id] = name;
    }

    // The end of an array of events may be missing where it is all there is: the format says so.
    void read_events(bool end_is_optional) {
        has_events_ = true;
        if (read_items(']', [this](char) { read_event(); })) return;
        const bool is_whole = end_is_optional && data_.all_events > 0 && source_.damage().empty();
        if (!is_whole) cut_off();
    }

    void read_event() {
        std::string_view text;
        const std::uint64_t offset_bytes = window_.offset_of(window_.at);
        const ValueEnd end = window_.take_value(text);
        if (end.why != ValueEnd::Why::whole) return resume(end.why);
        ++data_.all_events;
        take_event(parse_event(json_, text), offset_bytes);
    }

    void take_event(const Event& event, std::uint64_t offset_bytes) {
        if (const auto* gpu = std::get_if<GpuEvent>(&event)) {
            data_.events.push_back({gpu->start_ns, gpu->duration_ns, kernel_index(*gpu), device_index(*gpu)});
            add_ns(data_.kernels[data_.events.back().kernel].bytes, gpu->bytes);
        }
        if (const auto* step = std::get_if<StepEvent>(&event)) data_.steps.push_back(*step);
        if (const auto* bad = std::get_if<BadEvent>(&event)) {
            ++data_.skipped_events;
            data_.add_damage(offset_bytes, std::string(bad->why));
        }
    }

    std::uint32_t kernel_index(const GpuEvent& event) {
        auto& known = kernel_indices_[static_cast<std::size_t>(event.activity)];
        if (const auto found = known.find(event.name); found != known.end()) return found->second;
        const auto index = static_cast<std::uint32_t>(data_.kernels.size());
        known.emplace(event.name, index);
        data_.kernels.push_back({event.activity, resolve_escapes(json_, event.name), 0});
        return index;
    }

    std::uint32_t device_index(const GpuEvent& event) {
        DeviceId id{std::string(event.process), event.device};
        const auto [found, added] = device_indices_.try_emplace(id, static_cast<std::uint32_t>(data_.devices.size()));
        if (added) data_.devices.push_back(std::move(id));
        return found->second;
    }

    // Behind an event that has no end, at the next one that is whole.
    void resume(ValueEnd::Why why) {
        const char* next = find_next_event();
        while (next == nullptr && window_.extend()) next = find_next_event();
        if (next == nullptr) return stop(why);
        ++data_.all_events;
        ++data_.skipped_events;
        damage("an event that is not JSON");
        window_.at = next;
    }

    [[nodiscard]] const char* find_next_event() const {
        // Where so many are not whole either, nothing is to be expected of the next.
        constexpr int max_tries = 64;
        const char* next = window_.at;
        for (int tries = 0; tries < max_tries; ++tries) {
            next = find_next_object(next);
            if (next == nullptr || find_nested_end(next, window_.end()).why == ValueEnd::Why::whole) return next;
        }
        return nullptr;
    }

    // "{" behind a comma, and in front of a member's name.
    [[nodiscard]] const char* find_next_object(const char* at) const {
        const char* const end = window_.end();
        for (++at; at < end; ++at) {
            if (*at != ',') continue;
            const char* const open = skip_blanks(at + 1, end);
            if (open == end || *open != '{') continue;
            const char* const quote = skip_blanks(open + 1, end);
            if (quote < end && *quote == '"') return open;
        }
        return nullptr;
    }

    tool::ByteSource& source_;
    TraceWindow window_;
    TraceData& data_;
    ondemand::parser json_;
    std::unordered_map<std::string, std::uint32_t, TextHash, std::equal_to<>> kernel_indices_[3];  // as it is written
    std::map<DeviceId, std::uint32_t> device_indices_;
    bool has_events_ = false;
    bool stopped_ = false;
};

bool is_trace_name(std::string_view path) {
    return path.ends_with(".json") || path.ends_with(".json.gz") || path.ends_with(".json.zst");
}

std::optional<std::int64_t> rank_of_words(std::string_view text) {
    const std::vector<std::string> words = split_words(text);
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
        const auto rank = tool::parse_number<std::int64_t>(words[i + 1]);
        if (words[i] == "rank" && rank) return rank;
    }
    return std::nullopt;
}

}  // namespace

tool::InputSet find_traces(const std::vector<std::string>& arguments, const std::string& files_from) {
    return tool::find_inputs(arguments, files_from, {is_trace_name, "*.json, *.json.gz or *.json.zst files", ""});
}

std::optional<std::int64_t> rank_of_trace_name(std::string_view path) {
    const std::size_t slash = path.rfind('/');
    const auto rank = rank_of_words(path.substr(slash + 1));
    if (rank || slash == std::string_view::npos) return rank;
    const std::string_view directory = path.substr(0, slash);
    return rank_of_words(directory.substr(directory.rfind('/') + 1));
}

void add_ns(std::int64_t& total_ns, std::int64_t more_ns) {
    if (__builtin_add_overflow(total_ns, more_ns, &total_ns)) total_ns = std::numeric_limits<std::int64_t>::max();
}

void TraceData::add_damage(std::uint64_t offset_bytes, std::string why) {
    if (damages.size() < max_shown) damages.push_back({offset_bytes, std::move(why)});
}

TraceData read_trace(const tool::InputFile& file, tool::Progress& progress) {
    TraceData data;
    data.path = file.path;
    try {
        const auto source = tool::open_source(file);
        TraceReader(*source, progress, data).read();
    } catch (const tool::ReadError& error) {
        const std::string_view why = error.what();
        const std::string prefix = file.path + ": ";
        data.unusable = why.starts_with(prefix) ? why.substr(prefix.size()) : why;
    }
    return data;
}

}  // namespace cep::kernels
