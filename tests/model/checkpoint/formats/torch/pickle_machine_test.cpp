#include "model/checkpoint/formats/torch/pickle_machine.h"

#include "tests/error_matchers.h"
#include "tests/model/checkpoint/formats/safetensors_bytes.h"
#include "tests/model/checkpoint/formats/torch/pickle_rows.h"

#include <gtest/gtest.h>

namespace hydrascope::checkpoint::pickle {
namespace {

using namespace std::string_literals;
using namespace hydrascope::testing;

/// The opcodes `body`, and what they make.
struct Unpickled {
  explicit Unpickled(const std::string& body)
      : bytes(pickle_of(body)),
        heap(bytes.size(), "x.pth"),
        value(run(bytes_of(bytes), heap).value) {}

  std::string bytes;
  Heap heap;
  Value value;
};
std::string_view kind(const std::string& body) { return describe(Unpickled(body).value); }

std::string show(const Value& value, int depth = 2);
/// "1, 2"
template <class Items>
std::string join(const Items& items, int depth) {
  std::string text;
  for (const Value& item : items) text += (text.empty() ? "" : ", ") + show(item, depth);
  return text;
}

/// The value as Python would print it; containers below `depth` in a word.
std::string show(const Value& value, int depth) {
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&value)) return Json(*number).dump();
  if (const auto* text = std::get_if<Text>(&value)) return "'" + std::string(text->text) + "'";
  if (const auto* bytes = std::get_if<Bytes>(&value)) return "b'" + std::string(bytes->bytes) + "'";
  if (const auto* of = std::get_if<Storage*>(&value))
    return "a storage of " + std::string((*of)->type);
  if (const auto* found = std::get_if<Tensor*>(&value)) {
    const Tensor& tensor = **found;
    const Storage& of = *tensor.storage;
    const auto sizes = [](const std::vector<std::int64_t>& extents) {
      return join(std::vector<Value>(extents.begin(), extents.end()), 0);
    };
    return std::string(name(*tensor.dtype)) + " (" + sizes(tensor.shape) + ") by (" +
           sizes(tensor.strides) + ") from " + std::to_string(tensor.offset) + " of '" +
           std::string(of.key) + "', " + std::to_string(of.view_length.value_or(of.length)) +
           " of its " + std::to_string(of.length) + " from " + std::to_string(of.view_offset) +
           (tensor.is_marked ? ", marked" : "");
  }
  if (depth == 0) return std::string(describe(value));
  --depth;
  if (const auto* tuple = std::get_if<Tuple*>(&value))
    return "(" + join((*tuple)->items, depth) + ")";
  if (const auto* list = std::get_if<List*>(&value)) return "[" + join((*list)->items, depth) + "]";
  if (const auto* names = std::get_if<Namespace*>(&value))
    return "Namespace" + show((*names)->fields, depth + 1);
  if (const auto* dict = std::get_if<Dict*>(&value)) {
    std::string text;
    for (const auto& [key, item] : (*dict)->items)
      text += (text.empty() ? "" : ", ") + show(key, depth) + ": " + show(item, depth);
    return "{" + text + "}";
  }
  if (const auto* object = std::get_if<Object*>(&value)) {
    const auto* maker = std::get_if<Foreign*>(&(*object)->maker);
    return (maker == nullptr ? "?" : std::string((*maker)->name)) + "(" +
           join((*object)->parts, depth) + ")";
  }
  return std::string(describe(value));
}

TEST(PickleMachineTest, EveryPickleIsReadOrRefused) {
  for (const Json& row : read_cases("model/checkpoint/formats/torch/pickles.jsonl")) {
    expect_case(row, [&] {
      std::string body;
      for (const Json& part : row.at("pickle")) body += piece(part);
      const Unpickled unpickled(body);
      const std::string shown = show(unpickled.value);
      EXPECT_EQ(shown, bytes_in(row.value("is", shown)));
      EXPECT_EQ(describe(unpickled.value), row.value("kind", describe(unpickled.value)));
      EXPECT_TRUE(shown.starts_with(row.value("maker", ""))) << shown;
    });
  }
}

TEST(PickleMachineTest, GuardsTheStack) {
  Heap heap(100, "x.pth");
  const std::string marks(kMaxStack + 1, '(');
  EXPECT_ERROR(run(bytes_of(marks), heap), decode_failed, "too many marks");
  const std::string values(kMaxStack + 1, 'N');
  EXPECT_ERROR(run(bytes_of(values), heap), decode_failed, "too many values");
}

TEST(PickleMachineTest, BoundsObjectsAndOpcodes) {
  std::string tuples;
  for (std::size_t i = 0; i <= kMaxObjects; ++i) tuples += ")0";
  EXPECT_ERROR(Unpickled(tuples), decode_failed, "more than 1048576 objects");
  std::string pops;
  for (std::size_t i = 0; i <= kMaxOpcodes / 2; ++i) pops += "N0";
  EXPECT_ERROR(Unpickled(pops), decode_failed, "more than 8388608 opcodes");
}

TEST(PickleMachineTest, NestingIsHarmless) {
  std::string laughs = "]";
  for (int i = 0; i < 10'000; ++i)
    laughs +=
        "q\x01"
        "0]h\x01"
        "ah\x01"
        "a";  // 2^10000 leaves
  EXPECT_EQ(kind(laughs), "a list");
  EXPECT_EQ(kind("N" + std::string(100'000, '\x85')), "a tuple");
}

TEST(PickleMachineTest, EndsWhereThePickleEnds) {
  const std::string body = "\x80\x04\x95\x03\x00\x00\x00\x00\x00\x00\x00K\x07.trailing"s;
  Heap heap(100, "x.pth");
  const Result result = run(bytes_of(body), heap);
  EXPECT_EQ(std::get<std::int64_t>(result.value), 7);
  EXPECT_EQ(result.length, body.find("trailing"));
}

TEST(PickleMachineTest, EveryCutIsAnError) {
  const std::string whole = pickle_of(
      dict({{"a", tensor(storage("FloatStorage", "0", 6), 0, {2, 3}, {3, 1})}, {"b", "K\x02"}}));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    Heap heap(100, "x.pth");
    EXPECT_ERROR(run(bytes_of(whole).first(size), heap), decode_failed, "cut off or damaged");
  }
}

TEST(PickleMachineTest, CopiesCannotMultiply) {
  // One long text, encoded again and again with five bytes each.
  std::string body = global("_codecs", "encode") + "q\x01" + "0" +
                     tuple({text(std::string(100'000, 'a')), text("latin1")}) + "q\x02" + "0";
  for (int i = 0; i < 1000; ++i) body += "h\x01h\x02R0";
  EXPECT_ERROR(Unpickled(body + "N"), decode_failed, "copies its values too often");
}

}  // namespace
}  // namespace hydrascope::checkpoint::pickle
