// A file of weights of either format: safetensors (one file or shards) or Python's torch.save.
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
  /// Opens a file, the index of shards, or a folder (`choose_weights`). Throws Error(not_found) for
  /// a missing path, and as `refuse_format` does for other formats and as the readers do.
  static WeightFile open(const std::filesystem::path& path, const WeightFileOptions& options = {});

  /// The file that was opened.
  [[nodiscard]] const std::filesystem::path& file() const noexcept { return file_; }
  /// "safetensors", "torch_zip" or "torch_legacy".
  [[nodiscard]] const std::string& format() const noexcept { return format_; }
  /// The entry of a torch file that holds the weights ("state_dict", "model"); "" for the file
  /// itself.
  [[nodiscard]] const std::string& entry() const noexcept { return entry_; }
  /// Whether a torch file holds averaged weights that were not asked for.
  [[nodiscard]] bool has_unused_ema() const noexcept { return has_unused_ema_; }
  /// The chosen file of a folder, and the values left out of it; a sentence each.
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }
  [[nodiscard]] const Metadata& metadata() const noexcept { return *metadata_; }
  [[nodiscard]] const std::vector<TensorView>& tensors() const noexcept { return *tensors_; }
  /// The same file with other tensors, which keep alive what they point into.
  [[nodiscard]] WeightFile with(std::shared_ptr<const std::vector<TensorView>> tensors) const;

 private:
  template <class Reader>
  void keep(Reader reader);

  std::filesystem::path file_;
  std::string format_;
  std::string entry_;
  bool has_unused_ema_ = false;
  std::vector<std::string> notes_;
  // Both point into the reader, which each of them keeps alive.
  std::shared_ptr<const Metadata> metadata_ = std::make_shared<const Metadata>();
  std::shared_ptr<const std::vector<TensorView>> tensors_ =
      std::make_shared<const std::vector<TensorView>>();
};

}  // namespace hydrascope::checkpoint
