// Checkpoints that Python's `torch.save` writes (.pth, .pt): the zip format since PyTorch 1.6 and
// the legacy one before it. The pickle inside is interpreted by a machine that builds values from
// an allow-list and executes nothing; unknown values that are no weights are left out. Free of
// LibTorch, so that it can be fuzzed.
#pragma once

#include "model/checkpoint/formats/safetensors.h"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::checkpoint {

struct TorchPickleOptions {
  /// Take `state_dict_ema` / `model_ema`; Error(invalid_argument) when the file has neither.
  bool use_ema = false;
};

/// Views that are not contiguous are copied, and a view may repeat its storage (`expand`): all
/// copies of one file together take at most kMaxCopiedBytes + kMaxCopiedFactor * its size.
inline constexpr std::size_t kMaxCopiedBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxCopiedFactor = 8;

/// The weights of one file as a table of row-major tensors.
class TorchPickleFile {
 public:
  /// Maps and reads `file`. Throws Error(decode_failed) for a damaged file, and
  /// Error(unsupported_format) for a pickle that asks for code or the system ("refused to call
  /// os.system"), for weights that only unknown code could make, for a whole pickled module, for
  /// big-endian and repacked files, for TorchScript, for other formats and for a file without
  /// tensors.
  static TorchPickleFile open(const std::filesystem::path& file,
                              const TorchPickleOptions& options = {});
  /// The same over `bytes`, which must outlive the result. Errors name `subject`.
  static TorchPickleFile parse(std::span<const std::byte> bytes, const std::string& subject,
                               const TorchPickleOptions& options = {});

  /// "torch_zip" or "torch_legacy".
  [[nodiscard]] const std::string& format() const noexcept { return format_; }
  /// Text, numbers and booleans beside the weights, as text: the entries of the file's dict
  /// ("arch", "epoch", "metric") and the fields of its `args` ("args.lr"). None, lists and long
  /// text are left out.
  [[nodiscard]] const Metadata& metadata() const noexcept { return metadata_; }
  /// In the order of the state dict. Views that Python stored transposed, strided or shared are
  /// row-major here; contiguous ones point into the mapping.
  [[nodiscard]] const std::vector<TensorView>& tensors() const noexcept { return tensors_; }
  /// The entry that holds the weights ("state_dict", "model", "state_dict_ema", "" for the file
  /// itself).
  [[nodiscard]] const std::string& entry() const noexcept { return entry_; }
  /// Whether the file holds averaged weights that were not asked for.
  [[nodiscard]] bool has_ema() const noexcept { return has_ema_; }
  /// A note on the file's values that only unknown code could make; "" without such values.
  [[nodiscard]] const std::string& note() const noexcept { return note_; }

 private:
  std::string format_;
  std::string entry_;
  bool has_ema_ = false;
  std::string note_;
  Metadata metadata_;
  std::vector<TensorView> tensors_;
  std::vector<std::shared_ptr<const void>> owners_;  ///< the mapping and the row-major copies
};

}  // namespace hydrascope::checkpoint
