// Fuzzes what hydrascope reads of files of torch.save: the zip archive, the legacy container and
// the pickle machine. With clang: -fsanitize=fuzzer. Without libFuzzer, HYDRASCOPE_FUZZ_DRIVER adds
// a main that mutates valid files, the same for the same arguments:
// torch_pickle_fuzz ITERATIONS [SEED].

#include "kernels/error.h"
#include "model/checkpoint/pickle_machine.h"
#include "model/checkpoint/safetensors_header.h"
#include "model/checkpoint/torch_pickle.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace {

using hydrascope::Error;
using hydrascope::ErrorCode;
namespace checkpoint = hydrascope::checkpoint;

/// An assertion that is there in every build.
void require(bool holds, const char* invariant) {
  if (holds) return;
  std::fprintf(stderr, "broken invariant: %s\n", invariant);
  std::abort();
}

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

#ifdef HYDRASCOPE_FUZZ_DRIVER

#include "tests/model/checkpoint/pickle_bytes.h"

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <utility>
#include <vector>

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
      {"args", global("argparse", "Namespace") + ")\x81" + dict({{"lr", "F0.5\n"}}) + "b"},
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
       "](K\x01S'a\\x41'\nVb\\u20ac\nI01\nL5L\n\x8a\x01\xFF"
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

/// What a random byte would hardly ever build.
const std::array kTokens{
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
    "p99999999999\n"s,
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
    "(dt"s,
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

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::string next() {
    Seed seed = kSeeds[below(kSeeds.size())];
    // Most pickles are changed before their container is written: else nearly every mutation would
    // end at the container's checks.
    const bool inside = below(4) != 0;
    if (inside) mutate(seed.root);
    std::string input = seed.file();
    if (!inside || below(4) == 0) mutate(input);
    return input;
  }

 private:
  std::size_t below(std::size_t bound) {
    // Not a distribution of the library: theirs may differ between standard libraries.
    return bound == 0 ? 0 : static_cast<std::size_t>(random_() % bound);
  }

  void mutate(std::string& bytes) {
    for (std::size_t left = 1 + below(4); left > 0; --left) mutate_once(bytes);
  }

  void mutate_once(std::string& bytes) {
    const std::size_t at = below(bytes.size() + 1);
    const std::size_t count = below(std::min<std::size_t>(bytes.size() - at, 40) + 1);
    const std::string& token = kTokens[below(kTokens.size())];
    switch (below(8)) {
      case 0:
        if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < bytes.size()) bytes[at] = static_cast<char>(below(256));
        break;
      case 2: bytes.erase(at, count); break;
      case 3: bytes.insert(below(bytes.size() + 1), bytes.substr(at, count)); break;
      case 4: bytes.insert(at, token); break;
      case 5: bytes.replace(at, std::min(count, token.size()), token); break;
      case 6: change_number(bytes, at); break;
      default:
        if (below(4) == 0) bytes.resize(at);
        break;
    }
  }

  /// Another value for an integer that follows `at`: near the old one, or of any magnitude.
  void change_number(std::string& bytes, std::size_t at) {
    constexpr std::string_view kInteger = "\x8a\x08";
    const std::size_t found = bytes.find(kInteger, at);
    if (found == std::string::npos || bytes.size() - found < 10) return;
    std::uint64_t value = 0;
    for (std::size_t i = 8; i-- > 0;) {
      value = value << 8 | static_cast<unsigned char>(bytes[found + 2 + i]);
    }
    value = below(2) == 0 ? value + below(5) - 2 : std::uint64_t{1} << below(64);
    bytes.replace(found + 2, 8, little(value, 8));
  }

  std::mt19937_64 random_;
};

/// At the end of its own allocation, so that AddressSanitizer sees the first byte read beyond it.
bool try_input(const std::string& input) {
  const auto copy = std::make_unique<std::uint8_t[]>(input.size());
  std::copy(input.begin(), input.end(), copy.get());
  LLVMFuzzerTestOneInput(copy.get(), input.size());
  try {
    checkpoint::TorchPickleFile::parse(std::as_bytes(std::span(copy.get(), input.size())), "fuzz");
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: %s ITERATIONS [SEED]\n", argv[0]);
    return 2;
  }
  const std::uint64_t iterations = std::strtoull(argv[1], nullptr, 10);
  Mutator mutator(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0);
  for (const Seed& seed : kSeeds) {
    if (seed.container != Container::none) require(try_input(seed.file()), "seeds are valid");
  }
  std::uint64_t accepted = 0;
  for (std::uint64_t i = 0; i < iterations; ++i) accepted += try_input(mutator.next()) ? 1 : 0;
  std::printf("%llu inputs, %llu of them accepted\n", static_cast<unsigned long long>(iterations),
              static_cast<unsigned long long>(accepted));
  // A fuzzer whose inputs are all refused, or all accepted, tests nothing.
  require(iterations < 1000 || (accepted > 0 && accepted < iterations), "inputs differ");
  return 0;
}

#endif  // HYDRASCOPE_FUZZ_DRIVER
