// Checkpoints of others on the command line: convert IN OUT, inspect, and the configuration
// beside the weights.
#include "model/checkpoint/formats/safetensors.h"
#include "model/checkpoint/formats/sha256.h"
#include "tests/app/cli/program.h"
#include "tests/model/checkpoint/other_names.h"
#include "tests/picture_files.h"

#include <algorithm>

namespace hydrascope::testing {
namespace {

namespace fs = std::filesystem;
using checkpoint::SafetensorsFile;
using checkpoint::TensorView;
using Json = nlohmann::json;

fs::path training_checkpoint(const std::string& name) {
  return fs::path(HYDRASCOPE_SOURCE_DIR) / "tests/data/checkpoints" / name;
}

constexpr const char* kPreprocessor = R"({"size": 32, "resample": 3, "do_normalize": true,
    "image_mean": [0.4, 0.5, 0.6], "image_std": [0.25, 0.25, 0.25]})";

/// A folder as Hugging Face has it: config.json, preprocessor_config.json, model.safetensors.
void make_hugging_face_folder(const fs::path& timm_file, const TemporaryFolder& folder,
                              Names names) {
  const SafetensorsFile file = SafetensorsFile::open(timm_file);
  std::vector<TensorView> views;
  for (const TensorView& view : file.tensors()) {
    const std::string head = head_name(view.name, names, false);
    const std::vector<std::string> parts =
        head != view.name ? std::vector{head} : names_in_file(view.name, names, "vit.");
    const std::size_t bytes = view.data.size() / parts.size();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      TensorView part = view;
      part.name = parts[i];
      part.data = view.data.subspan(i * bytes, bytes);
      if (parts.size() > 1) part.shape.front() /= static_cast<std::int64_t>(parts.size());
      views.push_back(part);
    }
  }
  checkpoint::write_safetensors(folder.path() / "model.safetensors", views, {{"format", "pt"}});
  folder.write("config.json", R"({"model_type": "vit", "hidden_size": 64, "layer_norm_eps": 1e-6,
      "num_attention_heads": 1, "image_size": 32, "id2label": {"0": "ant", "1": "bee", "2": "cat",
      "3": "dog, hound", "4": "eel"}})");
  folder.write("preprocessor_config.json", kPreprocessor);
}

/// The logits of a picture, bit for bit, and what was said.
struct Answer {
  std::string logits;
  Json top;
  std::string err;
};

Answer classify(const fs::path& model, const Words& more = {}) {
  const TemporaryFolder folder;
  const std::string picture = folder.write("a.ppm", ppm(70, 50)).string();
  const std::string logits = (folder.path() / "l.npy").string();
  Words arguments = Words{"classify -m", model, picture,
                          "--format jsonl --device cpu --topk 3 --save-logits", logits} +
                    more;
  const Outcome outcome = run_well(arguments);
  return {read_bytes(logits), outcome.code == 0 ? outcome.records().at(0).at("top") : Json(),
          outcome.err};
}

std::string transform_of(const fs::path& model, const Words& more = {}) {
  Words arguments = Words{"classify -m", model, "--print-transform"} + more;
  const Outcome outcome = run_well(arguments);
  return outcome.out;
}

void expect_text(const std::string& all, std::initializer_list<const char*> texts) {
  for (const char* text : texts)
    EXPECT_NE(all.find(text), std::string::npos) << text << "\n" << all;
}

Outcome convert(const fs::path& from, const fs::path& to, const Words& more = {}) {
  return run(Words{"convert --format-only", from, to} + more);
}

TEST(ConvertCliTest, ATrainingCheckpointBecomesOurOwnFile) {
  const TemporaryFolder folder;
  const fs::path source = training_checkpoint("timm_training.pth");
  const fs::path out = folder.path() / "new folder" / "a.safetensors";
  const Outcome outcome = convert(source, out);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  expect_text(outcome.err, {"'state_dict'", "--use-ema", "stripped 'module.'", "a.safetensors"});

  const SafetensorsFile file = SafetensorsFile::open(out);
  const auto& metadata = file.metadata();
  EXPECT_EQ(metadata.at("format"), "pt");
  EXPECT_EQ(metadata.at("hydrascope.schema"), "1");
  EXPECT_EQ(metadata.at("arch"), "vit");
  EXPECT_EQ(metadata.at("attention"), "softmax");
  EXPECT_EQ(metadata.at("img_size"), "32");
  EXPECT_EQ(metadata.at("num_classes"), "5");
  EXPECT_EQ(Json::parse(metadata.at("hydrascope.config")).at("mlp_ratio"), 1.0);
  EXPECT_EQ(Json::parse(metadata.at("transform")).at("input_size"), Json({3, 32, 32}));
  EXPECT_EQ(metadata.at("parent_sha256"), checkpoint::sha256_of_file(source));
  EXPECT_TRUE(metadata.at("created_by").starts_with("hydrascope ")) << metadata.at("created_by");
  EXPECT_FALSE(metadata.contains("labels"));
  EXPECT_FALSE(metadata.contains("license"));
  for (const TensorView& view : file.tensors()) EXPECT_EQ(view.dtype, checkpoint::Dtype::F16);
  EXPECT_EQ(classify(source).logits, classify(out).logits);

  const fs::path averaged = folder.path() / "ema.safetensors";
  ASSERT_EQ(convert(source, averaged, {"--use-ema"}).code, 0);
  EXPECT_EQ(classify(source, {"--use-ema"}).logits, classify(averaged).logits);
  EXPECT_NE(classify(source).logits, classify(averaged).logits);
}

TEST(ConvertCliTest, FoldersOfHuggingFaceKeepEverything) {
  const TemporaryFolder folder;
  const fs::path timm = folder.path() / "timm.safetensors";
  ASSERT_EQ(convert(training_checkpoint("deit_legacy.pth"), timm).code, 0);
  for (const Names names : {Names::hugging_face_4, Names::hugging_face_5}) {
    const TemporaryFolder hub;
    make_hugging_face_folder(timm, hub, names);
    const Answer answer = classify(hub.path(), {"--print-transform"});
    EXPECT_EQ(
        answer.logits,
        classify(timm, {"--crop-mode squash --crop-pct 1 --mean 0.4 0.5 0.6 --std 0.25 0.25 0.25"})
            .logits);
    expect_text(answer.err, {"squash to 32x32 (bicubic", "[from preprocessor_config.json]"});
    const auto labels = {"ant", "bee", "cat", "dog", "eel"};
    EXPECT_NE(std::ranges::find(labels, answer.top.at(0).at("label")), labels.end());

    const fs::path out = hub.path() / "out" / "a.safetensors";
    ASSERT_EQ(convert(hub.path(), out).code, 0);
    const Answer converted = classify(out);
    EXPECT_EQ(converted.logits, answer.logits);
    EXPECT_EQ(converted.top, answer.top);
    // The bits of every tensor are those from before the folder was made.
    const SafetensorsFile before = SafetensorsFile::open(timm);
    const SafetensorsFile after = SafetensorsFile::open(out);
    ASSERT_EQ(before.tensors().size(), after.tensors().size());
    for (const TensorView& view : before.tensors()) {
      const TensorView* twin = after.find(view.name);
      ASSERT_NE(twin, nullptr) << view.name;
      EXPECT_EQ(twin->shape, view.shape) << view.name;
      EXPECT_TRUE(std::ranges::equal(twin->data, view.data)) << view.name;
    }
  }
}

TEST(ConvertCliTest, PrecisionAttentionAndArchitectureAreStored) {
  const TemporaryFolder folder;
  const fs::path source = training_checkpoint("deit_legacy.pth");
  const fs::path out = folder.path() / "a.safetensors";
  for (const auto& [word, dtype] : {std::pair{"float32", checkpoint::Dtype::F32},
                                    {"float16", checkpoint::Dtype::F16},
                                    {"bfloat16", checkpoint::Dtype::BF16}}) {
    ASSERT_EQ(convert(source, out, {"--save-dtype", word, "--force"}).code, 0);
    const SafetensorsFile file = SafetensorsFile::open(out);
    for (const TensorView& view : file.tensors()) EXPECT_EQ(view.dtype, dtype);
  }
  for (const auto& [words, dtype] :
       {std::pair(Words{"--force --precision float32"}, checkpoint::Dtype::F32),
        {{"--force", "--fp16"}, checkpoint::Dtype::F16}}) {
    ASSERT_EQ(convert(source, out, words).code, 0);
    EXPECT_EQ(SafetensorsFile::open(out).find("head.weight")->dtype, dtype) << words.back();
  }
  EXPECT_EQ(convert(source, out, {"--force", "--num-classes", "9", "--attn", "softmax"}).code, 0);
  EXPECT_EQ(SafetensorsFile::open(out).metadata().at("num_classes"), "9");
  EXPECT_EQ(SafetensorsFile::open(out).find("head.weight")->dtype, checkpoint::Dtype::F16);
  const Outcome wrong = convert(source, out, {"--force", "--arch", "deit_tiny_patch16_224"});
  EXPECT_EQ(wrong.code, 1);
  expect_text(wrong.err, {"does not fit deit_tiny_patch16_224", "mismatched", "pos_embed"});
  EXPECT_EQ(wrong.err.find("note: -m"), std::string::npos);
}

TEST(ConvertCliTest, TheModelIsMAndWasFrom) {
  const TemporaryFolder folder;
  const std::string in = training_checkpoint("deit_legacy.pth").string();
  const std::string out = (folder.path() / "a.safetensors").string();
  const auto converted = [&](Words words) { return run(Words{"convert --force"} + words); };
  // Two names without an attention are IN and OUT.
  for (const Words& words : {Words{in, out},
                             {"--format-only", "-m", in, "-o", out},
                             {"--format-only", "--from", in, "-o", out}}) {
    const Outcome outcome = converted(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    expect_text(outcome.err, {"wrote"});
    EXPECT_EQ(outcome.err.find("note: -m"), std::string::npos);
  }
  // Where the model is named elsewhere, -m is its architecture, as it was.
  for (const Words& words :
       {Words{in, out, "-m deit_tiny_patch16_224"},
        {"--format-only", "--from", in, "-o", out, "-m", "deit_tiny_patch16_224"}}) {
    const Outcome outcome = converted(words);
    EXPECT_EQ(outcome.code, 1);
    expect_text(outcome.err, {"note: -m names the model that is converted now; taken for --arch "
                              "deit_tiny_patch16_224\n",
                              "does not fit deit_tiny_patch16_224"});
  }
  const Outcome pictures = converted({"-m", in, "-i", folder.path(), "-o", out});
  EXPECT_EQ(pictures.code, 2);
  expect_text(pictures.err, {"expected the attention to convert to"});
}

TEST(ConvertCliTest, RefusesWithAReason) {
  const TemporaryFolder folder;
  const std::string in = training_checkpoint("deit_legacy.pth").string();
  const std::string out = folder.write("a.safetensors", "precious").string();
  const auto expect = [&](const Words& more, int code, const std::vector<std::string>& texts) {
    expect_error(code, texts, Words{"convert"} + more);
  };
  expect({"--format-only", in, out}, 2, {"the file exists", "--force"});
  expect({"--format-only", in, out, "--force --sizes 32"}, 2, {"--sizes", "learns nothing"});
  expect({in, out, "--force --mosaics 0.5"}, 2, {"--mosaics", "learns nothing"});
  EXPECT_EQ(read_bytes(out), "precious");
  expect({"--format-only", in}, 2, {"expected a checkpoint and the file to write"});
  expect({"--format-only", in, "b.pth"}, 2, {"safetensors", "b.safetensors"});
  expect({"--format-only /nonexistent", out, "--force"}, 1, {"/nonexistent"});
  expect({"--format-only", in, out, "--force --use-ema"}, 2, {"averaged"});
  expect({"--format-only --from", in, "-o", out, "--force"}, 0, {"wrote"});
  expect({"--format-only --use-ema", out, out, "--force"}, 2, {"one set of weights"});
  expect({"--format-only", out, out, "--force"}, 2, {"input of this run"});
}

TEST(InspectCliTest, ShowsTorchFilesAndOtherLayouts) {
  const fs::path file = training_checkpoint("timm_training.pth");
  const Json json = run({"inspect", file, "--format json"}).json();
  EXPECT_EQ(json.at("format"), "torch_zip");
  EXPECT_EQ(json.at("arch"), "vit");
  EXPECT_EQ(json.at("attention"), "softmax");
  EXPECT_EQ(json.at("layout"), "timm");
  EXPECT_EQ(json.at("entry"), "state_dict");
  EXPECT_EQ(json.at("metadata").at("args.lr"), "0.001");
  EXPECT_EQ(json.at("tensors").at(0).at("name"), "module.cls_token");
  EXPECT_EQ(json.at("tensors").at(0).at("dtype"), "F16");
  EXPECT_EQ(json.at("tensors").at(0).at("bytes"), 128);
  EXPECT_EQ(
      run({"inspect", training_checkpoint("deit_legacy.pth"), "--format json"}).json().at("format"),
      "torch_legacy");
  expect_text(run({"inspect", file, "--use-ema"}).out,
              {"format torch_zip", "names of timm", "'state_dict_ema'", "stripped 'module.'"});

  const TemporaryFolder folder;
  const fs::path timm = folder.path() / "a.safetensors";
  ASSERT_EQ(convert(training_checkpoint("deit_legacy.pth"), timm).code, 0);
  const TemporaryFolder hub;
  make_hugging_face_folder(timm, hub, Names::hugging_face_4);
  expect_text(run({"inspect", hub.path()}).out,
              {"vit.encoder.layer.0.attention.attention.query.weight\tF16\t64x64\t8192",
               "names of Hugging Face 4", "architecture vit, attention softmax"});
  hub.write("config.json", R"({"model_type": "swin"})");
  const Outcome other = run_well({"inspect", hub.path()});
  expect_text(other.out, {"no vision transformer: model_type 'swin'", "config.json"});
}

TEST(ConfigurationBesideCliTest, TheTransformSaysWhereEveryValueComesFrom) {
  const TemporaryFolder folder;
  fs::copy(training_checkpoint("deit_legacy.pth"), folder.path() / "a.pth");
  const fs::path model = folder.path() / "a.pth";
  folder.write("config.json", R"({"architecture": "vit", "model_args": {"num_heads": 1}})");
  expect_text(transform_of(model), {"[from the defaults]"});
  folder.write("config.json", R"({"architecture": "vit", "pretrained_cfg": {
      "input_size": [3, 32, 32], "crop_pct": 0.5, "crop_mode": "center", "interpolation": "bilinear",
      "mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6]}, "model_args": {"num_heads": 1}})");
  const std::string beside = transform_of(model);
  expect_text(beside,
              {"resize 64 (bilinear, antialias) -> centre crop 32x32 -> mean (0.1, 0.2, 0.3)",
               "[from config.json]"});
  expect_text(transform_of(model, {"--crop-pct 1"}), {"resize 32", "crop_pct from --crop-pct",
                                                      "interpolation, mean, std from config.json"});

  // Metadata of our own file win over a configuration that says something else.
  const fs::path own = folder.path() / "own" / "a.safetensors";
  ASSERT_EQ(convert(model, own).code, 0);
  std::ofstream(own.parent_path() / "config.json")
      << R"({"architecture": "x", "pretrained_cfg": {"crop_pct": 0.25}})";
  expect_text(transform_of(own), {"resize 64 (bilinear", "[from metadata of a.safetensors]"});
  // --config is a flag written down.
  const std::string options = folder.write("o.json", R"({"crop-pct": 0.8})").string();
  expect_text(transform_of(own, {"--config", options}),
              {"resize 40", "crop_pct from o.json", "from metadata of a.safetensors"});
  expect_text(transform_of(own, {"--config", options, "--crop-pct 1"}),
              {"resize 32", "crop_pct from --crop-pct"});
}

TEST(ConfigurationBesideCliTest, WrongFilesAreErrorsThatNameThem) {
  const TemporaryFolder folder;
  fs::copy(training_checkpoint("deit_legacy.pth"), folder.path() / "pytorch_model.bin");
  const auto expect = [&](const char* config, int code, const std::vector<std::string>& texts) {
    folder.write("config.json", config);
    expect_error(code, texts, {"classify -m", folder.path(), "--print-transform"});
  };
  expect(R"({"model_type": "swin"})", 1, {"swin", "config.json"});
  expect(R"({"model_type": "vit", "hidden_size": "64"})", 2, {"hidden_size", "config.json"});
  expect(R"({"model_type": "vit", "hidden_size": 768})", 2, {"hidden_size says 768", "show 64"});
  expect(R"({"architecture": "vit_relpos_medium_patch16_rpn_224"})", 1,
         {"post-norm blocks", "config.json"});
  expect(R"({"architecture": "mine"})", 1,
         {"'mine' is not known", "--model NAME --checkpoint FILE"});
  expect("{", 1, {"config.json", "JSON"});
  fs::remove(folder.path() / "config.json");
  fs::create_symlink("/gone/config.json", folder.path() / "config.json");
  expect_error(1, {"link to a file that does not exist", "config.json"},
               {"classify -m", folder.path(), "--print-transform"});
}

TEST(ConfigurationBesideCliTest, WhatNothingSaysOfPicturesIsNamed) {
  const TemporaryFolder folder;
  fs::copy(training_checkpoint("deit_legacy.pth"), folder.path() / "a.pth");
  const fs::path bare = folder.path() / "a.pth";
  folder.write("config.json", R"({"architecture": "vit", "model_args": {"num_heads": 1}})");
  const char* note = "nothing says how its pictures are prepared";
  expect_text(classify(bare, {}).err,
              {note, "mean, std, crop_pct, interpolation", "--mean, --std, --crop-pct, --inter"});
  const std::string some = classify(bare, {"--mean 0.5 0.5 0.5 --std 0.5 0.5 0.5"}).err;
  expect_text(some, {note, "(crop_pct, interpolation)"});
  folder.write("config.json", R"({"architecture": "vit", "model_args": {"num_heads": 1},
      "pretrained_cfg": {"crop_pct": 0.9, "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5], "interpolation": "bicubic"}})");
  EXPECT_EQ(classify(bare, {}).err.find(note), std::string::npos);
}

TEST(HeadCliTest, ANewClassifierIsAskedFor) {
  const TemporaryFolder folder;
  const fs::path whole = folder.path() / "whole.safetensors";
  ASSERT_EQ(convert(training_checkpoint("deit_legacy.pth"), whole).code, 0);
  const Answer resized = classify(whole, {"--num-classes 3"});
  expect_text(resized.err, {"newly initialised, not from the file: head.weight, head.bias"});
  EXPECT_EQ(resized.top.size(), 3U);
  EXPECT_EQ(resized.logits, classify(whole, {"--num-classes 3"}).logits) << "seeded";
  EXPECT_EQ(classify(whole, {"--num-classes 5"}).logits, classify(whole).logits);
  EXPECT_NE(classify(whole, {"--reset-head"}).logits, classify(whole).logits);

  const SafetensorsFile file = SafetensorsFile::open(whole);
  std::vector<TensorView> views = file.tensors();
  std::erase_if(views, [](const TensorView& view) { return view.name.starts_with("head."); });
  const fs::path headless = folder.path() / "headless.safetensors";
  checkpoint::write_safetensors(headless, views, file.metadata());
  const Outcome outcome = run({"classify -m", headless, "--print-transform"});
  EXPECT_EQ(outcome.code, 1);
  expect_text(outcome.err, {"head.weight is missing", "hydrascope train"});
  EXPECT_EQ(outcome.err.find("--reset-head"), std::string::npos) << "which would answer at random";
  const Outcome written = run({"convert", headless, folder.path() / "o.safetensors"});
  EXPECT_EQ(written.code, 1);
  expect_text(written.err, {"head.weight is missing", "--num-classes", "--reset-head"});
  EXPECT_EQ(classify(headless, {"--num-classes 4"}).top.size(), 3U);
}

}  // namespace
}  // namespace hydrascope::testing
