// Where the bundled files are.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {

/// HYDRASCOPE_ASSETS, or found relative to the program's own file: the build tree (`../../assets`),
/// an installation (`../share/hydrascope`). Throws Error(failed) that lists the places when none
/// holds labels/.
const std::filesystem::path& assets_folder();

/// assets/models/NAME.safetensors when there is such a file.
std::optional<std::filesystem::path> bundled_model(std::string_view name);
/// The same as `-m` takes it: the family's name alone, "deit_tiny_patch16_224", is the default
/// model.
std::optional<std::filesystem::path> named_model(std::string_view name);
/// Names of all bundled models, sorted.
std::vector<std::string> bundled_models();
/// The photographs that come along, sorted.
std::vector<std::string> bundled_images();
/// The fonts that come along, sorted.
std::vector<std::filesystem::path> bundled_fonts();
/// assets/labels/NAME.txt when there is such a file.
std::optional<std::filesystem::path> bundled_labels(std::string_view name);

/// What `-m` means when it is not given.
inline constexpr std::string_view kDefaultModel = "deit_tiny_patch16_224.softmax";

}  // namespace hydrascope::app
