#include "app/model/assets.h"

#include "kernels/error.h"

#include <algorithm>
#include <cstdlib>

namespace hydrascope::app {
namespace {

namespace fs = std::filesystem;

bool holds_assets(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder / "labels", ignored);
}

fs::path find_assets() {
  if (const char* told = std::getenv("HYDRASCOPE_ASSETS"); told != nullptr && *told != '\0') {
    if (holds_assets(told)) return told;
    throw Error(ErrorCode::failed, "holds no folder labels/",
                "HYDRASCOPE_ASSETS=" + std::string(told));
  }
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  std::string tried;
  // The build tree's program lies in build/PRESET, its tests one deeper.
  for (const char* relative : {"../../assets", "../../../assets", "../../share/hydrascope"}) {
    const fs::path candidate = (program / relative).lexically_normal();
    if (holds_assets(candidate)) return candidate;
    tried += (tried.empty() ? "" : ", ") + candidate.string();
  }
  throw Error(ErrorCode::failed,
              "the bundled assets are not beside the program (tried " + tried + ")", "assets",
              "set HYDRASCOPE_ASSETS to the folder that holds models/ and labels/");
}

std::optional<fs::path> bundled_file(const char* folder, std::string_view name,
                                     const char* extension) {
  // A name is one component: nothing outside the folder can be meant.
  if (name.empty() || name.find('/') != std::string_view::npos) return std::nullopt;
  for (const std::string& file : {std::string(name) + extension, std::string(name)}) {
    const fs::path path = assets_folder() / folder / file;
    std::error_code ignored;
    if (path.extension() == extension && fs::is_regular_file(path, ignored)) return path;
  }
  return std::nullopt;
}

}  // namespace

const fs::path& assets_folder() {
  static const fs::path folder = find_assets();
  return folder;
}

std::optional<fs::path> bundled_model(std::string_view name) {
  return bundled_file("models", name, ".safetensors");
}

std::optional<fs::path> named_model(std::string_view name) {
  const bool is_family = name == kDefaultModel.substr(0, kDefaultModel.rfind('.'));
  return bundled_model(is_family ? kDefaultModel : name);
}

std::vector<std::string> bundled_models() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(assets_folder() / "models", ignored)) {
    if (entry.path().extension() == ".safetensors") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> bundled_images() {
  std::vector<std::string> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(assets_folder() / "images", ignored)) {
    if (entry.path().extension() == ".jpg") files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  return files;
}

std::vector<fs::path> bundled_fonts() {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(assets_folder() / "fonts", ignored)) {
    const fs::path extension = entry.path().extension();
    if (extension == ".ttf" || extension == ".otf") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

std::optional<fs::path> bundled_labels(std::string_view name) {
  return bundled_file("labels", name, ".txt");
}

}  // namespace hydrascope::app
