// The safetensors reader, and the index of shards.
#include "model/checkpoint/formats/safetensors.h"
#include "tests/fuzz/fuzz.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace checkpoint = hydrascope::checkpoint;
using hydrascope::fuzz::require;

namespace {

void check_tensors(std::span<const std::byte> bytes, const checkpoint::SafetensorsIndex& index) {
  std::set<std::string_view> names;
  std::size_t total = 0;
  for (const checkpoint::TensorView& tensor : index.tensors) total += tensor.data.size();
  require(total + 8 < bytes.size(), "length, header and tensors fit into the file");
  const std::byte* next = bytes.data() + (bytes.size() - total);
  for (const checkpoint::TensorView& tensor : index.tensors) {
    require(tensor.data.data() == next, "tensors tile the end of the file");
    require(names.insert(tensor.name).second, "names are unique");
    require(tensor.shape.size() <= checkpoint::kMaxRank, "the rank is bounded");
    std::uint64_t size = checkpoint::size_of(tensor.dtype);
    for (const std::int64_t extent : tensor.shape) {
      require(extent >= 0, "extents are not negative");
      const auto factor = static_cast<std::uint64_t>(extent);
      require(factor == 0 || size <= (std::uint64_t{1} << 63) / factor, "sizes fit into 64 bits");
      size *= factor;
    }
    require(size == tensor.data.size(), "sizes are the product of shape and dtype");
    next += tensor.data.size();
  }
}

void check_weight_map(const checkpoint::WeightMap& weight_map) {
  require(!weight_map.empty(), "an index names tensors");
  for (const auto& [tensor, shard] : weight_map) {
    require(!shard.empty() && shard != "." && shard != ".." &&
                shard.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos,
            "shards lie beside their index");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = hydrascope::fuzz::as_text(data, size);
  const auto bytes = hydrascope::fuzz::as_bytes(text);
  hydrascope::fuzz::gives_result(
      [&] { check_tensors(bytes, checkpoint::parse_safetensors(bytes, "fuzz")); }, 1000);
  hydrascope::fuzz::gives_result(
      [&] { check_weight_map(checkpoint::read_weight_map(text, "fuzz")); }, 1000);
  return 0;
}

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

/// Every second change is of the header alone, whose length is then made right: else nearly every change would
/// end at the first check.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  constexpr std::size_t kLength = 8;
  std::uint64_t header = 0;
  if (size > kLength) std::memcpy(&header, data, kLength);
  if (seed % 2 == 0 || header == 0 || header > size - kLength)
    return LLVMFuzzerMutate(data, size, most);
  const std::vector<std::uint8_t> tensors(data + kLength + header, data + size);
  header = LLVMFuzzerMutate(data + kLength, header, most - kLength - tensors.size());
  std::memcpy(data, &header, kLength);
  std::ranges::copy(tensors, data + kLength + header);
  return kLength + header + tensors.size();
}
