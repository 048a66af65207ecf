// SPDX-License-Identifier: Apache-2.0
#include "kernels/trace_inputs.hpp"

#include "base/text.hpp"
#include "kernels/kernel_name.hpp"

namespace cep::kernels {
namespace {

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
    return tool::find_inputs(arguments, files_from,
                             {is_trace_name, "*.json files, also not *.json.gz or *.json.zst", ""});
}

std::optional<std::int64_t> rank_of_trace_name(std::string_view path) {
    const std::size_t slash = path.rfind('/');
    const auto rank = rank_of_words(path.substr(slash + 1));
    if (rank || slash == std::string_view::npos) return rank;
    const std::string_view directory = path.substr(0, slash);
    return rank_of_words(directory.substr(directory.rfind('/') + 1));
}

}  // namespace cep::kernels
