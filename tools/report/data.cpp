// SPDX-License-Identifier: Apache-2.0
#include "report/data.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "report/heat_picture.hpp"
#include "show/json_writer.hpp"

namespace cep::report {
namespace {

using tool::JsonWriter;
using tool::printable;

constexpr int digits = 4;

void write_rows(JsonWriter& json, const JobView& view, const HeatMap& heat) {
    std::vector<std::string> labels;
    std::vector<std::string> who;
    std::vector<std::int64_t> ranks;
    std::vector<std::int64_t> hosts;
    std::vector<std::int64_t> blamed;
    const std::vector<std::size_t> all_blamed = view.blamed_ranks();
    for (const std::vector<std::size_t>& row : heat.rows) {
        labels.push_back(view.label_of(row));
        who.push_back(row.size() == 1 ? printable(view.describe_rank(row.front())) : "ranks " + labels.back());
        ranks.push_back(view.ranks[row.front()]);
        hosts.push_back(static_cast<std::int64_t>(view.host[row.front()]));
        blamed.push_back(std::count(all_blamed.begin(), all_blamed.end(), row.front()));
    }
    json.object("rows",
                [&] { json.members("label", labels, "who", who, "rank", ranks, "host", hosts, "blamed", blamed); });
}

void write_steps(JsonWriter& json, const Bins& steps) {
    json.object("steps", [&] { json.members("first", steps.first, "last", steps.last); });
}

void write_bands(JsonWriter& json, const JobView& view, const HeatMap& heat) {
    json.object("bands", [&] {
        write_steps(json, heat.band_steps);
        json.objects("phases", heat.bands, [&](const Band& band) {
            std::vector<std::int64_t> ranks;
            for (const std::size_t rank : band.max_rank)
                ranks.push_back(rank < view.ranks.size() ? view.ranks[rank] : -1);
            json.members("phase", printable(view.phases[band.phase].name));
            json.key("p10").numbers(band.p10_ms, digits);
            json.key("p50").numbers(band.p50_ms, digits);
            json.key("p90").numbers(band.p90_ms, digits);
            json.key("max").numbers(band.max_ms, digits);
            json.members("rank", ranks);
        });
    });
}

void write_layer(JsonWriter& json, const JobView& view, const Layer& layer) {
    const Scale& range = layer.cells.range;
    json.members("phase", printable(view.phases[layer.phase].name), "measure",
                 measure_names[static_cast<std::size_t>(layer.measure)], "title", printable(describe(layer, view)),
                 "low", layer.scale.low, "high", layer.scale.high);
    json.key("range").numbers({range.low, range.high}, 2 * digits);
    json.members("data", layer.cells.data);
}

}  // namespace

PageData write_data(const JobView& view, const HeatMap& heat, std::size_t room) {
    constexpr std::size_t of_members = 1024;  // of a layer, beside its cells
    PageData data;
    JsonWriter json;
    json.begin_object();
    json.members("colors", heat_pixels());
    write_rows(json, view, heat);
    write_steps(json, view.steps);
    write_bands(json, view, heat);
    std::size_t used = JsonWriter(json).finish().size();
    if (used > room) return {"", heat.layers.size()};
    json.key("layers").begin_array();
    for (const Layer& layer : heat.layers) {
        used += layer.cells.data.size() + of_members;
        if (used > room) {
            ++data.left_out;
            continue;
        }
        json.begin_object();
        write_layer(json, view, layer);
        json.end_object();
    }
    json.end_array().end_object();
    for (const char& one : json.finish()) data.json += one == '<' ? "\\u003c" : std::string_view(&one, 1);
    return data;
}

}  // namespace cep::report
