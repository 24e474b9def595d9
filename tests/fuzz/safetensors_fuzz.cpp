// Fuzzes what hydrascope reads of hostile checkpoints: parse_safetensors and the index of shards.

#include "kernels/error.h"
#include "model/checkpoint/formats/safetensors.h"
#include "tests/fuzz/fuzz_driver.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace {

using hydrascope::Error;
using hydrascope::ErrorCode;
namespace checkpoint = hydrascope::checkpoint;
using hydrascope::fuzz::require;

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

/// Anything but an Error ends the program: that is what fuzzing is for.
template <class Read>
void expect_result_or_error(Read read) {
  try {
    read();
  } catch (const Error& error) {
    require(error.code() == ErrorCode::decode_failed || error.code() == ErrorCode::empty ||
                error.code() == ErrorCode::unsupported_format,
            "errors have one of three codes");
    require(error.subject() == "fuzz", "errors name their subject");
    const std::string_view what = error.what();
    require(!what.empty() && what.size() < 1000, "messages are there and short");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes = std::as_bytes(std::span(data, size));
  expect_result_or_error(
      [&] { check_tensors(bytes, checkpoint::parse_safetensors(bytes, "fuzz")); });
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  expect_result_or_error([&] { check_weight_map(checkpoint::read_weight_map(text, "fuzz")); });
  return 0;
}

namespace {

std::string length(std::uint64_t value) {
  std::string text(8, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(value >> (8 * i));
  return text;
}

/// A valid input. `header` is empty for an index, which is all `rest`.
struct Seed {
  std::string header;
  std::string rest;
};

const std::array kSeeds{
    Seed{R"({"__metadata__":{"format":"pt","arch":"vit"},)"
         R"("a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
         R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]},)"
         R"("c":{"dtype":"U8","shape":[],"data_offsets":[32,33]},)"
         R"("d":{"dtype":"I64","shape":[0,9],"data_offsets":[33,33]}})"
         "   ",
         std::string(33, '\x7F')},
    Seed{R"({"é\u20ac\n":{"shape":[1],"data_offsets":[0,8],"dtype":"C64"}})", "01234567"},
    Seed{"{}", ""},
    Seed{"", R"({"metadata":{"total_size":1.5,"list":[1,[2,{}],null,true]},)"
             R"("weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})"},
};

/// What random bytes would hardly ever build.
const std::vector<std::string> kTokens{"{",
                                       "}",
                                       "[",
                                       "]",
                                       ",",
                                       ":",
                                       "\"",
                                       "{}",
                                       "[]",
                                       "null",
                                       "true",
                                       "-1",
                                       "-0",
                                       "0",
                                       "1.0",
                                       "1e3",
                                       "9223372036854775807",
                                       "9223372036854775808",
                                       "18446744073709551615",
                                       "18446744073709551616",
                                       "4294967296",
                                       "\"dtype\":",
                                       "\"shape\":",
                                       "\"data_offsets\":",
                                       "\"__metadata__\":{},",
                                       "\"F32\"",
                                       "\"F64\"",
                                       "\"F8_E8M0\"",
                                       "\"F4\"",
                                       "\"\\ud800\"",
                                       "\"\\u0000\"",
                                       "\"..\"",
                                       "\"/a\"",
                                       "\xFF",
                                       "\xC3\xA9",
                                       "\xED\xA0\x80",
                                       "PK\x03\x04",
                                       "GGUF",
                                       "<html",
                                       "\x80\x02",
                                       "\n",
                                       " "};

/// A number near the one that follows `at`, so that offsets and shapes stay almost right.
void change_number(hydrascope::fuzz::Mutator& random, std::string& text, std::size_t at) {
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t begin = text.find_first_of(kDigits, at);
  if (begin == std::string::npos) return;
  const std::size_t end = std::min(text.find_first_not_of(kDigits, begin), text.size());
  const std::uint64_t old = std::strtoull(text.substr(begin, end - begin).c_str(), nullptr, 10);
  text.replace(begin, end - begin, std::to_string(old + random.below(5) - 2));
}

std::string next_input(hydrascope::fuzz::Mutator& random) {
  Seed seed = kSeeds[random.below(kSeeds.size())];
  // Half of the headers are changed before their length is written: else nearly every mutation
  // would end at the first check.
  const bool is_file = !seed.header.empty();
  const bool inside = is_file && random.below(2) == 0;
  if (inside) random.mutate(seed.header);
  std::string input = is_file ? length(seed.header.size()) + seed.header + seed.rest : seed.rest;
  if (!inside || random.below(4) == 0) random.mutate(input);
  return input;
}

bool is_accepted(std::span<const std::byte> bytes) {
  try {
    checkpoint::parse_safetensors(bytes, "fuzz");
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

hydrascope::fuzz::Campaign hydrascope::fuzz::make_campaign(std::uint64_t seed) {
  Campaign campaign{{}, is_accepted, {}};
  for (const Seed& valid : kSeeds) {
    if (!valid.header.empty())
      campaign.valid.push_back(length(valid.header.size()) + valid.header + valid.rest);
  }
  const auto mutator = std::make_shared<Mutator>(seed, kTokens, change_number);
  campaign.next = [mutator] { return next_input(*mutator); };
  return campaign;
}
