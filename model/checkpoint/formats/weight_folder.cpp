#include "model/checkpoint/formats/weight_folder.h"

#include "kernels/error.h"
#include "model/checkpoint/formats/refused_weights.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <system_error>

namespace hydrascope::checkpoint {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

constexpr std::array<std::string_view, 4> kUsual{
    "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
    "pytorch_model.bin.index.json"};
constexpr std::array<std::string_view, 8> kEndings{
    ".safetensors", ".pth", ".pt", ".bin", ".ckpt", ".pth.tar", ".pt.tar", ".ckpt.tar"};
/// Files that trainers keep beside the weights.
constexpr std::array<std::string_view, 7> kNoWeights{
    "optimizer",     "scheduler",     "scaler",       "rng_state",
    "random_states", "training_args", "adapter_model"};
/// Extensions of formats that are named in a folder of nothing else.
constexpr std::array<std::string_view, 21> kForeignEndings{
    ".h5",         ".hdf5",    ".keras",  ".msgpack", ".npz",   ".npy",      ".onnx",
    ".gguf",       ".ggml",    ".xml",    ".tflite",  ".pb",    ".engine",   ".params",
    ".caffemodel", ".mlmodel", ".pickle", ".pkl",     ".index", ".pdparams", ".ot"};

template <std::size_t N>
bool ends_with_one(std::string_view name, const std::array<std::string_view, N>& endings) {
  return std::ranges::any_of(endings, [&](std::string_view end) { return name.ends_with(end); });
}

bool contains(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// Sorted names of all entries that are neither folders nor hidden, as macOS's `._` files are;
/// links that lead nowhere are among them.
Names list_files(const fs::path& folder) {
  std::error_code error;
  Names names;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    std::string name = entry->path().filename().string();
    if (!name.starts_with('.') && !entry->is_directory(ignored)) names.push_back(std::move(name));
  }
  if (error) {
    throw Error(ErrorCode::unreadable, "the folder cannot be listed: " + error.message(),
                folder.string());
  }
  std::ranges::sort(names);
  return names;
}

Names weights_among(const Names& names) {
  Names found;
  for (const std::string& name : names) {
    const bool is_kept = name.ends_with(".state.safetensors") ||
                         std::ranges::any_of(kNoWeights, [&](std::string_view begin) {
                           return name.starts_with(begin);
                         });
    // The numbers of an OpenVINO model, which another file describes.
    const bool is_described =
        name.ends_with(".bin") && contains(names, fs::path(name).stem().string() + ".xml");
    if (ends_with_one(name, kEndings) && !is_kept && !is_described) found.push_back(name);
  }
  return found;
}

/// "model-00001-of-00002.safetensors"
bool is_shard_name(std::string_view name) { return name.find("-of-0") != std::string_view::npos; }

/// The only name with `word` between signs other than letters.
std::optional<std::string> only_with(const Names& names, std::string_view word) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  Names found;
  for (const std::string& name : names) {
    const std::size_t at = name.find(word);
    if (at == std::string::npos) continue;
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_letter(name[at - 1])) && (end == name.size() || !is_letter(name[end])))
      found.push_back(name);
  }
  return found.size() == 1 ? std::optional(found.front()) : std::nullopt;
}

/// Chooses the one that stands out in a folder without a usual file.
std::string choose_name(const Names& weights, const fs::path& folder) {
  if (weights.size() == 1) return weights.front();
  for (const std::string_view word : {"best", "last"})
    if (const auto found = only_with(weights, word)) return *found;
  const bool are_shards = std::ranges::all_of(weights, is_shard_name);
  throw Error(
      are_shards ? ErrorCode::failed : ErrorCode::invalid_argument,
      "the folder holds " + std::to_string(weights.size()) + " files of weights (" +
          some_of(weights) + ")",
      folder.string(),
      are_shards ? "they are shards: their index (*.index.json) is missing" : "name one of them");
}

/// Subfolders with weights in them: the checkpoints of a trainer.
Names folders_with_weights(const fs::path& folder) {
  std::error_code ignored;
  Names found;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (!entry.is_directory(ignored)) continue;
    std::error_code error;
    if (fs::directory_iterator(entry.path(), error); error) continue;
    const Names names = list_files(entry.path());
    if (!weights_among(names).empty() || contains(names, kAdapterConfig))
      found.push_back(entry.path().filename().string());
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace

fs::path choose_weights(const fs::path& folder, std::vector<std::string>& notes) {
  const Names names = list_files(folder);
  const Names weights = weights_among(names);
  if (contains(names, kAdapterConfig)) {
    if (weights.empty()) refuse_adapter(folder);
    throw Error(ErrorCode::invalid_argument,
                "the folder holds an adapter (" + std::string(kAdapterConfig) + ") beside " +
                    some_of(weights),
                folder.string(), "name the file of weights to read them without the adapter");
  }
  const auto usual =
      std::ranges::find_if(kUsual, [&](std::string_view name) { return contains(names, name); });
  if (usual != kUsual.end() || !weights.empty()) {
    const std::string name =
        usual != kUsual.end() ? std::string(*usual) : choose_name(weights, folder);
    const auto others = std::ranges::count_if(
        weights, [&](const std::string& other) { return other != name && !is_shard_name(other); });
    if (others > 0) {
      notes.push_back(name + " is read, one of " + std::to_string(others + 1) +
                      " files of weights in the folder");
    }
    return folder / name;
  }
  const Names folders = folders_with_weights(folder);
  if (folders.size() > 1) {
    throw Error(ErrorCode::invalid_argument,
                "the folder holds no weights itself, but " + std::to_string(folders.size()) +
                    " folders with weights (" + some_of(folders) + ")",
                folder.string(), "name one of them");
  }
  if (folders.size() == 1) {
    notes.push_back("the weights are those of the folder " + folders.front());
    return choose_weights(folder / folders.front(), notes);
  }
  for (const std::string& name : names)
    if (ends_with_one(name, kForeignEndings)) return folder / name;
  throw Error(ErrorCode::not_found,
              "the folder holds no model.safetensors, pytorch_model.bin or other weights",
              folder.string());
}

bool holds_weights(const fs::path& folder) {
  std::error_code error;
  if (fs::directory_iterator(folder, error); error) return false;
  const Names names = list_files(folder);
  return contains(names, kAdapterConfig) || !weights_among(names).empty() ||
         std::ranges::any_of(names, [](const std::string& name) {
           return contains({kUsual.begin(), kUsual.end()}, name) ||
                  ends_with_one(name, kForeignEndings);
         });
}

}  // namespace hydrascope::checkpoint
