#include "model/checkpoint/formats/torch/torch_pickle.h"

#include "tests/error_matchers.h"
#include "tests/model/checkpoint/formats/safetensors_bytes.h"
#include "tests/model/checkpoint/formats/torch/pickle_bytes.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace hydrascope::checkpoint {
namespace torch_pickle_test {

namespace fs = std::filesystem;
using namespace hydrascope::testing;
using Shape = std::vector<std::int64_t>;

fs::path fixture(const std::string& name) {
  return fs::path(HYDRASCOPE_SOURCE_DIR) / "tests/data/torch" / (name + ".pth");
}

TorchPickleFile open(const std::string& name, const TorchPickleOptions& options = {}) {
  return TorchPickleFile::open(fixture(name), options);
}

TorchPickleFile parse(const std::string& bytes) {
  return TorchPickleFile::parse(bytes_of(bytes), "x.pth");
}

template <class T>
std::vector<T> elements(const TensorView& view) {
  std::vector<T> values(view.data.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), view.data.data(), values.size() * sizeof(T));
  return values;
}
std::vector<float> floats(const TensorView& view) { return elements<float>(view); }

/// The numbers that make_torch_fixtures.py calls ramp(k, ...).
template <class T = float>
std::vector<T> ramp(int k, std::size_t count) {
  std::vector<T> values;
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(static_cast<T>(static_cast<double>(i) / 8 - k));
  }
  return values;
}

const TensorView& find(const TorchPickleFile& file, std::string_view name) {
  const auto found = std::ranges::find(file.tensors(), name, &TensorView::name);
  if (found == file.tensors().end()) throw std::runtime_error("no " + std::string(name));
  return *found;
}

std::string pickled(const Json& pieces) {
  std::string body;
  for (const Json& part : pieces) body += piece(part);
  return body;
}

/// The file that a row describes in pieces.
std::string made(const Json& row) {
  if (row.contains("bytes")) return bytes_in(row["bytes"].get<std::string>());
  std::vector<ZipPart> parts;
  for (const auto& [name, content] : row.value("parts", Json::object()).items())
    parts.push_back({name, content.is_array() ? pickle_of(pickled(content)) : piece(content)});
  if (!parts.empty()) return zip_of(parts);
  Storages storages;
  for (const auto& [key, content] : row.value("data", Json::object()).items())
    storages.emplace_back(key, piece(content));
  if (row.contains("again")) storages.push_back(storages.front());
  if (row.contains("zip")) return torch_zip(pickled(row["zip"]), storages);
  return torch_legacy(pickled(row.at("legacy")), storages,
                      piece(row.value("is_little_endian", "\u0088")));
}

TEST(TorchPickleTest, EveryFileIsReadOrRefused) {
  for (const Json& row : read_cases("model/checkpoint/formats/torch/torch_files.jsonl")) {
    expect_case(row, [&] {
      const TorchPickleOptions options{.use_ema = row.value("use_ema", false)};
      const std::string bytes = row.contains("file") ? "" : made(row);
      const TorchPickleFile file = row.contains("file")
                                       ? open(row["file"], options)
                                       : TorchPickleFile::parse(bytes_of(bytes), "x.pth", options);
      const Json facts{{"format", file.format()},     {"entry", file.entry()},
                       {"has_ema", file.has_ema()},   {"names", names(file.tensors())},
                       {"metadata", file.metadata()}, {"note", file.note()}};
      for (const auto& [fact, value] : row.value("facts", Json::object()).items())
        EXPECT_EQ(facts.at(fact), value) << fact;
      for (const std::string words : row.value("note", Json::array()))
        EXPECT_NE(file.note().find(words), std::string::npos) << file.note();
      for (const auto& [name, values] : row.value("floats", Json::object()).items())
        EXPECT_EQ(Json(floats(find(file, name))), values) << name;
      for (const auto& [name, values] : row.value("contents", Json::object()).items())
        EXPECT_EQ(Json(elements<std::uint8_t>(find(file, name))), values) << name;
      for (const auto& [name, shape] : row.value("shapes", Json::object()).items())
        EXPECT_EQ(Json(find(file, name).shape), shape) << name;
      for (const auto& [name, dtype] : row.value("dtypes", Json::object()).items())
        EXPECT_EQ(checkpoint::name(find(file, name).dtype), dtype.get<std::string>()) << name;
    });
  }
  EXPECT_ERROR(parse(zip_of({{.name = "a/data.pkl", .content = "x", .method = 8}})),
               unsupported_format, "compressed");
  EXPECT_ERROR(TorchPickleFile::open("absent.pth", {}), not_found, "absent.pth");
}

TEST(TorchPickleTest, OutlivesBeingMoved) {
  TorchPickleFile file = open("views");
  const TorchPickleFile moved = std::move(file);
  EXPECT_EQ(floats(find(moved, "base")), ramp(0, 24));
  EXPECT_EQ(find(moved, "transposed").data.size(), 96u);
}

/// The upper half of a float's bits, which is a bfloat16.
std::uint16_t bfloat16(float value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}

TEST(TorchPickleTest, ReadsEveryDtype) {
  const TorchPickleFile file = open("dtypes");
  const auto expect = [&]<class T>(const char* name, Dtype dtype, const std::vector<T>& values) {
    EXPECT_EQ(find(file, name).dtype, dtype) << name;
    EXPECT_EQ(elements<T>(find(file, name)), values) << name;
  };
  expect("bf16", Dtype::BF16, std::vector{bfloat16(-1.F), bfloat16(-0.875F), bfloat16(-0.75F)});
  expect("f16", Dtype::F16, std::vector<std::uint16_t>{0xC000, 0xBF80, 0xBF00});
  expect("f64", Dtype::F64, ramp<double>(3, 3));
  expect("f8", Dtype::F8_E5M2, std::vector<std::uint8_t>{0xBC, 0xBB});
  expect("i64", Dtype::I64, std::vector<std::int64_t>{-1, 2});
  expect("i32", Dtype::I32, std::vector<std::int32_t>{-1, 2});
  expect("i16", Dtype::I16, std::vector<std::int16_t>{-1, 2});
  expect("i8", Dtype::I8, std::vector<std::int8_t>{-1, 2});
  expect("u8", Dtype::U8, std::vector<std::uint8_t>{1, 255});
  expect("u16", Dtype::U16, std::vector<std::uint16_t>{1, 65535});
  expect("bool", Dtype::BOOL, std::vector<std::uint8_t>{1, 0});
}

TEST(TorchPickleTest, MakesViewsRowMajor) {
  const TorchPickleFile file = open("views");
  const std::vector<float> base = ramp(0, 24);
  // Element (i, j, ...) of the view is base[offset + i * strides[0] + j * strides[1] + ...].
  const auto expect = [&](const char* name, const Shape& shape, std::int64_t offset,
                          const Shape& strides) {
    std::vector<std::int64_t> places{offset};
    for (std::size_t d = 0; d < shape.size(); ++d) {
      std::vector<std::int64_t> next;
      for (const std::int64_t place : places) {
        for (std::int64_t i = 0; i < shape[d]; ++i) next.push_back(place + i * strides[d]);
      }
      places = next;
    }
    std::vector<float> values;
    for (const std::int64_t place : places)
      values.push_back(base.at(static_cast<std::size_t>(place)));
    EXPECT_EQ(find(file, name).shape, shape) << name;
    EXPECT_EQ(floats(find(file, name)), values) << name;
  };
  expect("base", {4, 6}, 0, {6, 1});
  expect("same", {4, 6}, 0, {6, 1});
  expect("rows", {2, 6}, 6, {6, 1});
  expect("transposed", {6, 4}, 0, {1, 6});
  expect("strided", {2, 3}, 1, {12, 2});
  expect("permuted", {6, 2, 2}, 0, {1, 12, 6});
  expect("expanded", {4, 5}, 0, {6, 0});
  expect("element", {}, 23, {});
  expect("column", {4, 1}, 2, {6, 1});
  // Contiguous views share the mapped storage.
  EXPECT_EQ(find(file, "base").data.data(), find(file, "same").data.data());
  EXPECT_EQ(find(file, "rows").data.data(), find(file, "base").data.data() + 6 * sizeof(float));
}

TEST(TorchPickleTest, ExecutesNothing) {
  const fs::path proof = "hydrascope_executed_a_pickle";
  fs::remove(proof);
  EXPECT_ERROR(open("os_system"), unsupported_format, "refused to call os.system", "os_system.pth");
  EXPECT_ERROR(open("builtins_eval"), unsupported_format, "refused to call builtins.eval");
  EXPECT_FALSE(fs::exists(proof));
}

TEST(TorchPickleTest, ReadsAllCodesOfFloat8) {
  std::string codes(256, '\0');
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<char>(i);
  const TorchPickleFile file = open("float8");
  for (const char* name : {"F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}) {
    EXPECT_EQ(checkpoint::name(find(file, name).dtype), name);
    EXPECT_EQ(text_of(find(file, name).data), codes) << name;
  }
}

TEST(TorchPickleTest, EveryCutOfAFileIsAnError) {
  for (const char* name : {"plain", "legacy"}) {
    const std::string whole = hydrascope::testing::read_bytes(fixture(name));
    for (std::size_t size = 0; size < whole.size(); ++size) {
      try {
        parse(whole.substr(0, size));
        ADD_FAILURE() << name << " cut at " << size << " is read";
      } catch (const Error& error) {
        EXPECT_NE(error.code(), ErrorCode::internal);
      }
    }
  }
}

TEST(TorchPickleTest, BoundsExpandedViews) {
  const std::string one = storage("ByteStorage", "0", 1);
  const auto expanded = [&](const std::vector<std::int64_t>& extents) {
    std::string root = "}(";
    for (std::size_t i = 0; i < extents.size(); ++i) {
      root += text("t" + std::to_string(i)) + tensor(one, 0, {extents[i]}, {0});
    }
    const std::string zip = torch_zip(root + "u", {{"0", "x"}});
    return parse(zip).tensors().size();
  };
  constexpr std::int64_t kHalf = kMaxCopiedBytes / 2;
  EXPECT_EQ(expanded({kHalf, kHalf}), 2u);
  EXPECT_ERROR(expanded({kHalf, kHalf, kHalf}), decode_failed, "tensor \"t2\" expands to");
  EXPECT_ERROR(expanded({std::int64_t{1} << 62}), decode_failed,
               "too much for a file of this size");
}

TEST(TorchPickleTest, BoundsMetadata) {
  const std::string view = tensor(storage("ByteStorage", "0", 1), 0, {1}, {1});
  std::string root = "}(" + text("w") + view + text("long") + text(std::string(5000, 'a')) +
                     text("bad") + text("\xFF");
  for (int i = 0; i < 2000; ++i) root += text("k" + std::to_string(i)) + "K\x01";
  const std::string zip = torch_zip(root + "u", {{"0", "x"}});
  const TorchPickleFile file = parse(zip);
  EXPECT_EQ(file.metadata().size(), 1024u);
  EXPECT_FALSE(file.metadata().contains("long"));
  EXPECT_FALSE(file.metadata().contains("bad"));
}

}  // namespace torch_pickle_test
}  // namespace hydrascope::checkpoint
