// SPDX-License-Identifier: Apache-2.0
#include "model/settings.hpp"

#include <algorithm>
#include <map>

#include "base/text.hpp"

namespace cep::tool {
namespace {

using RanksByText = std::map<std::string_view, std::vector<std::int64_t>>;

Settings parse(std::string_view lines) {
    Settings settings;
    for (const std::string_view line : split(lines, '\n')) {
        const std::size_t equals = line.find('=');
        if (equals != std::string_view::npos) settings.emplace_back(line.substr(0, equals), line.substr(equals + 1));
    }
    return settings;
}

std::string_view find(const Settings& settings, std::string_view name) {
    const auto found =
        std::find_if(settings.begin(), settings.end(), [&](const auto& setting) { return setting.first == name; });
    return found == settings.end() ? std::string_view() : std::string_view(found->second);
}

void add_uneven(JobSettings& settings, const Settings& others, const std::vector<std::int64_t>& ranks) {
    const auto compare = [&](const std::string& name) {
        const std::string_view usual = find(settings.usual, name);
        const std::string_view odd = find(others, name);
        if (usual == odd) return;
        const auto known = std::find_if(settings.differing.begin(), settings.differing.end(),
                                        [&](const DifferingSetting& one) { return one.name == name; });
        if (known == settings.differing.end())
            settings.differing.push_back({name, std::string(usual), std::string(odd), ranks});
        else
            known->odd_ranks.insert(known->odd_ranks.end(), ranks.begin(), ranks.end());
    };
    for (const auto& [name, value] : settings.usual) compare(name);
    for (const auto& [name, value] : others)
        if (find(settings.usual, name).empty()) compare(name);
}

}  // namespace

std::string_view JobSettings::value_of(std::string_view name) const {
    return find(usual, name);
}

JobSettings find_settings(const RankSeries& ranks) {
    RanksByText by_text;
    for (const auto& [rank, of_rank] : ranks)
        if (const std::string& text = of_rank.back().run.settings; !text.empty()) by_text[text].push_back(rank);
    JobSettings settings;
    const auto most = std::max_element(by_text.begin(), by_text.end(), [](const auto& one, const auto& other) {
        return one.second.size() < other.second.size();
    });
    if (most == by_text.end()) return settings;
    settings.usual = parse(most->first);
    for (auto it = by_text.begin(); it != by_text.end(); ++it)
        if (it != most) add_uneven(settings, parse(it->first), it->second);
    for (DifferingSetting& one : settings.differing) std::sort(one.odd_ranks.begin(), one.odd_ranks.end());
    return settings;
}

}  // namespace cep::tool
