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
  [[nodiscard]] std::filesystem::path part() const { return file().string() + ".jsonl.part"; }
  /// A picture that is there, of `bytes`.
  Input picture(const std::string& name, const std::string& bytes = "") {
    Input one = file_input(folder_.path() / name, folder_.write(name, bytes));
    one.stamp = stamp_of(one);
    return one;
  }
  using Wanted = std::vector<std::pair<Input, std::string>>;
  /// A run over `wanted` whose picture of b bytes has the vector (b, 0, 0, 0, 1). It computes `most` of them and stops,
  /// or finishes. Returns how many it has computed.
  std::int64_t run(const Wanted& wanted, std::int64_t most = 100, bool anew = false,
                   const StoreFacts& facts = facts_with()) {
    StoreWriter writer(file(), anew);
    const std::vector<Input> missing = writer.begin(facts, wanted);
    for (const Input& one : missing) {
      if (most-- == 0) return std::ssize(missing);
      writer.add(one, std::vector<float>{static_cast<float>(one.stamp[0]), 0, 0, 0, 1});
    }
    writer.finish();
    return std::ssize(missing);
  }
  /// A store of `count` vectors of 5 numbers, with labels b and a in turn.
  at::Tensor make(std::int64_t count) {
    const at::Tensor vectors = at::randn({count, 5});
    StoreWriter writer(file(), /*anew=*/true);
    Wanted wanted;
    for (std::int64_t i = 0; i < count; ++i)
      wanted.emplace_back(file_input("p" + std::to_string(i), ""), i % 2 == 0 ? "b" : "a");
    for (const Input& one : writer.begin(facts_with(), wanted))
      writer.add(one, values_of(vectors[one.number]));
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
  const Wanted wanted{{picture("\xff.ppm", "1"), ""},  // no UTF-8
                      {picture("second", "22"), "a"},
                      {picture("third", "333"), ""}};
  EXPECT_EQ(run(wanted), 3);
  const std::string whole = read_bytes(file());
  std::filesystem::remove(file());
  EXPECT_EQ(run(wanted, 2), 3);
  EXPECT_FALSE(std::filesystem::exists(file()));
  // A part of a line, and vectors that no line counts.
  std::ofstream(part(), std::ios::app | std::ios::binary) << "{\"input\":\"thi";
  std::ofstream(file().string() + ".rows", std::ios::app | std::ios::binary) << "1234567";
  EXPECT_ERROR(run(wanted, 0, false, facts_with("mean")), invalid_argument, "another features",
               "begins anew");
  EXPECT_ERROR(run({{picture("else"), ""}}), invalid_argument, "of other inputs");
  EXPECT_EQ(run(wanted), 1);
  EXPECT_EQ(read_bytes(file()), whole);
  EXPECT_EQ(VectorStore(file()).name_of(0), wanted[0].first.given);
  EXPECT_ERROR(VectorStore(file()).require_labels(), invalid_argument, "without a label");
  EXPECT_FALSE(std::filesystem::exists(part()));
}

/// The last line's vectors did not reach the disk.
TEST_F(StoreTest, LinesWithoutTheirVectorsDoNotCount) {
  const Wanted wanted{
      {picture("first", "1"), ""}, {picture("second", "22"), ""}, {picture("x"), ""}};
  EXPECT_EQ(run(wanted, 2), 3);
  std::filesystem::resize_file(file().string() + ".rows", 5 * sizeof(float) + 3);
  EXPECT_EQ(run(wanted), 2);
  EXPECT_EQ(VectorStore(file()).vectors().select(1, 0).sum().item<float>(), 3);
}

TEST_F(StoreTest, FailuresAreTriedAgain) {
  const Wanted wanted{
      {picture("a", "1"), ""}, {picture("broken", "22"), ""}, {picture("b", "333"), ""}};
  {
    StoreWriter killed(file(), false);
    const std::vector<Input> missing = killed.begin(facts_with(), wanted);
    killed.add(missing[0], std::vector<float>{1, 0, 0, 0, 1});
    killed.add_failure(missing[1], "decode_failed", "is no picture");
    EXPECT_EQ(killed.num_failed(), 1);
  }
  EXPECT_EQ(run(wanted), 2);
  EXPECT_EQ(VectorStore(file()).size(), 3);
}

/// A finished store is gone on with: what it becomes is what a fresh one would be.
TEST_F(StoreTest, FollowsItsPictures) {
  const Input b = picture("b", "22");
  const Input d = picture("d", "4444");
  const Input gone = picture("gone", "55555");
  EXPECT_EQ(run({{b, ""}, {d, "x"}, {gone, ""}}), 3);
  EXPECT_EQ(run({{b, ""}, {d, "x"}, {gone, ""}}), 0) << "nothing is new";
  std::filesystem::remove(gone.path);
  const Wanted now{{picture("a", "1"), "new"}, {b, "other"}, {picture("d", "333333"), "x"}};
  for (const std::int64_t most : {1, 100}) {  // stopped, then finished
    StoreWriter writer(file(), false);
    const std::vector<Input> missing = writer.begin(facts_with(), now);
    EXPECT_EQ(std::ssize(missing), most == 1 ? 2 : 1);
    EXPECT_EQ(writer.notes().front(),
              std::to_string(most == 1 ? 1 : 2) + " inputs are answered already");
    for (const Input& one : std::span(missing).first(1))
      writer.add(one, std::vector<float>{static_cast<float>(one.stamp[0]), 0, 0, 0, 1});
    if (most > 1) writer.finish();
  }
  const std::string followed = read_bytes(file());
  EXPECT_EQ(run(now, 100, /*anew=*/true), 3);
  EXPECT_EQ(followed, read_bytes(file()));
  const VectorStore store(file());
  EXPECT_EQ(store.vectors().select(1, 0).sum().item<float>(), 1 + 2 + 6);
  EXPECT_EQ(store.labels(), (std::vector<std::string>{"new", "other", "x"}));
  EXPECT_EQ(store.files().at(2), (FileStamp{6, now[2].first.stamp[1]}));
}

TEST_F(StoreTest, ARunThatBeganAnewGoesOnWithoutTheStore) {
  EXPECT_EQ(run({{picture("a", "1"), ""}}), 1);
  const Wanted others{{picture("b", "22"), ""}, {picture("c", "333"), ""}};
  EXPECT_ERROR(run(others), invalid_argument, "of other inputs", "begins anew");
  EXPECT_EQ(run(others, 1, /*anew=*/true, facts_with("mean")), 2);
  EXPECT_EQ(VectorStore(file()).size(), 1) << "the store stays until the other is whole";
  EXPECT_EQ(run(others, 100, false, facts_with("mean")), 1);
  EXPECT_EQ(VectorStore(file()).size(), 2);
  StoreFacts exact = facts_with("mean");
  exact.precision = "bfloat16";
  EXPECT_ERROR(run(others, 0, false, exact), invalid_argument, "another precision: float32");
}

/// It has no `files`.
TEST_F(StoreTest, OfVersion01CountsAsUnchanged) {
  const Input one = picture("one", "1");
  run({{one, ""}});
  const auto contents = checkpoint::SafetensorsFile::open(file());
  std::vector<checkpoint::TensorView> tensors = contents.tensors();
  std::erase_if(tensors, [](const auto& tensor) { return tensor.name == "files"; });
  checkpoint::write_safetensors(file(), tensors, contents.metadata());
  EXPECT_EQ(VectorStore(file()).files().front(), kNoStamp);
  EXPECT_EQ(run({{picture("one", "changed"), ""}}), 0);
  EXPECT_EQ(VectorStore(file()).files().at(0)[0], 7) << "from now on it is known";
}

TEST_F(StoreTest, FilesOfOthersAreNotReplaced) {
  const Wanted wanted{{picture("a", "1"), ""}};
  for (const char* name : {"s.safetensors", "s.safetensors.rows"}) {
    const auto other = folder_.write(name, "somebody else's");
    EXPECT_ERROR(run(wanted), invalid_argument, "would replace a file that holds no results",
                 "s.safetensors");
    EXPECT_EQ(read_bytes(other), "somebody else's");
    EXPECT_EQ(run(wanted, 100, /*anew=*/true), 1) << name;
    EXPECT_EQ(VectorStore(file()).size(), 1);
    std::filesystem::remove(file());
    std::filesystem::remove(other);
  }
}

TEST_F(StoreTest, ALinkIsTheStoreThatItNames) {
  std::filesystem::create_directory(folder_.path() / "big");
  const std::filesystem::path target = folder_.path() / "big/s.safetensors";
  std::filesystem::create_symlink(target, file());
  const Wanted wanted{{picture("a", "1"), ""}};
  StoreWriter first(target, false);
  EXPECT_ERROR(run(wanted), invalid_argument, "another run");
  for (const Input& one : first.begin(facts_with(), wanted))
    first.add(one, std::vector<float>{1, 2, 3, 4, 5});
  first.finish();
  EXPECT_TRUE(std::filesystem::is_symlink(file()));
  EXPECT_EQ(VectorStore(file()).size(), 1);
}

TEST_F(StoreTest, TheNamesEndIsChecked) {
  for (const char* name : {"s.txt", "s.npy"})
    EXPECT_ERROR(StoreWriter(folder_.path() / name, false), invalid_argument, ".safetensors");
}

TEST_F(StoreTest, PatchesKeepTheirGrids) {
  const at::Tensor vectors = at::randn({8, 5});
  const Wanted wanted{{picture("one"), ""}, {picture("two"), ""}};
  for (const bool anew : {true, false}) {
    StoreWriter writer(file(), anew);
    const std::vector<Input> missing = writer.begin(facts_with("patches"), wanted);
    EXPECT_EQ(missing.size(), anew ? 2U : 0U);
    if (anew) {
      writer.add(missing[0], values_of(vectors.narrow(0, 0, 6)), 2, 3);
      writer.add(missing[1], values_of(vectors.narrow(0, 6, 2)), 1, 2);
    }
    writer.finish();
  }
  const VectorStore store(file());
  EXPECT_EQ(store.size(), 2);
  EXPECT_TRUE(store.vectors().equal(vectors));
  EXPECT_EQ(store.grids().at(0), (std::array<std::int64_t, 2>{2, 3}));
  EXPECT_ERROR(store.require_one_vector_each(), invalid_argument, "each patch");
}

TEST_F(StoreTest, VectorsOfOtherFactsAreRefused) {
  make(1);
  const VectorStore store(file());
  store.facts().require_same(facts_with(), "s");
  StoreFacts other = facts_with();
  other.precision = "bfloat16";
  EXPECT_ERROR(store.facts().require_same(other, "s"), invalid_argument, "another precision");
  other.precision = "";  // any
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
