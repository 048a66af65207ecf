// SPDX-License-Identifier: Apache-2.0
#include "summary/oom_snapshots.hpp"

#include <fmt/format.h>
#include <unistd.h>

namespace cep::tool {

std::vector<std::string> find_oom_snapshots(const InputSet& inputs) {
    std::vector<std::string> found;
    for (const InputFile& file : inputs.files) {
        if (!file.name_rank) continue;
        const std::string directory = file.path.substr(0, file.path.rfind('/') + 1);
        std::string path = fmt::format("{}cuda_memory_rank_{}.pickle", directory, *file.name_rank);
        if (::access(path.c_str(), F_OK) == 0) found.push_back(std::move(path));
    }
    return found;
}

}  // namespace cep::tool
