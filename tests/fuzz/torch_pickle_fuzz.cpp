// Fuzzes what hydrascope reads of files of torch.save: the zip archive, the legacy container and
// the pickle machine.
#include "kernels/error.h"
#include "model/checkpoint/formats/safetensors_header.h"
#include "model/checkpoint/formats/torch/pickle_machine.h"
#include "model/checkpoint/formats/torch/torch_pickle.h"
#include "tests/fuzz/fuzz_driver.h"
#include "tests/model/checkpoint/formats/torch/pickle_bytes.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using hydrascope::Error;
using hydrascope::ErrorCode;
namespace checkpoint = hydrascope::checkpoint;
using hydrascope::fuzz::require;

bool lies_in(std::span<const std::byte> part, std::span<const std::byte> whole) {
  const std::less_equal<> before;
  return before(whole.data(), part.data()) &&
         before(part.data() + part.size(), whole.data() + whole.size());
}

/// Reads from front to back, so that AddressSanitizer sees what lies outside.
void touch(std::span<const std::byte> data) {
  constexpr std::size_t kStep = 64;
  volatile unsigned sum = 0;  // else the compiler would leave out what nobody uses
  for (std::size_t i = 0; i < data.size(); i += kStep) {
    sum = sum + std::to_integer<unsigned>(data[i]);
  }
  if (!data.empty()) sum = sum + std::to_integer<unsigned>(data.back());
}

void check_file(std::span<const std::byte> bytes, const checkpoint::TorchPickleFile& file) {
  require(!file.tensors().empty(), "a file without tensors is an error");
  require(file.metadata().size() <= 1024, "metadata is bounded");
  std::set<std::string_view> names;
  std::size_t copied = 0;
  for (const checkpoint::TensorView& tensor : file.tensors()) {
    require(names.insert(tensor.name).second, "names are unique");
    require(tensor.shape.size() <= checkpoint::kMaxRank, "the rank is bounded");
    const auto size = checkpoint::byte_size(tensor.shape, tensor.dtype);
    require(size && *size == tensor.data.size(), "sizes are the product of shape and dtype");
    if (!lies_in(tensor.data, bytes)) copied += tensor.data.size();
    touch(tensor.data);
  }
  require(copied <= checkpoint::kMaxCopiedBytes + checkpoint::kMaxCopiedFactor * bytes.size(),
          "copies are bounded");
}

/// Anything but an Error ends the program: that is what fuzzing is for.
template <class Read>
void expect_result_or_error(Read read) {
  try {
    read();
  } catch (const Error& error) {
    require(error.code() == ErrorCode::decode_failed || error.code() == ErrorCode::empty ||
                error.code() == ErrorCode::unsupported_format ||
                error.code() == ErrorCode::invalid_argument,
            "errors have one of four codes");
    require(error.subject() == "fuzz", "errors name their subject");
    const std::string_view what = error.what();
    require(!what.empty() && what.size() < 10000, "messages are there and short");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes = std::as_bytes(std::span(data, size));
  for (const bool use_ema : {false, true}) {
    expect_result_or_error([&] {
      check_file(bytes, checkpoint::TorchPickleFile::parse(bytes, "fuzz", {.use_ema = use_ema}));
    });
  }
  // As the pickle itself, which the containers' checks would keep most inputs from.
  expect_result_or_error([&] {
    checkpoint::pickle::Heap heap(size, "fuzz");
    require(checkpoint::pickle::run(bytes, heap).length <= size, "a pickle ends in its file");
  });
  return 0;
}

namespace {

using namespace hydrascope::testing;
using namespace std::string_literals;

enum class Container { zip, zip64, legacy, none };

/// A valid input.
struct Seed {
  Container container;
  std::string root;
  Storages storages;

  [[nodiscard]] std::string file() const {
    switch (container) {
      case Container::zip: return torch_zip(root, storages, {});
      case Container::zip64: return torch_zip(root, storages);
      case Container::legacy: return torch_legacy(root, storages);
      case Container::none: break;
    }
    return pickle_of(root);
  }
};

std::string ordered(const std::string& items) {
  return call(global("collections", "OrderedDict"), {}) + "q\x01" + items.substr(1);
}

std::string training() {
  const std::string floats = storage("FloatStorage", "0", 24);
  const std::string type = call(global("numpy", "dtype"), {text("f8"), "\x89", "\x88"}) +
                           tuple({"K\x03", text("<"), "N", "N", "N"}) + "b";
  const std::string bytes =
      call(global("_codecs", "encode"), {text("\0\0\0\0\0\xC3\xA0Q@"s), text("latin1")});
  return dict({
      {"epoch", "K\x0C"},
      {"metric", call(global("numpy._core.multiarray", "scalar"), {type, bytes})},
      {"args", global("argparse", "Namespace") + ")\x81" +
                   dict({{"lr", "G\x3F\xE0\x00\x00\x00\x00\x00\x00"s}}) + "b"},
      {"state_dict",
       ordered(dict({{"weight", tensor(floats, 0, {4, 6}, {6, 1})},
                     {"transposed", tensor(floats, 0, {6, 4}, {1, 6})},
                     {"expanded", tensor(floats, 3, {4, 5, 2}, {6, 0, 1})},
                     {"half", tensor(storage("HalfStorage", "1", 3), 1, {2}, {1})},
                     {"nothing", tensor(storage("LongStorage", "2", 0), 0, {0, 9}, {9, 1})}})) +
           dict({{"_metadata", "h\x01"}}) + "b"},
      {"model_ema", dict({{"weight", tensor(floats, 1, {}, {})}})},
      {"set", "\x8f(K\x01K\x02\x90"},
      {"list",
       "](K\x01U\x01\x61\x88M\x01\x01\x8a\x01\xFF"
       "e"},
  });
}

std::string legacy() {
  return dict({
      {"a", tensor(storage("DoubleStorage", "10", 2), 0, {2}, {1})},
      {"b", call(global("torch._utils", "_rebuild_parameter"),
                 {tensor(storage_view("ByteStorage", "11", 6, 2, 3), 1, {2}, {1}), "\x88", "}"})},
  });
}

const std::array kSeeds{
    Seed{Container::zip, training(), {{"0", std::string(96, '\x3F')}, {"1", "abcdef"}, {"2", ""}}},
    Seed{Container::zip64, training(), {{"0", std::string(96, 'x')}, {"1", "abcdef"}, {"2", ""}}},
    Seed{Container::legacy,
         legacy(),
         {{"10", little(2, 8) + std::string(16, 'y')}, {"11", little(6, 8) + "012345"}}},
    Seed{Container::none, training(), {}},
};

/// What random bytes would hardly ever build.
const std::vector<std::string> kTokens{
    global("posix", "system"),
    global("toy", "Net"),
    global("collections", "OrderedDict"),
    global("collections", "Counter"),
    global("argparse", "Namespace"),
    global("torch", "Size"),
    global("torch", "ComplexDoubleStorage"),
    global("torch.storage", "UntypedStorage"),
    global("torch._utils", "_rebuild_tensor_v3"),
    global("torch._utils", "_rebuild_parameter"),
    global("_codecs", "encode"),
    number(-1),
    number(INT64_MAX),
    number(INT64_MIN),
    number(1 << 20),
    text("args"),
    text("state_dict"),
    text("posix") + text("system") + "\x93",
    "q\x01"s,
    "h\x01"s,
    "\x94"s,
    "r\xFF\xFF\xFF\x7F"s,
    "\x8a\xFF"s,
    "\x8b\xFF\xFF\xFF\x7F"s,
    "X\xFF\xFF\xFF\xFF"s,
    "\x8e\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"s,
    "\x95\xFF\x00\x00\x00\x00\x00\x00\x00"s,
    "]q\x02h\x02"
    "ah\x02"
    "a"s,
    "}q\x03h\x03h\x03s"s,
    "(l"s,
    ")R"s,
    ")\x81"s,
    ")}\x92"s,
    "}b"s,
    "2222"s,
    "\x85\x86\x87"s,
    "((((1"s,
    "Q"s,
    "0"s,
    "."s,
    "PK\x05\x06"s,
    "PK\x06\x07"s,
    "PK\x01\x02"s,
    "\xFF\xFF\xFF\xFF"s,
    "\0\0\0\0"s,
};

/// Another value for an integer that follows `at`: near the old one, or of any magnitude.
void change_number(hydrascope::fuzz::Mutator& random, std::string& bytes, std::size_t at) {
  constexpr std::string_view kInteger = "\x8a\x08";
  const std::size_t found = bytes.find(kInteger, at);
  if (found == std::string::npos || bytes.size() - found < 10) return;
  std::uint64_t value = 0;
  for (std::size_t i = 8; i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[found + 2 + i]);
  value = random.below(2) == 0 ? value + random.below(5) - 2 : std::uint64_t{1} << random.below(64);
  bytes.replace(found + 2, 8, little(value, 8));
}

std::string next_input(hydrascope::fuzz::Mutator& random) {
  Seed seed = kSeeds[random.below(kSeeds.size())];
  // Most pickles are changed before their container is written: else nearly every mutation would
  // end at the container's checks.
  const bool inside = random.below(4) != 0;
  if (inside) random.mutate(seed.root);
  std::string input = seed.file();
  if (!inside || random.below(4) == 0) random.mutate(input);
  return input;
}

bool is_accepted(std::span<const std::byte> bytes) {
  try {
    checkpoint::TorchPickleFile::parse(bytes, "fuzz");
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

hydrascope::fuzz::Campaign hydrascope::fuzz::make_campaign(std::uint64_t seed) {
  Campaign campaign{{}, is_accepted, {}};
  for (const Seed& valid : kSeeds)
    if (valid.container != Container::none) campaign.valid.push_back(valid.file());
  const auto mutator = std::make_shared<Mutator>(seed, kTokens, change_number);
  campaign.next = [mutator] { return next_input(*mutator); };
  return campaign;
}
