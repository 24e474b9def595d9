// The two containers of torch.save: the places of the pickle and of the tensors' storages.
#pragma once

#include "model/checkpoint/formats/torch/pickle_value.h"

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>

namespace hydrascope::checkpoint {

struct TorchContents {
  pickle::Value root;  ///< lives in the heap
  /// The raw little-endian bytes by the storage's key.
  std::map<std::string, std::span<const std::byte>, std::less<>> storages;
};

/// Reads files since PyTorch 1.6: a zip archive with the entries NAME/data.pkl, NAME/data/KEY and
/// NAME/byteorder. Throws as `ZipArchive` and `pickle::run` do, Error(unsupported_format) for
/// big-endian storages, TorchScript and other archives.
TorchContents read_torch_zip(std::span<const std::byte> bytes, pickle::Heap& heap);

/// Reads files before PyTorch 1.6, and with `_use_new_zipfile_serialization=False`: the pickles of
/// a magic number, a version, facts about the machine, the object and the list of storage keys,
/// then for every key 8 bytes of length and the elements. Throws as `pickle::run` does, and
/// Error(unsupported_format) for big-endian storages and other pickles.
TorchContents read_torch_legacy(std::span<const std::byte> bytes, pickle::Heap& heap);

}  // namespace hydrascope::checkpoint
