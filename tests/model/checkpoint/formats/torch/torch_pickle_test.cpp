#include "model/checkpoint/formats/torch/torch_pickle.h"

#include "tests/error_matchers.h"
#include "tests/model/checkpoint/formats/safetensors_bytes.h"
#include "tests/model/checkpoint/formats/torch/pickle_rows.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace hydrascope::checkpoint {
namespace torch_pickle_test {

namespace fs = std::filesystem;
using namespace hydrascope::testing;

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
  for (const auto& [name, content] : members(row, "parts"))
    parts.push_back({name, content.is_array() ? pickle_of(pickled(content)) : piece(content)});
  if (!parts.empty()) return zip_of(parts);
  Storages storages;
  for (const auto& [key, content] : members(row, "data"))
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
      for (const auto& [fact, value] : members(row, "facts"))
        EXPECT_EQ(facts.at(fact), value) << fact;
      for (const std::string words : row.value("note", Json::array()))
        EXPECT_NE(file.note().find(words), std::string::npos) << file.note();
      for (const auto& [name, values] : members(row, "floats"))
        EXPECT_EQ(Json(floats(find(file, name))), values) << name;
      for (const auto& [name, values] : members(row, "contents"))
        EXPECT_EQ(Json(elements<std::uint8_t>(find(file, name))), values) << name;
      for (const auto& [name, shape] : members(row, "shapes"))
        EXPECT_EQ(Json(find(file, name).shape), shape) << name;
      for (const auto& [name, dtype] : members(row, "dtypes"))
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
  EXPECT_EQ(floats(find(moved, "base")).at(23), 23.F / 8);
  EXPECT_EQ(find(moved, "transposed").data.size(), 96u);
}

TEST(TorchPickleTest, ContiguousViewsShareTheMappedStorage) {
  const TorchPickleFile file = open("views");
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
