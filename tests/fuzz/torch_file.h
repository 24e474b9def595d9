// The rules of a file of torch.save that is read, whatever its bytes.
#pragma once

#include "model/checkpoint/formats/safetensors.h"
#include "model/checkpoint/formats/torch/torch_pickle.h"
#include "tests/fuzz/fuzz.h"

#include <functional>
#include <set>

namespace hydrascope::fuzz {

inline void check_torch_file(std::span<const std::byte> bytes,
                             const checkpoint::TorchPickleFile& file) {
  require(!file.tensors().empty(), "a file without tensors is an error");
  require(file.metadata().size() <= 1024, "metadata is bounded");
  std::set<std::string_view> names;
  std::size_t copied = 0;
  volatile unsigned sum = 0;  // else the compiler would leave out what nobody uses
  for (const checkpoint::TensorView& tensor : file.tensors()) {
    require(names.insert(tensor.name).second, "names are unique");
    require(tensor.shape.size() <= checkpoint::kMaxRank, "the rank is bounded");
    const auto size = checkpoint::byte_size(tensor.shape, tensor.dtype);
    require(size && *size == tensor.data.size(), "sizes are the product of shape and dtype");
    const std::less_equal<> before;
    if (!before(bytes.data(), tensor.data.data()) ||
        !before(tensor.data.data() + tensor.data.size(), bytes.data() + bytes.size()))
      copied += tensor.data.size();
    // From front to back, so that AddressSanitizer sees what lies outside.
    for (std::size_t i = 0; i < tensor.data.size(); i += 64)
      sum = sum + std::to_integer<unsigned>(tensor.data[i]);
    if (!tensor.data.empty()) sum = sum + std::to_integer<unsigned>(tensor.data.back());
  }
  require(copied <= checkpoint::kMaxCopiedBytes + checkpoint::kMaxCopiedFactor * bytes.size(),
          "copies are bounded");
}

inline void read_torch_file(std::span<const std::byte> bytes) {
  for (const bool use_ema : {false, true}) {
    gives_result([&] {
      check_torch_file(bytes,
                       checkpoint::TorchPickleFile::parse(bytes, "fuzz", {.use_ema = use_ema}));
    });
  }
}

}  // namespace hydrascope::fuzz
