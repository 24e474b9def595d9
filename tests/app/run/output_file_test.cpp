#include "app/run/output_file.h"

#include "app/results/json.h"
#include "app/results/npy_file.h"
#include "app/results/report.h"
#include "app/results/table.h"
#include "model/checkpoint/formats/safetensors.h"
#include "tests/app/formats.h"
#include "tests/error_matchers.h"
#include "tests/picture_files.h"
#include "tests/temporary_folder.h"
#include "viz/picture/encode.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

namespace hydrascope::app {
namespace output_file_test {

namespace fs = std::filesystem;
using hydrascope::testing::read_bytes;
using hydrascope::testing::TemporaryFolder;

class OwnFileTest : public ::testing::Test {
 protected:
  [[nodiscard]] bool is_own(const std::string& bytes, FileKind kind = FileKind::text) const {
    return may_be_replaced(folder_.write("file", bytes), kind);
  }
  TemporaryFolder folder_;
};

TEST_F(OwnFileTest, TextsOfThisProgramAreReplaced) {
  const std::string file = folder_.path() / "result";
  const OrderedJson record = {{"schema", 2}, {"input", "a.jpg"}};
  Report report("facts");
  for (const char* fact : {"top1", "top1_macro", "top5", "images", "failed", "model"})
    report.add(fact, 9);
  ResultTable classes({{"class", "class"},
                       {"id", "id"},
                       {"label", "label"},
                       {"images", "images"},
                       {"right", "right"},
                       {"top1", "top1"}});
  classes.add({0, "n01440764", "tench", 2, 1, 50.0});
  report.add_table("classes", "", classes);
  const Report table = Report::of("by class", classes);
  for (const Format format :
       {Format::text, Format::json, Format::jsonl, Format::csv, Format::md, Format::html}) {
    for (int run = 0; run < 2; ++run) {
      OutputFile output(file);
      report.write(format, output.stream());
      output.close();
    }
    for (int run = 0; run < 2 && format != Format::html; ++run) {
      OutputFile output(file);
      table.write(format, output.stream());
      output.close();
    }
    for (int run = 0; run < 2 && format < Format::md; ++run) {
      OutputFile output(file);
      RecordStream records(format, output.stream(), "input frame time width height model_height");
      records.write(record, "a.jpg  40x30 -> 224x224 (HxW)\n  1  90.57 %  otter\n");
      records.finish();
      output.close();
    }
  }
  const std::string svg = folder_.path() / "a.svg";
  report.charts = {{"t", "x", "y", {{"one", {{1, 2}, {3, 4}}}}}};
  report.save(svg, "`html`");
  EXPECT_TRUE(may_be_replaced(svg, FileKind::text));
  report.save(svg, "`html`");
  for (const char* text :
       {"", "\n\n", "[]\n",
        "[{\"class\":0,\"id\":\"\",\"label\":\"0\",\"images\":2,\"right\":1,\"top1\":50.0}]\n"})
    EXPECT_TRUE(is_own(text)) << text;
  EXPECT_FALSE(is_own("{\"schema\":1}\n", FileKind::companion));
  for (const char* text : {"{\"step\":1,\"epoch\":0,\"agreement\":1.0,\"minutes\":2.5}\n",
                           "{\"model_sha256\":\"abc\",\"attention\":\"softmax\"}\n",
                           "{\n  \"peft_type\": \"LORA\",\n  \"base_model_name_or_path\": \"\",\n  "
                           "\"bias\": \"none\"}\n"}) {
    EXPECT_TRUE(is_own(text, FileKind::companion)) << text;
    EXPECT_FALSE(is_own(text)) << text;
  }
}

TEST_F(OwnFileTest, TextsOfOthersAreNot) {
  for (const char* text :
       {"top1 50\ntop5 70\n",
        "\xff\xd8\xff\xe0",
        "file,label\na.jpg,0\n",
        "input,frame\n",
        "input,frame,times\n",
        "kind: Pod\nschema: 1\n",
        "# hydrascope\n",
        "{\"schema\":10}\n",
        "{\"schema\":3}\n",
        "{\"name\":\"x\",\"schema\":1}\n",
        "{\"step\":1,\"loss\":0}\n",
        "[1]\n",
        "{\"step\": 1, \"epoch\": 0, \"loss\": 2.3}\n",
        "step,epoch,loss\n1,0,2.3\n",
        "{\"version\": \"1.2\", \"build\": \"77\", \"commit\": \"abc\"}\n",
        "[{\"kind\": \"book\", \"name\": \"x\", \"price\": 2, \"summary\": \"y\"}]\n",
        "{\"name\":\"w\",\"dtype\":\"f32\",\"shape\":[1]}\n",
        "class,id,label\n0,a,b\n",
        "key,values,default\n",
        "model,file,arch\n",
        "input,frame,time\n",
        "{\"schema\": \"1\"}\n",
        "<!doctype html>\n<title>hydrascope</title>\n",
        "a.jpg  error: not_found: no such file\n"})
    EXPECT_FALSE(is_own(text)) << text;
  EXPECT_FALSE(is_own(std::string(5000, '\n') + "a diary\n"));
}

TEST_F(OwnFileTest, ArraysAndPicturesAndTensorsAreOfTheirKind) {
  const fs::path array = folder_.path() / "a.npy";
  {
    NpyWriter writer(array);
    writer.append(std::vector<float>{1, 2}, std::array<std::int64_t, 1>{2});
  }
  const fs::path picture = folder_.path() / "a.png";
  viz::write_image(picture, viz::filled(40, 30, {}));
  const fs::path photograph = folder_.path() / "a.jpg";
  viz::write_image(photograph, viz::filled(40, 30, {}));
  const fs::path store = folder_.path() / "store.safetensors";
  checkpoint::write_safetensors(
      store, {}, {{"created_by", "hydrascope 0.1.0 embed"}, {"hydrascope.store", "{}"}});
  const fs::path weights = folder_.path() / "weights.safetensors";
  checkpoint::write_safetensors(weights, {}, {{"created_by", "hydrascope 0.1.0 train"}});
  const fs::path random = folder_.path() / "random.safetensors";
  checkpoint::write_safetensors(random, {}, {{"created_by", "hydrascope models create, seed 0"}});
  EXPECT_TRUE(may_be_replaced(random, FileKind::random_weights));
  EXPECT_FALSE(may_be_replaced(weights, FileKind::random_weights));
  const fs::path numpys = folder_.write(
      "n.npy", "\x93NUMPY\x01\x01v\x01{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n");
  EXPECT_FALSE(may_be_replaced(numpys, FileKind::array));
  const fs::path foreign = folder_.path() / "foreign.safetensors";
  checkpoint::write_safetensors(foreign, {}, {{"format", "pt"}});
  std::string unmarked = read_bytes(picture);
  unmarked.replace(unmarked.find("hydrascope"), 10, "paint 1.00");
  const fs::path other = folder_.write("b.png", unmarked);
  const fs::path text = folder_.write("notes", "a picture of hydrascope");
  for (const fs::path& file : {array, picture, photograph, store, weights, foreign, other, text}) {
    EXPECT_EQ(may_be_replaced(file, FileKind::array), file == array) << file;
    EXPECT_EQ(may_be_replaced(file, FileKind::picture), file == picture || file == photograph)
        << file;
    EXPECT_EQ(may_be_replaced(file, FileKind::store), file == store) << file;
    EXPECT_EQ(may_be_replaced(file, FileKind::weights), file == weights) << file;
    EXPECT_FALSE(may_be_replaced(file, FileKind::text)) << file;
    EXPECT_TRUE(may_be_replaced(file, FileKind::any)) << file;
  }
  EXPECT_TRUE(may_be_replaced(folder_.path() / "none", FileKind::store));
  EXPECT_ERROR(refuse_to_replace(weights, FileKind::store, "`output` x"), invalid_argument,
               "would replace a file that holds no results", "`output` x", "another name");
}

TEST_F(OwnFileTest, WhatIsRefusedStaysWithItsParts) {
  const fs::path notes = folder_.write("notes.txt", "\x01mine\n");
  EXPECT_ERROR(OutputFile(notes.string()), invalid_argument, "would replace");
  EXPECT_ERROR(check_output_file(notes.string(), "`html`"), invalid_argument, "`html`");
  const fs::path part = folder_.write("other.txt.part", "\x01mine, too\n");
  EXPECT_ERROR(OutputFile(folder_.path() / "other.txt"), invalid_argument, "would replace");
  fs::create_symlink(notes, folder_.path() / "linked.txt.part");
  EXPECT_ERROR(OutputFile(folder_.path() / "linked.txt"), invalid_argument, "through a link");
  EXPECT_EQ(read_bytes(notes), "\x01mine\n");
  EXPECT_EQ(read_bytes(part), "\x01mine, too\n");
  const fs::path records = folder_.write("r.jsonl", "{\"schema\":1}\n");
  const fs::path copy = folder_.path() / "r.jsonl.part";
  { const OutputFile refused(records.string(), "`output`", OutputFile::Start::after_whole_lines); }
  EXPECT_FALSE(fs::exists(copy));
  {
    OutputFile begun(records.string(), "`output`", OutputFile::Start::after_whole_lines);
    begun.cut(13);
    begun.stream() << "[]\n";
  }
  EXPECT_EQ(read_bytes(copy), "{\"schema\":1}\n[]\n");
  OutputFile forced(notes.string(), "`output`", OutputFile::Start::anew, FileKind::any);
  forced.stream() << "new\n";
  forced.close();
  EXPECT_EQ(read_bytes(notes), "new\n");
}

}  // namespace output_file_test
}  // namespace hydrascope::app
