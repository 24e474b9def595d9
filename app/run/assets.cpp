#include "app/run/assets.h"

#include "app/run/own_program.h"
#include "app/run/usage_error.h"
#include "kernels/input_file.h"
#include "model/checkpoint/formats/weight_folder.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <dlfcn.h>
#include <pwd.h>
#include <span>
#include <system_error>
#include <unistd.h>

namespace hydrascope::app {

namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

/// Endings of a file with all weights, and of an index of files, of which another model reads some.
constexpr std::array<std::string_view, 2> kModelEndings{".safetensors", ".json"};

/// By a file that no other program has: a folder labels/ may be anybody's.
bool holds_assets(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / kSelfTestFile, ignored);
}

/// The folder of this program, or of the library that this code is in.
fs::path own_folder() {
  std::error_code ignored;
  Dl_info own{};
  if (::dladdr(reinterpret_cast<const void*>(&own_folder), &own) != 0 && own.dli_fname != nullptr &&
      fs::path(own.dli_fname).filename().string().starts_with("libhydrascope"))
    return fs::canonical(own.dli_fname, ignored).parent_path();
  return own_file().parent_path();
}

fs::path find_assets() {
  if (const char* told = std::getenv("HYDRASCOPE_ASSETS"); told != nullptr && *told != '\0') {
    if (holds_assets(told)) return told;
    throw Error(ErrorCode::failed, "holds no " + std::string(kSelfTestFile),
                "HYDRASCOPE_ASSETS=" + std::string(told));
  }
  const fs::path program = own_folder();
  std::string tried;
  // The nearest first, so that no folder outside the tree hides its own. The build tree's program lies
  // beside share/, its tests one deeper; installed, the engine lies in libexec/hydrascope, the front in
  // bin, the library in lib. Programs of scripts/gpu_kit.sh travel in build/gpu_kit of the sources.
  for (const char* relative :
       {"share/hydrascope", "../share/hydrascope", "../../share/hydrascope", "../../assets"}) {
    const fs::path candidate = (program / relative).lexically_normal();
    if (holds_assets(candidate)) return fs::canonical(candidate);
    tried += (tried.empty() ? "" : ", ") + candidate.string();
  }
  throw Error(
      ErrorCode::failed, "the bundled assets are not beside the program (tried " + tried + ")",
      "assets",
      "set HYDRASCOPE_ASSETS to the folder that holds models/ and " + std::string(kSelfTestFile));
}

std::optional<fs::path> bundled_file(const char* folder, std::string_view name,
                                     std::string_view extension) {
  // A name is one component: nothing outside the folder can be meant.
  if (name.empty() || name.find('/') != std::string_view::npos) return std::nullopt;
  for (const std::string& file : {std::string(name).append(extension), std::string(name)}) {
    const fs::path path = assets_folder() / folder / file;
    std::error_code ignored;
    if (path.extension() == extension && fs::is_regular_file(path, ignored)) return path;
  }
  return std::nullopt;
}

/// The files of a folder that have one of the extensions, sorted.
std::vector<fs::path> bundled_files(const char* folder,
                                    std::span<const std::string_view> extensions) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(assets_folder() / folder, ignored))
    if (std::ranges::count(extensions, entry.path().extension().string()) > 0)
      files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Always absolute; / for a user without one, as containers have it.
fs::path home_folder() {
  const fs::path told = environment("HOME");
  if (told.is_absolute()) return told;
  const passwd* user = ::getpwuid(::getuid());
  const fs::path listed = user == nullptr ? "" : user->pw_dir;
  return listed.is_absolute() ? listed : fs::path("/");
}

/// With the home for a `~` that the shell did not replace.
fs::path expanded(const std::string& given) {
  return given == "~" || given.starts_with("~/") ? home_folder().string() + given.substr(1) : given;
}

/// Letters, digits, '-', '_' and '.', as Hugging Face allows them; no part that leads elsewhere.
bool is_name_part(std::string_view text) {
  return !text.empty() && text.front() != '.' && text.find("..") == std::string_view::npos &&
         std::ranges::all_of(text, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
         });
}

/// Revisions may have several parts: "refs/pr/1".
bool is_revision(std::string_view text) {
  while (true) {
    const std::size_t slash = text.find('/');
    if (!is_name_part(text.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    text.remove_prefix(slash + 1);
  }
}

constexpr std::size_t kHubPrefixLength = 7;
bool has_hub_prefix(std::string_view word) {
  return word.starts_with("hf-hub:") || word.starts_with("hf_hub:");
}

/// Whether or not it is there.
fs::path snapshot_folder(const HubName& name) {
  std::string folder = "models--" + name.repository;
  folder.replace(folder.find('/'), 1, "--");
  const fs::path repository = hub_cache_folder() / folder;
  const std::string revision = name.revision.empty() ? "main" : name.revision;
  // A branch or a tag is a file that holds its commit.
  InputFile reference(repository / "refs" / revision);
  std::string commit;
  if (!(reference >> commit) || !is_name_part(commit)) commit = revision;
  return repository / "snapshots" / commit;
}

}  // namespace

const fs::path& assets_folder() {
  static const fs::path folder = find_assets();
  return folder;
}

bool is_bundled_model(const fs::path& file) {
  std::error_code ignored;
  const auto size = fs::file_size(file, ignored);
  const auto is_copy_of = [&](const fs::path& other) {
    if (fs::equivalent(file, other, ignored)) return true;
    if (fs::file_size(other, ignored) != size) return false;
    return InputFile(file).text() == InputFile(other).text();
  };
  return std::ranges::any_of(bundled_models(), [&](const std::string& name) {
    return is_copy_of(named_model(name).value_or(""));
  });
}

std::optional<fs::path> named_model(std::string_view name) {
  if (name == kDefaultModel.substr(0, kDefaultModel.rfind('.'))) name = kDefaultModel;
  for (const std::string_view ending : kModelEndings)
    if (auto file = bundled_file("models", name, ending)) return file;
  return std::nullopt;
}

std::vector<std::string> bundled_models() {
  std::vector<std::string> names;
  for (const fs::path& file : bundled_files("models", kModelEndings))
    names.push_back(file.stem().string());
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> bundled_images() {
  std::vector<std::string> files;
  for (const fs::path& file : bundled_files("images", std::array{".jpg"sv}))
    files.push_back(file.string());
  return files;
}

std::optional<fs::path> bundled_labels(std::string_view name) {
  return bundled_file("labels", name, ".txt");
}

std::optional<HubName> parse_hub_name(std::string_view word) {
  if (has_hub_prefix(word)) word.remove_prefix(kHubPrefixLength);
  const std::size_t at = word.find('@');
  HubName name{std::string(word.substr(0, at)), ""};
  const std::size_t slash = name.repository.find('/');
  if (slash == std::string::npos || !is_name_part(name.repository.substr(0, slash)) ||
      !is_name_part(name.repository.substr(slash + 1)))
    return std::nullopt;
  if (at != std::string_view::npos) {
    name.revision = word.substr(at + 1);
    if (!is_revision(name.revision)) return std::nullopt;
  }
  return name;
}

fs::path hub_cache_folder() {
  for (const char* variable : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (const std::string folder = environment(variable); !folder.empty()) return expanded(folder);
  if (const std::string home = environment("HF_HOME"); !home.empty()) return expanded(home) / "hub";
  const fs::path caches = environment("XDG_CACHE_HOME");
  return (caches.is_absolute() ? caches : home_folder() / ".cache") / "huggingface" / "hub";
}

std::optional<fs::path> find_in_hub_cache(const HubName& name) {
  fs::path snapshot = snapshot_folder(name);
  if (!checkpoint::holds_weights(snapshot)) return std::nullopt;
  return snapshot;
}

std::optional<fs::path> hub_folder(std::string_view word) {
  const std::optional<HubName> name = parse_hub_name(word);
  const std::optional<fs::path> folder = name ? find_in_hub_cache(*name) : std::nullopt;
  if (folder || !has_hub_prefix(word)) return folder;
  if (!name) {
    throw UsageError("expected hf-hub:org/name or hf-hub:org/name@revision", std::string(word));
  }
  const fs::path snapshot = snapshot_folder(*name);
  std::error_code ignored;
  throw UsageError(fs::is_directory(snapshot, ignored)
                       ? "the model's folder in Hugging Face's cache, " + snapshot.string() +
                             ", holds no weights"
                       : "the model is not in Hugging Face's cache, " + hub_cache_folder().string(),
                   std::string(word), "`" + download_command(*name) + "` fetches it");
}

std::string download_command(const HubName& name) {
  return "hf download " + name.repository +
         (name.revision.empty() ? "" : " --revision " + name.revision);
}

}  // namespace hydrascope::app
