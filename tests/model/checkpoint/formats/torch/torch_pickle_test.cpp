#include "model/checkpoint/formats/torch/torch_pickle.h"

#include "model/checkpoint/formats/foreign_formats.h"
#include "tests/error_matchers.h"
#include "tests/model/checkpoint/formats/safetensors_bytes.h"
#include "tests/model/checkpoint/formats/torch/pickle_bytes.h"
#include "tests/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace hydrascope::checkpoint {
namespace torch_pickle_test {

namespace fs = std::filesystem;
using namespace std::string_literals;
using hydrascope::testing::call;
using hydrascope::testing::dict;
using hydrascope::testing::global;
using hydrascope::testing::little;
using hydrascope::testing::number;
using hydrascope::testing::storage;
using hydrascope::testing::storage_view;
using hydrascope::testing::TemporaryFolder;
using hydrascope::testing::tensor;
using hydrascope::testing::text;
using hydrascope::testing::torch_legacy;
using hydrascope::testing::torch_zip;
using hydrascope::testing::zip_of;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Pair;
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

TEST(TorchPickleTest, ReadsAPlainDict) {
  const TorchPickleFile file = open("plain");
  EXPECT_EQ(file.format(), "torch_zip");
  EXPECT_EQ(file.entry(), "");
  EXPECT_FALSE(file.has_ema());
  EXPECT_THAT(names(file.tensors()),
              ElementsAre("weight", "bias", "scale", "nothing", "num_batches_tracked"));
  EXPECT_EQ(find(file, "weight").shape, Shape({2, 3}));
  EXPECT_EQ(floats(find(file, "weight")), ramp(0, 6));
  EXPECT_EQ(floats(find(file, "bias")), ramp(1, 3));
  EXPECT_EQ(find(file, "scale").shape, Shape());
  EXPECT_EQ(floats(find(file, "scale")), ramp(2, 1));
  EXPECT_EQ(find(file, "nothing").shape, Shape({0, 4}));
  EXPECT_THAT(find(file, "nothing").data, IsEmpty());
  EXPECT_EQ(elements<std::int64_t>(find(file, "num_batches_tracked")),
            std::vector<std::int64_t>{7});
  EXPECT_THAT(file.metadata(), ElementsAre(Pair("note", "no tensor")));
}

TEST(TorchPickleTest, OutlivesBeingMoved) {
  TorchPickleFile file = open("views");
  const TorchPickleFile moved = std::move(file);
  EXPECT_EQ(floats(find(moved, "base")), ramp(0, 24));
  EXPECT_EQ(find(moved, "transposed").data.size(), 96u);
}

TEST(TorchPickleTest, ReadsStateDictsOfModules) {
  const TorchPickleFile file = open("ordered");
  EXPECT_THAT(names(file.tensors()), ElementsAre("weight", "bias"));
  EXPECT_EQ(floats(find(file, "weight")), ramp(0, 6));
  const TorchPickleFile distributed = open("distributed");
  EXPECT_EQ(distributed.entry(), "model");
  EXPECT_THAT(names(distributed.tensors()), ElementsAre("module.weight", "module.bias"));
  const TorchPickleFile parameters = open("parameters");
  EXPECT_THAT(names(parameters.tensors()), ElementsAre("weight", "bias"));
  EXPECT_EQ(floats(find(parameters, "bias")), ramp(1, 3));
}

TEST(TorchPickleTest, ReadsTrainingCheckpoints) {
  for (const char* name : {"training", "protocol_4", "protocol_5"}) {
    const TorchPickleFile file = open(name);
    EXPECT_EQ(file.entry(), "state_dict");
    EXPECT_TRUE(file.has_ema());
    EXPECT_THAT(names(file.tensors()), ElementsAre("weight", "bias"));
    EXPECT_EQ(floats(find(file, "weight")), ramp(0, 6));
    EXPECT_THAT(file.metadata(),
                ElementsAre(Pair("arch", "vit_tiny_patch16_224"), Pair("args.amp", "true"),
                            Pair("args.lr", "0.001"), Pair("args.model", "vit_tiny_patch16_224"),
                            Pair("epoch", "12"), Pair("version", "2")));
    const TorchPickleFile averaged = open(name, {.use_ema = true});
    EXPECT_EQ(averaged.entry(), "state_dict_ema");
    EXPECT_FALSE(averaged.has_ema());
    EXPECT_EQ(floats(find(averaged, "weight")), ramp(5, 6));
    EXPECT_EQ(floats(find(averaged, "bias")), ramp(6, 2));
  }
  EXPECT_ERROR(open("plain", {.use_ema = true}), invalid_argument, "no averaged weights");
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

TEST(TorchPickleTest, ReadsTheLegacyFormat) {
  const TorchPickleFile file = open("legacy");
  EXPECT_EQ(file.format(), "torch_legacy");
  EXPECT_THAT(names(file.tensors()), ElementsAre("weight", "row", "transposed", "half"));
  EXPECT_EQ(floats(find(file, "weight")), ramp(0, 6));
  EXPECT_THAT(floats(find(file, "row")), ElementsAre(0.375F, 0.5F, 0.625F));
  EXPECT_THAT(floats(find(file, "transposed")),
              ElementsAre(0.F, 0.375F, 0.125F, 0.5F, 0.25F, 0.625F));
  EXPECT_EQ(find(file, "half").dtype, Dtype::F16);
  EXPECT_EQ(elements<std::uint16_t>(find(file, "half")),
            (std::vector<std::uint16_t>{0xC000, 0xBF80, 0xBF00}));
}

TEST(TorchPickleTest, ReadsViewsOfLegacyStorages) {
  const std::string bytes = little(6, 8) + "\0\1\2\3\4\5"s;
  const std::string good =
      torch_legacy(dict({{"a", tensor(storage_view("ByteStorage", "7", 6, 2, 3), 1, {2}, {1})}}),
                   {{"7", bytes}});
  EXPECT_THAT(elements<std::uint8_t>(find(parse(good), "a")), ElementsAre(3, 4));
  for (const auto& [offset, length, start] :
       {std::tuple{2, 3, 2}, std::tuple{4, 3, 0}, std::tuple{7, 0, 0}}) {
    const std::string view = storage_view("ByteStorage", "7", 6, offset, length);
    EXPECT_ERROR(parse(torch_legacy(dict({{"a", tensor(view, start, {2}, {1})}}), {{"7", bytes}})),
                 decode_failed, "tensor \"a\"");
  }
}

TEST(TorchPickleTest, ExecutesNothing) {
  const fs::path proof = "hydrascope_executed_a_pickle";
  fs::remove(proof);
  EXPECT_ERROR(open("os_system"), unsupported_format, "refused to call os.system", "os_system.pth");
  EXPECT_ERROR(open("builtins_eval"), unsupported_format, "refused to call builtins.eval");
  EXPECT_FALSE(fs::exists(proof));
}

TEST(TorchPickleTest, RefusesWholeModules) {
  EXPECT_ERROR(open("module"), unsupported_format,
               "the file is a whole pickled module of the class torch.nn.modules.linear.Linear",
               "save its state_dict");
  EXPECT_ERROR(open("module_legacy"), unsupported_format,
               "the file is a whole pickled module of the class __main__.Net");
  EXPECT_ERROR(open("module_inside"), unsupported_format,
               "\"net\" of the file is a whole pickled module of the class");
  const TorchPickleFile beside = open("module_beside");
  EXPECT_EQ(beside.entry(), "state_dict");
  EXPECT_THAT(beside.note(), ::testing::HasSubstr("torch.nn.modules.linear.Linear"));
}

TEST(TorchPickleTest, LeavesOutWhatIsUnknownAndNoWeight) {
  for (const char* name : {"beside_2", "beside_4", "beside_5", "beside_legacy"}) {
    const TorchPickleFile file = open(name);
    EXPECT_EQ(file.entry(), "model") << name;
    EXPECT_THAT(names(file.tensors()), ElementsAre("weight", "bias"));
    EXPECT_EQ(floats(find(file, "weight")), ramp(0, 6));
    EXPECT_EQ(floats(find(file, "bias")), ramp(1, 2));
    EXPECT_THAT(file.metadata(), ElementsAre(Pair("args.lr", "0.5")));
    EXPECT_THAT(file.note(), ::testing::HasSubstr("values beside the weights cannot be read"));
    EXPECT_THAT(file.note(), ::testing::HasSubstr(": pathlib.PosixPath, "));
  }
  EXPECT_EQ(open("training").note(), "");
}

TEST(TorchPickleTest, RefusesWeightsThatOnlyUnknownCodeCouldMake) {
  EXPECT_ERROR(open("subclass"), unsupported_format,
               "the tensor \"weight\" of the weights is made by", "__main__.Pixels");
  EXPECT_ERROR(open("custom_dict"), unsupported_format, "\"state_dict\" of the file is made by",
               "__main__.StateDict");
  EXPECT_ERROR(open("arrays"), unsupported_format,
               "the tensor \"weight\" of the weights is an array of NumPy");
  EXPECT_ERROR(open("conjugated"), unsupported_format, "negated or conjugated", "resolve_conj");
  const std::string config = call(global("omegaconf.dictconfig", "DictConfig"), {});
  EXPECT_ERROR(
      parse(torch_zip(config)), unsupported_format,
      "expected a state dict, found an object of the class omegaconf.dictconfig.DictConfig");
}

TEST(TorchPickleTest, RefusesOtherValuesUnderNamesOfParts) {
  const std::string of_four = tensor(storage("FloatStorage", "0", 4), 0, {4}, {1});
  const auto with = [&](const std::string& name, const std::string& value) {
    const std::string weights = dict({{"blocks.0.norm1.weight", of_four}, {name, value}});
    return parse(torch_zip(dict({{"state_dict", weights}}), {{"0", std::string(16, '\0')}}));
  };
  const std::string unknown = call(global("mine", "Gate"), {});
  EXPECT_ERROR(with("blocks.0.ls1.gamma", number(1)), unsupported_format,
               "the tensor \"blocks.0.ls1.gamma\" of the weights is an integer");
  EXPECT_ERROR(with("blocks.0.attn.gate", unknown), unsupported_format,
               "\"blocks.0.attn.gate\" of the weights is made by mine.Gate");
  EXPECT_ERROR(with("cls_token", "]"), unsupported_format,
               "\"cls_token\" of the weights is a list");
  // None is nothing, and what is no part's is no weight.
  EXPECT_EQ(with("blocks.0.attn.qkv.bias", "N").tensors().size(), 1U);
  EXPECT_EQ(with("epoch", number(3)).tensors().size(), 1U);
  EXPECT_EQ(with("args.lr", number(3)).tensors().size(), 1U);
  EXPECT_EQ(with("blocks", text("plain")).tensors().size(), 1U);
  EXPECT_EQ(with("config", unknown).tensors().size(), 1U);
}

TEST(TorchPickleTest, TakesTheOnlyStateDictWhateverItsName) {
  const TorchPickleFile one = open("one_dict");
  EXPECT_EQ(one.entry(), "teacher");
  EXPECT_EQ(floats(find(one, "weight")), ramp(0, 6));
  EXPECT_ERROR(open("two_dicts"), unsupported_format,
               "2 entries of the file hold tensors (\"teacher\", \"student\")");
}

TEST(TorchPickleTest, TensorsMayHaveAttributes) {
  const TorchPickleFile file = open("attribute");
  EXPECT_EQ(floats(find(file, "weight")), ramp(0, 6));
  EXPECT_EQ(file.note(), "");
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

TEST(TorchPickleTest, SaysWhatIsThereInsteadOfTensors) {
  EXPECT_ERROR(open("no_tensors"), unsupported_format, "no tensors", "\"epoch\"",
               "\"state_dict\", \"history\"");
  EXPECT_ERROR(parse(torch_zip("}")), unsupported_format, "found nothing");
  EXPECT_ERROR(parse(torch_zip("]")), unsupported_format, "expected a state dict, found a list");
  EXPECT_ERROR(parse(torch_zip("}(" + number(3) + "Nu")), unsupported_format,
               "the keys an integer");
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

TEST(TorchPickleTest, UnwrapsInOrder) {
  const auto tensors = [](const char* name) {
    return dict({{name, tensor(storage("ByteStorage", "0", 1), 0, {1}, {1})}});
  };
  const auto entry = [](const std::string& root) {
    const std::string bytes = torch_zip(root, {{"0", "x"}});
    const TorchPickleFile file = parse(bytes);
    return file.entry() + ":" + file.tensors().at(0).name;
  };
  EXPECT_EQ(entry(dict({{"module", tensors("a")},
                        {"model", tensors("b")},
                        {"state_dict", tensors("c")},
                        {"model_ema", tensors("d")}})),
            "state_dict:c");
  EXPECT_EQ(entry(dict({{"module", tensors("a")}, {"model", tensors("b")}})), "model:b");
  EXPECT_EQ(entry(dict({{"module", tensors("a")}, {"model", text("vit")}})), "module:a");
  EXPECT_EQ(entry(tensors("model")), ":model");
  const std::string averaged =
      torch_zip(dict({{"model", tensors("a")}, {"model_ema", tensors("b")}}), {{"0", "x"}});
  EXPECT_EQ(TorchPickleFile::parse(bytes_of(averaged), "x", {.use_ema = true}).entry(),
            "model_ema");
}

TEST(TorchPickleTest, ChecksViewsAgainstTheirStorage) {
  const auto with = [](const std::string& view, const std::string& bytes = std::string(24, '\0')) {
    const std::string zip = torch_zip(dict({{"w", view}}), {{"0", bytes}});
    return parse(zip).tensors().at(0).data.size();
  };
  const std::string six = storage("FloatStorage", "0", 6);
  constexpr std::int64_t kHuge = INT64_MAX;
  EXPECT_EQ(with(tensor(six, 0, {2, 3}, {3, 1})), 24u);
  EXPECT_EQ(with(tensor(six, 5, {1, 1}, {kHuge, kHuge})), 4u);
  EXPECT_EQ(with(tensor(six, kHuge, {0}, {kHuge})), 0u);
  EXPECT_ERROR(with(tensor(six, 1, {2, 3}, {3, 1})), decode_failed, "tensor \"w\"",
               "ends at byte 28 of a storage of 24");
  EXPECT_ERROR(with(tensor(six, 0, {2}, {6})), decode_failed, "ends at byte 28");
  EXPECT_ERROR(with(tensor(six, 0, {3}, {kHuge})), decode_failed, "overflows");
  EXPECT_ERROR(with(tensor(six, kHuge, {1}, {1})), decode_failed, "overflows");
  EXPECT_ERROR(with(tensor(six, 0, {kHuge, kHuge}, {0, 0})), decode_failed, "overflows");
  EXPECT_ERROR(with(tensor(six, 0, {2, 3}, {3, 1}), std::string(23, '\0')), decode_failed,
               "its storage \"0\" has 23 bytes, too few for 6 elements of F32");
  EXPECT_ERROR(with(tensor(storage("FloatStorage", "0", kHuge), 0, {1}, {1})), decode_failed,
               "too few");
  EXPECT_ERROR(with(tensor(storage("FloatStorage", "9", 6), 0, {1}, {1})), decode_failed,
               "its storage \"9\" is missing");
  EXPECT_ERROR(with(tensor(storage("ComplexDoubleStorage", "0", 1), 0, {1}, {1})),
               unsupported_format, "its dtype \"torch.ComplexDoubleStorage\" is not read");
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

TEST(TorchPickleTest, RefusesNamesThatAreNone) {
  const std::string view = tensor(storage("ByteStorage", "0", 1), 0, {1}, {1});
  const auto open_dict = [&](const std::string& items) {
    const std::string zip = torch_zip("}(" + items + "u", {{"0", "x"}});
    return parse(zip).tensors().size();
  };
  EXPECT_EQ(open_dict(text("a") + view + number(3) + "N"), 1u);
  EXPECT_ERROR(open_dict(number(3) + view), decode_failed, "name of a tensor is an integer");
  EXPECT_ERROR(open_dict(text("\xFF") + view), decode_failed, "not UTF-8");
  EXPECT_ERROR(open_dict(text("a") + view + text("a") + view), decode_failed,
               "two tensors are named \"a\"");
}

TEST(TorchPickleTest, CyclesBesideTheWeightsAreHarmless) {
  const std::string view = tensor(storage("ByteStorage", "0", 1), 0, {1}, {1});
  const std::string zip = torch_zip(
      "}q\x01(" + text("a") + view + text("args") + "h\x01" + text("state_dict") + "h\x01u",
      {{"0", "x"}});
  EXPECT_EQ(parse(zip).entry(), "state_dict");
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

TEST(TorchPickleTest, RefusesBigEndianFiles) {
  const std::string root = dict({{"w", tensor(storage("ByteStorage", "0", 1), 0, {1}, {1})}});
  EXPECT_ERROR(parse(torch_legacy(root, {{"0", little(1, 8) + "x"}}, "\x89")), unsupported_format,
               "big-endian");
  EXPECT_EQ(parse(torch_legacy(root, {{"0", little(1, 8) + "x"}})).tensors().size(), 1u);
  const auto zip = [&](const std::string& order) {
    return zip_of({{.name = "a/data.pkl", .content = hydrascope::testing::pickle_of(root)},
                   {.name = "a/byteorder", .content = order},
                   {.name = "a/data/0", .content = "x"}});
  };
  EXPECT_EQ(parse(zip("little")).tensors().size(), 1u);
  EXPECT_ERROR(parse(zip("big")), unsupported_format, "big-endian");
  EXPECT_ERROR(parse(zip("middle")), unsupported_format, "found \"middle\"");
}

TEST(TorchPickleTest, RefusesDamagedLegacyFiles) {
  const std::string root = dict({{"w", tensor(storage("FloatStorage", "0", 2), 0, {2}, {1})}});
  const std::string eight(8, '\0');
  EXPECT_EQ(parse(torch_legacy(root, {{"0", little(2, 8) + eight}})).tensors().size(), 1u);
  EXPECT_ERROR(parse(torch_legacy(root, {{"0", little(3, 8) + eight}})), decode_failed,
               "has 3 elements, the pickle says 2");
  EXPECT_ERROR(parse(torch_legacy(root, {{"0", little(2, 8) + "x"}})), decode_failed,
               "expected 8 more bytes, found 1");
  EXPECT_ERROR(parse(torch_legacy(root, {{"1", little(2, 8) + eight}})), decode_failed,
               "no tensor uses the storage \"1\"");
  EXPECT_ERROR(
      parse(torch_legacy(root, {{"0", little(2, 8) + eight}, {"0", little(2, 8) + eight}})),
      decode_failed, "listed twice");
  const std::string huge =
      dict({{"w", tensor(storage("FloatStorage", "0", INT64_MAX), 0, {2}, {1})}});
  EXPECT_ERROR(parse(torch_legacy(huge, {{"0", little(INT64_MAX, 8) + eight}})), decode_failed,
               "overflows");
}

TEST(TorchPickleTest, KnowsTheProtocolsOfLegacyFiles) {
  for (const char* bytes : {"\x80\x02", "\x80\x03", "\x80\x04", "\x80\x05"}) {
    EXPECT_EQ(sniff_format(bytes_of(bytes)), "torch_legacy");
  }
  EXPECT_EQ(sniff_format(bytes_of("\x80\x06")), "unknown");
}

TEST(TorchPickleTest, RefusesOtherFormats) {
  EXPECT_ERROR(parse(""), empty, "empty");
  EXPECT_ERROR(parse("hello, world"), unsupported_format,
               "a text that begins with \"hello, world\"");
  EXPECT_ERROR(parse("<!DOCTYPE html>"), unsupported_format, "an HTML page");
  EXPECT_ERROR(parse("version https://git-lfs"), unsupported_format, "Git LFS pointer");
  EXPECT_ERROR(parse(file_of("{}")), unsupported_format, "a safetensors file");
  EXPECT_ERROR(parse(hydrascope::testing::pickle_of("}")), unsupported_format, "another pickle");
  EXPECT_ERROR(parse(hydrascope::testing::pickle_of(global("sklearn.svm", "SVC"))),
               unsupported_format, "another pickle (of scikit-learn)");
  EXPECT_ERROR(parse(zip_of({{.name = "readme"}})), unsupported_format, "without a data.pkl");
  EXPECT_ERROR(parse(zip_of({{.name = "Transformer/encoder_norm/bias.npy"}})), unsupported_format,
               "NumPy arrays (.npz)", "load_pretrained");
  EXPECT_ERROR(parse(zip_of({{.name = "metadata.json"}, {.name = "model.weights.h5"}})),
               unsupported_format, "a Keras model");
  EXPECT_ERROR(parse(zip_of({{.name = "m/pytorch_model.bin"}})), unsupported_format,
               "a zip archive around weights", "unpack it");
  EXPECT_ERROR(parse(zip_of({{.name = "a/data.pkl"}, {.name = "b/data.pkl"}})), unsupported_format,
               "more than one data.pkl");
  EXPECT_ERROR(parse(zip_of({{.name = "a/data.pkl"}, {.name = "a/constants.pkl"}})),
               unsupported_format, "TorchScript");
  EXPECT_ERROR(parse(zip_of({{.name = "a/data.pkl", .content = "x", .method = 8}})),
               unsupported_format, "compressed");
  const TemporaryFolder folder;
  EXPECT_ERROR(TorchPickleFile::open(folder.path() / "absent.pth"), not_found, "absent.pth");
}

}  // namespace torch_pickle_test
}  // namespace hydrascope::checkpoint
