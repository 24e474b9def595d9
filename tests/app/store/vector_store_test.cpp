#include "app/store/vector_store.h"

#include "app/store/store_writer.h"
#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::app {
namespace vector_store_test {

using checkpoint::Dtype;
using hydrascope::testing::read_bytes;
using hydrascope::testing::TemporaryFolder;

StoreFacts facts_with(const std::string& features = "pooled") {
  return {"tiny", "abc", "softmax", features, "resize 256", "float32"};
}

std::span<const float> values_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

class StoreTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path file() const { return folder_.path() / "s.safetensors"; }
  /// A store of `count` vectors of 5 numbers, with labels b and a in turn.
  at::Tensor make(std::int64_t count) {
    const at::Tensor vectors = at::randn({count, 5});
    StoreWriter writer(file(), facts_with(), false);
    for (std::int64_t i = 0; i < count; ++i)
      writer.add("p" + std::to_string(i), i % 2 == 0 ? "b" : "a", values_of(vectors[i]));
    writer.finish();
    return vectors;
  }
  TemporaryFolder folder_;
};

TEST_F(StoreTest, HoldsWhatWasAdded) {
  const at::Tensor vectors = make(7);
  const VectorStore store(file());
  EXPECT_EQ(store.size(), 7);
  EXPECT_EQ(store.dim(), 5);
  EXPECT_TRUE(store.vectors().equal(vectors));
  EXPECT_EQ(store.name_of(0), "p0");
  EXPECT_EQ(store.name_of(6), "p6");
  EXPECT_EQ(store.labels(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(store.class_of(0), 1);
  EXPECT_EQ(store.class_of(1), 0);
  EXPECT_EQ(store.facts().json(), facts_with().json());
  for (const char* rest : {"s.safetensors.rows", "s.safetensors.jsonl.part"})
    EXPECT_FALSE(std::filesystem::exists(folder_.path() / rest)) << rest;
}

/// The definition, in double precision.
TEST_F(StoreTest, TheNearestAreThoseOfTheCosine) {
  const at::Tensor vectors = make(200);
  const at::Tensor queries = at::randn({3, 5});
  const VectorStore store(file());
  const auto answers = store.nearest(queries, 200);
  ASSERT_EQ(answers.size(), 3);
  for (std::int64_t row = 0; row < 3; ++row) {
    std::map<std::int64_t, double> cosines;
    for (std::int64_t i = 0; i < 200; ++i) {
      double product = 0;
      double of_query = 0;
      double of_vector = 0;
      for (std::int64_t d = 0; d < 5; ++d) {
        const auto q = static_cast<double>(queries[row][d].item<float>());
        const auto v = static_cast<double>(vectors[i][d].item<float>());
        product += q * v;
        of_query += q * q;
        of_vector += v * v;
      }
      cosines[i] = product / std::sqrt(of_query * of_vector);
    }
    const std::vector<Neighbour>& found = answers[static_cast<std::size_t>(row)];
    ASSERT_EQ(found.size(), 200);
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i].similarity, cosines.at(found[i].index), 1e-6);
      if (i > 0) {
        EXPECT_LE(found[i].similarity, found[i - 1].similarity);
      }
      cosines.erase(found[i].index);
    }
    EXPECT_TRUE(cosines.empty()) << "each picture once";
  }
  EXPECT_EQ(store.nearest(queries, 4).front().size(), 4);
  EXPECT_ERROR(store.nearest(at::randn({1, 6}), 1), invalid_argument, "vectors of 5 numbers");
}

TEST_F(StoreTest, ARunThatWasKilledGoesOn) {
  const at::Tensor vectors = at::randn({3, 5});
  const std::string odd = "\xff.ppm";  // no UTF-8
  {
    StoreWriter killed(file(), facts_with(), false);
    killed.add(odd, "", values_of(vectors[0]));
    killed.add_failure("broken", "decode_failed", "is no picture");
    killed.add("second", "", values_of(vectors[1]));
  }
  EXPECT_FALSE(std::filesystem::exists(file()));
  const std::filesystem::path lines = file().string() + ".jsonl.part";
  // A part of a line, and vectors that no line counts.
  std::ofstream(lines, std::ios::app | std::ios::binary) << "{\"input\":\"thi";
  std::ofstream(file().string() + ".rows", std::ios::app | std::ios::binary) << "1234567";
  EXPECT_ERROR(StoreWriter(file(), facts_with("mean"), true), invalid_argument, "another features");
  {
    StoreWriter other(file(), facts_with(), true);
    EXPECT_ERROR(other.has("else", ""), invalid_argument, "other pictures");
    EXPECT_ERROR(other.has(odd, "a class"), invalid_argument, "no label", "a class");
  }
  StoreWriter writer(file(), facts_with(), true);
  EXPECT_EQ(writer.num_earlier(), 3);
  EXPECT_EQ(writer.num_failed(), 1);
  EXPECT_TRUE(writer.has(odd, ""));
  EXPECT_TRUE(writer.has("broken", ""));
  EXPECT_TRUE(writer.has("second", ""));
  EXPECT_FALSE(writer.has("third", ""));
  writer.add("third", "", values_of(vectors[2]));
  writer.finish();
  const VectorStore store(file());
  EXPECT_TRUE(store.vectors().equal(vectors));
  EXPECT_EQ(store.name_of(0), odd);
  EXPECT_EQ(store.name_of(2), "third");
  EXPECT_ERROR(store.require_labels(), invalid_argument, "without a label");
}

/// The last line's vectors did not reach the disk.
TEST_F(StoreTest, LinesWithoutTheirVectorsDoNotCount) {
  const at::Tensor vectors = at::randn({2, 5});
  {
    StoreWriter killed(file(), facts_with(), false);
    killed.add("first", "", values_of(vectors[0]));
    killed.add("second", "", values_of(vectors[1]));
  }
  std::filesystem::resize_file(file().string() + ".rows", 5 * sizeof(float) + 3);
  StoreWriter writer(file(), facts_with(), true);
  EXPECT_TRUE(writer.has("first", ""));
  EXPECT_FALSE(writer.has("second", ""));
  writer.add("second", "", values_of(vectors[1]));
  writer.finish();
  EXPECT_TRUE(VectorStore(file()).vectors().equal(vectors));
}

TEST_F(StoreTest, LinesThatAreNoRecordsAreNamed) {
  const std::filesystem::path lines = file().string() + ".jsonl.part";
  for (const char* line : {R"({"input":1,"label":"","grid":[1,1],"dim":5})",
                           R"({"input":"a","label":"","grid":1,"dim":5})", "[]", "{}"}) {
    { const StoreWriter killed(file(), facts_with(), false); }
    std::ofstream(lines, std::ios::app | std::ios::binary) << line << "\n";
    try {
      const StoreWriter writer(file(), facts_with(), true);
      ADD_FAILURE() << line;
    } catch (const Error& error) {
      EXPECT_EQ(error.subject(), lines.string());
      EXPECT_EQ(std::string(error.what()).find("json"), std::string::npos) << error.what();
    }
  }
}

TEST_F(StoreTest, TheNamesEndIsChecked) {
  for (const char* name : {"s.txt", "s.npy"})
    EXPECT_ERROR(StoreWriter(folder_.path() / name, facts_with(), false), invalid_argument,
                 ".safetensors");
}

TEST_F(StoreTest, PatchesKeepTheirGrids) {
  const at::Tensor vectors = at::randn({8, 5});
  StoreWriter writer(file(), facts_with("patches"), false);
  writer.add("one", "", values_of(vectors.narrow(0, 0, 6)), 2, 3);
  writer.add("two", "", values_of(vectors.narrow(0, 6, 2)), 1, 2);
  writer.finish();
  const VectorStore store(file());
  EXPECT_EQ(store.size(), 2);
  EXPECT_TRUE(store.vectors().equal(vectors));
  EXPECT_ERROR(store.require_one_vector_each(), invalid_argument, "each patch");
}

TEST_F(StoreTest, VectorsOfOtherFactsAreRefused) {
  make(1);
  const VectorStore store(file());
  store.facts().require_same(facts_with(), "s");
  StoreFacts other = facts_with();
  other.precision = "bfloat16";
  store.facts().require_same(other, "s");
  other.model_sha256 = "def";
  EXPECT_ERROR(store.facts().require_same(other, "s"), invalid_argument, "another model");
  other = facts_with();
  other.transform = "native";
  EXPECT_ERROR(store.facts().require_same(other, "s"), invalid_argument, "another transform",
               "resize 256", "native");
}

/// Tensors and metadata of a good store, which each case spoils in one way.
struct Parts {
  std::vector<float> vectors{1, 2, 3, 4};
  std::vector<float> norms{2, 5};
  std::string names = "ab";
  std::vector<std::int64_t> ends{1, 2};
  std::vector<std::int64_t> classes{-1, 0};
  std::vector<std::int64_t> shape{2, 2};
  Dtype dtype = Dtype::F32;
  std::string said =
      R"({"model":"m","model_sha256":"s","attention":"a","features":"pooled","transform":"t",)"
      R"("precision":"p","labels":["x"]})";
  std::string key = "hydrascope.store";

  void write(const std::filesystem::path& file) const {
    const auto bytes = [](const auto& values) { return std::as_bytes(std::span(values)); };
    const std::vector<checkpoint::TensorView> tensors{
        {"vectors", dtype, shape, bytes(vectors)},
        {"norms", Dtype::F32, {std::ssize(norms)}, bytes(norms)},
        {"names", Dtype::U8, {std::ssize(names)}, bytes(names)},
        {"name_ends", Dtype::I64, {std::ssize(ends)}, bytes(ends)},
        {"classes", Dtype::I64, {std::ssize(classes)}, bytes(classes)}};
    checkpoint::write_safetensors(file, tensors, {{key, said}});
  }
};

TEST_F(StoreTest, HostileFilesAreRefused) {
  Parts().write(file());
  EXPECT_EQ(VectorStore(file()).size(), 2);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::pair<const char*, std::function<void(Parts&)>>> cases{
      {"hydrascope.store", [](Parts& it) { it.key = "other"; }},
      {"metadata", [](Parts& it) { it.said = "{"; }},
      {"metadata", [](Parts& it) { it.said = "[]"; }},
      {"labels", [](Parts& it) { it.said.replace(it.said.find("[\"x\"]"), 5, "7"); }},
      {"label is no text", [](Parts& it) { it.said.replace(it.said.find("[\"x\"]"), 5, "[1]"); }},
      {"F32", [](Parts& it) { it.dtype = Dtype::I32; }},
      {"rank", [](Parts& it) { it.shape = {4}; }},
      {"equally many",
       [](Parts& it) {
         it.shape = {4, 1};
       }},
      {"equally many", [](Parts& it) { it.norms.push_back(1); }},
      {"equally many", [](Parts& it) { it.classes.pop_back(); }},
      {"equally many", [](Parts& it) { it.ends.pop_back(); }},
      {"overlap",
       [](Parts& it) {
         it.ends = {2, 1};
       }},
      {"overlap",
       [](Parts& it) {
         it.ends = {-1, 2};
       }},
      {"overlap",
       [](Parts& it) {
         it.ends = {1, std::int64_t{1} << 62};
       }},
      {"no label",
       [](Parts& it) {
         it.classes = {0, 1};
       }},
      {"no label",
       [](Parts& it) {
         it.classes = {0, -2};
       }},
      {"norm",
       [&](Parts& it) {
         it.norms = {1, nan};
       }},
      {"norm",
       [](Parts& it) {
         it.norms = {1, 0};
       }},
      {"no tensor grids",
       [](Parts& it) { it.said.replace(it.said.find("pooled"), 6, "patches"); }}};
  for (const auto& [text, spoil] : cases) {
    Parts parts;
    spoil(parts);
    parts.write(file());
    EXPECT_ERROR(VectorStore(file()), decode_failed, text);
  }
  Parts parts;
  parts.vectors = {1, nan, 3, 4};
  parts.write(file());
  EXPECT_ERROR(VectorStore(file()).nearest(at::randn({1, 2}), 1), failed, "no numbers");
}

}  // namespace vector_store_test
}  // namespace hydrascope::app
