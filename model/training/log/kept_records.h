// What a resumed run keeps of the files that the interrupted one appended to.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace hydrascope::model::training {

/// Cuts `file` after its first `kept(bytes)` bytes and returns them; a file that is not there
/// stays so. Throws Error(failed).
std::string keep_records(const std::filesystem::path& file,
                         const std::function<std::size_t(std::string_view)>& kept);

}  // namespace hydrascope::model::training
