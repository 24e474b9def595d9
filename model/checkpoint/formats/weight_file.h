// A file of weights, whatever its format: safetensors (one file or shards) or what Python's
// torch.save wrote.
#pragma once

#include "model/checkpoint/formats/safetensors.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace hydrascope::checkpoint {

struct WeightFileOptions {
  /// Take the moving average of the weights that a training checkpoint holds;
  /// Error(invalid_argument) when it holds none.
  bool use_ema = false;
};

/// Tensors and metadata of one file. Copies share the mapping.
class WeightFile {
 public:
  WeightFile();
  /// A file, the index of shards, or a folder (`choose_weights`). Throws Error(not_found) for what
  /// is not there, what `refuse_format` throws for other formats, and what the readers throw.
  static WeightFile open(const std::filesystem::path& path, const WeightFileOptions& options = {});

  /// The file that was opened.
  [[nodiscard]] const std::filesystem::path& file() const noexcept { return file_; }
  /// "safetensors", "torch_zip" or "torch_legacy".
  [[nodiscard]] const std::string& format() const noexcept { return format_; }
  /// Which entry of a torch file the weights came from ("state_dict", "model"); "" for the file
  /// itself.
  [[nodiscard]] const std::string& entry() const noexcept { return entry_; }
  /// A torch file that holds averaged weights which were not asked for.
  [[nodiscard]] bool has_unused_ema() const noexcept { return has_unused_ema_; }
  /// Which file of a folder was taken, and what of it was left out; a sentence each.
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }
  [[nodiscard]] const Metadata& metadata() const noexcept { return *metadata_; }
  [[nodiscard]] const std::vector<TensorView>& tensors() const noexcept { return *tensors_; }

 private:
  template <class Reader>
  void keep(Reader reader);

  std::filesystem::path file_;
  std::string format_;
  std::string entry_;
  bool has_unused_ema_ = false;
  std::vector<std::string> notes_;
  // Into the reader, which each of them keeps alive.
  std::shared_ptr<const Metadata> metadata_;
  std::shared_ptr<const std::vector<TensorView>> tensors_;
};

}  // namespace hydrascope::checkpoint
