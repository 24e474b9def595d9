#include "tests/app/cli/program.h"
#include "tests/picture_files.h"

#include <gmock/gmock.h>

namespace hydrascope::testing {
namespace other_commands_cli_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using ::testing::HasSubstr;

const fs::path kOtters = asset("images/oakland-zoo-otters.jpg");

TEST(PositionsCliTest, RulesAreChosenListedAndRecorded) {
  const auto classified = [](std::vector<std::string> options) {
    options.insert(options.begin(), {"classify", kOtters.string(), "--format", "json", "--device",
                                     "cpu", "--precision", "float32"});
    return run(options);
  };
  const Json plain = classified({}).json();
  const Outcome rope = classified({"--rel-pos", "rope:6-11", "--rel-pos-opt", "rope.base=50",
                                   "--rel-pos-opt", "rope:6.scale=0.5"});
  ASSERT_EQ(rope.code, 0) << rope.err;
  const Json record = rope.json().is_array() ? rope.json().at(0) : rope.json();
  EXPECT_EQ(record.at("attention_options").at("rel_pos"), "none:0-5,rope:6-11");
  EXPECT_EQ(record.at("attention_options").at("rope.base"), "50");
  EXPECT_EQ(record.at("attention_options").at("rope.scale"), "0.5|1");
  EXPECT_THAT(rope.err, HasSubstr("positions changed after training"));
  EXPECT_NE(plain.dump(), rope.json().dump());
  for (const char* spec : {"alibi", "relbias", "shaw:last2", "lookhere", "transformer_xl", "da"})
    EXPECT_EQ(classified({"--rel-pos", spec}).code, 0) << spec;
  EXPECT_EQ(classified({"--attn", "window", "--rel-pos", "rope"}).code, 0);
  const Outcome sincos = classified({"--pos-embed", "sincos"});
  ASSERT_EQ(sincos.code, 0) << sincos.err;
  EXPECT_THAT(sincos.err, HasSubstr("not used: pos_embed"));
  const Outcome layers = classified({"--pos-embed", "layers"});
  EXPECT_THAT(layers.err, HasSubstr("newly initialised, not from the file: blocks.1.pos_embed"));
  const auto top = [](const Json& records) {
    return (records.is_array() ? records.at(0) : records).at("top");
  };
  EXPECT_EQ(top(layers.json()), top(plain));
  const Outcome refused = classified({"--attn", "hydra", "--rel-pos", "rope"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("'hydra' has no scores of pairs"));
  EXPECT_THAT(run({"models", "list"}).out, HasSubstr("transformer_xl"));
  EXPECT_EQ(run({"models", "info", "rope", "--format", "json"}).json().at("rule"), "rope");
  EXPECT_THAT(run({"models", "info", "shaw"}).out, HasSubstr("--rel-pos-opt shaw.clip="));
}

TEST(PositionsCliTest, AModelWithARuleIsMadeAndComesBack) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "rope.safetensors").string();
  ASSERT_EQ(run({"models", "create", "--arch", "vit_tiny_patch16_224", "--rel-pos", "rope",
                 "--rel-pos-opt", "rope.variant=mixed", "--pos-embed", "none", "-o", file})
                .code,
            0);
  const Json info = run({"models", "info", file, "--format", "json"}).json();
  EXPECT_EQ(info.at("rel_pos"), "rope");
  EXPECT_EQ(info.at("config").at("pos_embed"), "none");
  EXPECT_EQ(info.at("attention_options").at("rope.variant"), "mixed");
  const Outcome map = run({"visualize", kOtters.string(), "-m", file, "--method", "rollout", "-o",
                           (folder.path() / "maps").string(), "--device", "cpu"});
  EXPECT_EQ(map.code, 0) << map.err;
}

TEST(EvaluateCliTest, ScoresFoldersByIdAndByName) {
  const TemporaryFolder folder;
  fs::create_directories(folder.path() / "n02444819");
  fs::create_directories(folder.path() / "triumphal arch");
  fs::copy(kOtters, folder.path() / "n02444819/a.jpg");
  fs::copy(asset("images/colosseum-arches.jpg"), folder.path() / "triumphal arch/b.jpg");
  const Json json = run_well({"evaluate", folder.path(), "--format json --device cpu"}).json();
  for (const char* key :
       {"schema", "top1", "top5", "images", "failed", "model", "attention", "img_size", "crop_pct",
        "interpolation", "precision", "device", "images_per_second"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json.at("top1"), 100.0);
  EXPECT_EQ(json.at("images"), 2);
  EXPECT_EQ(json.at("img_size"), Json({224, 224}));
  EXPECT_EQ(json.at("crop_pct"), 0.875);
}

TEST(EvaluateCliTest, FoldersByIndexIdAndNameScoreTheSame) {
  const auto top1 = [](const std::string& otter, const std::string& arch) {
    const TemporaryFolder folder;
    fs::create_directories(folder.path() / otter);
    fs::create_directories(folder.path() / arch);
    fs::copy(kOtters, folder.path() / otter / "a.jpg");
    fs::copy(asset("images/colosseum-arches.jpg"), folder.path() / arch / "b.jpg");
    const Json json = run_well({"evaluate", folder.path(), "--format json --device cpu"}).json();
    EXPECT_EQ(json.at("images"), 2);
    return json.at("top1").get<double>();
  };
  EXPECT_EQ(top1("n02444819", "n04486054"), 100);
  EXPECT_EQ(top1("otter", "Triumphal_Arch"), 100);
  EXPECT_EQ(top1("360", "873"), 100);
  EXPECT_EQ(top1("0360", "0873"), 100);
  EXPECT_EQ(top1("360", "872"), 50);
}

TEST(EvaluateCliTest, TablesOfEveryFormScoreTheSame) {
  const TemporaryFolder folder;
  fs::create_directories(folder.path() / "set");
  fs::copy(kOtters, folder.path() / "set/a.jpg");
  fs::copy(asset("images/colosseum-arches.jpg"), folder.path() / "set/b.jpg");
  const auto top1 = [&](const std::string& table) {
    return run_well({"evaluate", folder.path() / "set", "--labels-csv",
                     folder.write("labels.csv", table), "--format json --device cpu"})
        .json()
        .at("top1")
        .get<double>();
  };
  EXPECT_EQ(top1("file,class_index\na.jpg,360\nb.jpg,873\n"), 100);
  EXPECT_EQ(top1("filename;label\r\na.jpg;otter\r\nb.jpg;triumphal arch\r\n"), 100);
  EXPECT_EQ(top1("id\tlabel\na\tn02444819\nb\t872\n"), 50);
  EXPECT_EQ(top1("ImageId,PredictionString\na,n02444819 1 2 30 40 \nb,n04486054 1 2 30 40 \n"),
            100);
  EXPECT_EQ(top1("set/a.jpg 360\nset\\b.jpg 873\n"), 100) << "relative to the table";
}

TEST(EvaluateCliTest, ScoresACsvAndChecksTheLimit) {
  const TemporaryFolder folder;
  fs::copy(kOtters, folder.path() / "a, b.jpg");
  folder.write("c.ppm", ppm(64, 64));
  const std::string csv =
      folder
          .write("l.csv",
                 "image,author,label\r\n\"a, b.jpg\",\"x \"\"y\"\"\",360\r\nc.ppm,z,360\r\n")
          .string();
  const Outcome outcome =
      run_well({"evaluate", folder.path(), "--labels-csv", csv, "--format json"});
  EXPECT_EQ(outcome.json().at("top1"), 50.0);
  run_well({"evaluate", folder.path(), "--labels-csv", csv, "--require-top1 50"});
  EXPECT_EQ(run({"evaluate", folder.path(), "--labels-csv", csv, "--require-top1 50.1"}).code, 4);
  const std::string by_id = folder.write("i.csv", "synset,file\nn02444819,\"a, b.jpg\"\n").string();
  EXPECT_EQ(
      run({"evaluate", folder.path(), "--labels-csv", by_id, "--format json"}).json().at("top1"),
      100.0);
}

TEST(EvaluateCliTest, NamesWhatIsWrongWithASet) {
  const TemporaryFolder folder;
  const auto expect = [&](const Words& more, int code, const char* text) {
    expect_error(code, {text}, Words{"evaluate"} + more);
  };
  expect({"/nonexistent"}, 2, "no such folder");
  expect({folder.path().string()}, 2, "expected a folder per class");
  fs::create_directories(folder.path() / "n02444819");
  fs::create_directories(folder.path() / "no such class");
  expect({folder.path().string()}, 2, "no such class");
  fs::remove(folder.path() / "no such class");
  expect({folder.path().string()}, 1, "no pictures");
  const std::string root = folder.path().string();
  expect({root, "--labels-csv", folder.write("a.csv", "file,label\nx.jpg,1000\n")}, 2, "row 2");
  expect({root, "--labels-csv", folder.write("a.csv", "file,label\nx.jpg\n")}, 2, "columns");
  expect({root, "--labels-csv", folder.write("a.csv", "name,label\nx.jpg,1\n")}, 2, "header");
  folder.write("n02444819/bad.jpg", "no picture");
  expect({root}, 3, "unsupported_format");
}

TEST(ModelsCliTest, CreatesInspectsAndClassifies) {
  const TemporaryFolder folder;
  const fs::path a = folder.path() / "a.safetensors";
  const fs::path b = folder.path() / "b.safetensors";
  run_well(
      {"models create --arch deit_tiny_distilled_patch16_224 --num-classes 7 --img-size "
       "64x96 --seed 3 -o",
       a});
  run_well(
      {"models create --arch deit_tiny_distilled_patch16_224 --num-classes 7 --img-size "
       "64x96 --seed 3 -o",
       b});
  EXPECT_EQ(read_bytes(a), read_bytes(b)) << "a seed makes one file";
  const Json header = run({"inspect", a, "--format json"}).json();
  EXPECT_EQ(header.at("schema"), 1);
  EXPECT_EQ(header.at("format"), "safetensors");
  EXPECT_EQ(header.at("arch"), "deit_tiny_distilled_patch16_224");
  EXPECT_EQ(header.at("attention"), "softmax");
  EXPECT_EQ(header.at("metadata").at("img_size"), "64x96");
  bool found = false;
  for (const Json& tensor : header.at("tensors")) {
    if (tensor.at("name") != "pos_embed") continue;
    found = true;
    EXPECT_EQ(tensor.at("shape"), Json({1, 2 + 4 * 6, 192}));
    EXPECT_EQ(tensor.at("dtype"), "F32");
    EXPECT_EQ(tensor.at("bytes"), 26 * 192 * 4);
  }
  EXPECT_TRUE(found);
  const Outcome outcome = run_well({"classify -m", a, kOtters, "--format jsonl"});
  EXPECT_EQ(outcome.records().at(0).at("model_size"), Json({64, 96}));
  EXPECT_EQ(outcome.records().at(0).at("tokens"), 2 + 24);
  // An architecture by name, weights from a file that does not fit it.
  const Outcome wrong = run({"classify -m deit_tiny_patch16_224 --checkpoint", a, kOtters});
  EXPECT_EQ(wrong.code, 1);
  for (const char* text : {"unexpected", "dist_token", "mismatched", "pos_embed"}) {
    EXPECT_NE(wrong.err.find(text), std::string::npos) << wrong.err;
  }
}

TEST(ModelsCliTest, ListsAndDescribes) {
  const Outcome list = run_well({"models list"});
  for (const char* text :
       {"deit_tiny_patch16_224.softmax", "(default)", "vit_base_patch16_224", "softmax"}) {
    EXPECT_NE(list.out.find(text), std::string::npos) << text;
  }
  const Json info = run({"models info deit_tiny_patch16_224.softmax --format json"}).json();
  EXPECT_EQ(info.at("parameters"), 5717416);
  EXPECT_EQ(info.at("tokens"), 197);
  EXPECT_EQ(info.at("config").at("num_heads"), 3);
  // 1.26 GMAC: timm's figure for this model.
  EXPECT_NEAR(info.at("gflops_per_image").get<double>(), 2.5, 0.05);
  const Json base = run({"models info vit_base_patch16_224 --format json"}).json();
  EXPECT_NEAR(base.at("gflops_per_image").get<double>(), 2 * 17.56, 0.05);
  EXPECT_EQ(run({"models info nothing"}).code, 2);
  // The family's name alone is its default model.
  const Outcome family = run({"models info deit_tiny_patch16_224"});
  EXPECT_NE(family.out.find("deit_tiny_patch16_224.softmax\n"), std::string::npos) << family.out;
  EXPECT_NE(family.out.find("224x224 (HxW)"), std::string::npos) << family.out;
  EXPECT_EQ(run({"models path deit_tiny_patch16_224"}).out, run({"models path"}).out);
  run_well({"classify -m deit_tiny_patch16_224 --print-transform", kOtters});
  EXPECT_EQ(run({"models lst"}).code, 2);
  EXPECT_NE(run({"models path"}).out.find("deit_tiny_patch16_224.softmax.safetensors"),
            std::string::npos);
}

TEST(OtherCommandsCliTest, HelpVersionCompletionDoctor) {
  const Outcome help = run_well({"--help"});
  for (const char* command :
       {"classify", "evaluate", "models", "inspect", "doctor", "completion", "version", "help"}) {
    EXPECT_NE(help.out.find(command), std::string::npos) << command;
    EXPECT_EQ(run({command, "--help"}).code, 0) << command;
    EXPECT_EQ(run({"help", command}).code, 0) << command;
  }
  EXPECT_TRUE(run({"--version"}).out.starts_with("hydrascope "));
  run_well({"version"});
  EXPECT_EQ(run({"predict --help"}).out, run({"classify --help"}).out);
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Outcome script = run({"completion", shell});
    EXPECT_EQ(script.code, 0) << shell;
    EXPECT_NE(script.out.find("hydrascope"), std::string::npos) << shell;
  }
  EXPECT_EQ(run({"completion tcsh"}).code, 2);
  EXPECT_EQ(run({"help clasify"}).code, 2);
  const Json doctor = run({"doctor --format json"}).json();
  EXPECT_EQ(doctor.at("schema"), 1);
  EXPECT_FALSE(doctor.at("cpu").get<std::string>().empty());
  EXPECT_EQ(doctor.at("cuda_usable").get<bool>(), !doctor.at("gpus").empty());
  EXPECT_NE(run({"help --man"}).out.find(".TH"), std::string::npos);
}

TEST(OtherCommandsCliTest, InspectSaysWhatAFileIs) {
  const TemporaryFolder folder;
  expect_error(1, {"zip"}, {"inspect", folder.write("a.pth", "PK\x03\x04 and more")});
  EXPECT_EQ(run({"inspect /nonexistent"}).code, 1);
  expect_error(1, {"found a picture"}, {"inspect", kOtters});
  EXPECT_EQ(run({"inspect"}).code, 2);
}

TEST(DeviceCliTest, AGpuThatIsNotThereIsNamedWithItsReason) {
  const Json doctor = run({"doctor --format json"}).json();
  if (doctor.at("cuda_usable").get<bool>()) GTEST_SKIP() << "a GPU can be used here";
  const std::string reason = doctor.at("cuda_why_not");
  const Outcome outcome = run({"classify", asset("images"), "--device cuda"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find(reason), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("--device cuda"), std::string::npos) << outcome.err;
  EXPECT_TRUE(outcome.out.empty()) << outcome.out;
  EXPECT_EQ(run({"classify", asset("images"), "--device auto"}).code, 0)
      << "auto falls back to the processor";
}

}  // namespace other_commands_cli_test
}  // namespace hydrascope::testing
