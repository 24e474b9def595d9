#include "model/checkpoint/formats/weight_file.h"

#include "kernels/error.h"
#include "model/checkpoint/formats/foreign_formats.h"
#include "model/checkpoint/formats/torch/torch_pickle.h"
#include "model/checkpoint/formats/weight_folder.h"

#include <string_view>
#include <system_error>
#include <utility>

namespace hydrascope::checkpoint {
namespace {

namespace fs = std::filesystem;

/// The format by the file's beginning. Throws for a file without weights.
std::string_view format_of(const fs::path& file) {
  const MappedFile mapped(file);
  const std::span<const std::byte> bytes = mapped.bytes();
  const std::string_view format = sniff_format(bytes);
  if (format == "safetensors" || format == "torch_zip" || format == "torch_legacy") return format;
  if (is_shard_index(file, bytes)) return "safetensors";
  // A file with a damaged length has no format's mark.
  const bool is_damaged = file.extension() == ".safetensors" && format == "unknown";
  if (!is_damaged)
    refuse_format(format, bytes, "a safetensors file or one of torch.save", file.native());
  return "safetensors";
}

}  // namespace

template <class Reader>
void WeightFile::keep(Reader reader) {
  const auto owner = std::make_shared<const Reader>(std::move(reader));
  metadata_ = {owner, &owner->metadata()};
  tensors_ = {owner, &owner->tensors()};
}

WeightFile WeightFile::with(std::shared_ptr<const std::vector<TensorView>> tensors) const {
  WeightFile other = *this;
  other.tensors_ = std::move(tensors);
  return other;
}

WeightFile WeightFile::open(const fs::path& path, const WeightFileOptions& options) {
  WeightFile result;
  std::error_code ignored;
  result.file_ = fs::is_directory(path, ignored) ? choose_weights(path, result.notes_) : path;
  const std::string_view format = format_of(result.file_);
  if (format == "torch_zip" || format == "torch_legacy") {
    TorchPickleFile reader = TorchPickleFile::open(result.file_, {options.use_ema});
    result.format_ = reader.format();
    result.entry_ = reader.entry();
    result.has_unused_ema_ = reader.has_ema();
    if (!reader.note().empty()) result.notes_.push_back(reader.note());
    result.keep(std::move(reader));
    return result;
  }
  SafetensorsFile reader = SafetensorsFile::open(result.file_);
  if (options.use_ema) {
    throw Error(ErrorCode::invalid_argument, "safetensors files and shards hold one set of weights",
                "`use_ema`");
  }
  result.format_ = reader.format();
  result.notes_.insert(result.notes_.end(), reader.notes().begin(), reader.notes().end());
  result.keep(std::move(reader));
  return result;
}

}  // namespace hydrascope::checkpoint
