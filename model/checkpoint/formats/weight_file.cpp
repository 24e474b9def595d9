#include "model/checkpoint/formats/weight_file.h"

#include "kernels/error.h"
#include "model/checkpoint/formats/torch/torch_pickle.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>
#include <utility>

namespace hydrascope::checkpoint {
namespace {

namespace fs = std::filesystem;

/// The file that a folder stands for.
fs::path choose_file(const fs::path& folder) {
  std::error_code ignored;
  for (const char* candidate :
       {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"}) {
    if (fs::exists(folder / candidate, ignored)) return folder / candidate;
  }
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".safetensors" || extension == ".pth" || extension == ".pt")
      found.push_back(entry.path().filename().string());
  }
  if (found.size() == 1) return folder / found.front();
  if (found.empty()) {
    throw Error(ErrorCode::not_found,
                "the folder holds no model.safetensors, pytorch_model.bin or other weights",
                folder.string());
  }
  std::ranges::sort(found);
  constexpr std::size_t kShown = 4;
  std::string names;
  for (std::size_t i = 0; i < std::min(found.size(), kShown); ++i)
    names += (i == 0 ? "" : ", ") + found[i];
  throw Error(ErrorCode::invalid_argument,
              "the folder holds " + std::to_string(found.size()) + " files of weights (" + names +
                  (found.size() > kShown ? ", ..." : "") + ")",
              folder.string(), "name one of them");
}

std::string_view format_of(const fs::path& file) {
  if (file.native().ends_with(".index.json")) return "safetensors";
  constexpr std::size_t kEnough = 512;
  const MappedFile mapped(file);
  const std::span<const std::byte> bytes = mapped.bytes();
  return sniff_format(bytes.first(std::min(bytes.size(), kEnough)));
}

}  // namespace

WeightFile::WeightFile()
    : metadata_(std::make_shared<const Metadata>()),
      tensors_(std::make_shared<const std::vector<TensorView>>()) {}

template <class Reader>
void WeightFile::keep(Reader reader) {
  const auto owner = std::make_shared<const Reader>(std::move(reader));
  metadata_ = {owner, &owner->metadata()};
  tensors_ = {owner, &owner->tensors()};
}

WeightFile WeightFile::open(const fs::path& path, const WeightFileOptions& options) {
  WeightFile result;
  std::error_code ignored;
  result.file_ = fs::is_directory(path, ignored) ? choose_file(path) : path;
  const std::string_view format = format_of(result.file_);
  if (format == "torch_zip" || format == "torch_legacy") {
    TorchPickleFile reader = TorchPickleFile::open(result.file_, {options.use_ema});
    result.format_ = reader.format();
    result.entry_ = reader.entry();
    result.has_unused_ema_ = reader.has_ema();
    result.keep(std::move(reader));
    return result;
  }
  // Whatever else it is, this reader says it best.
  SafetensorsFile reader = SafetensorsFile::open(result.file_);
  if (options.use_ema) {
    throw Error(ErrorCode::invalid_argument, "safetensors files hold one set of weights",
                "`use_ema`");
  }
  result.format_ = "safetensors";
  result.keep(std::move(reader));
  return result;
}

}  // namespace hydrascope::checkpoint
