// `hydrascope train` as a user runs it: a tiny architecture on pictures that the test draws.
#include "model/checkpoint/formats/safetensors.h"
#include "tests/app/cli/program.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace hydrascope::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// Two classes that one look tells apart: dark and light pictures, with a folder to validate on.
class TrainCli : public ::testing::Test {
 protected:
  TrainCli() {
    for (const char* split : {"train", "val"}) {
      for (int i = 0; i < 8; ++i) {
        write_grey(folder_.path() / split / "dark" / (std::to_string(i) + ".ppm"), 20 + 5 * i);
        write_grey(folder_.path() / split / "light" / (std::to_string(i) + ".ppm"), 190 + 5 * i);
      }
    }
  }

  static void write_grey(const fs::path& file, int value) {
    fs::create_directories(file.parent_path());
    std::ofstream stream(file, std::ios::binary);
    constexpr int kSide = 16;
    stream << "P6\n" << kSide << ' ' << kSide << "\n255\n";
    for (int i = 0; i < kSide * kSide * 3; ++i) stream.put(static_cast<char>(value + (i % 7)));
  }

  /// Five tokens of DeiT-Tiny's width.
  Words command(const std::string& output, const Words& more) const {
    return Words{"train", folder_.path(), "-m deit_tiny_patch8_16 -o", folder_.path() / output,
                 "-b 8 --lr 1e-4 --threads 1 --workers 1 --warmup-epochs 0 --log-interval 1 "
                 "--device cpu"} +
           more;
  }
  fs::path in(const std::string& name) const { return folder_.path() / name; }
  /// A run's log after each epoch, which holds no times.
  std::vector<std::string> epochs_of(const std::string& run) const {
    std::istringstream lines(read_bytes(in(run) / "metrics.jsonl"));
    std::vector<std::string> epochs;
    for (std::string line; std::getline(lines, line);)
      if (line.find("\"train_loss\"") != std::string::npos) epochs.push_back(line);
    EXPECT_EQ(epochs.size(), 6U) << run;
    return epochs;
  }

  TemporaryFolder folder_;
};

TEST_F(TrainCli, LearnsTwoClassesAndLeavesAWholeModel) {
  const nlohmann::json report =
      run_well(command("out", {"--epochs 4 --attn hydra:last1 --format json"})).json();
  EXPECT_EQ(report["steps"], 8);
  EXPECT_EQ(report["attention"], "softmax:0-10,hydra:11");
  EXPECT_EQ(report["best_top1"], 100.0);
  for (const char* file : {"best.safetensors", "last.safetensors", "step-8.safetensors",
                           "step-8.state.safetensors", "metrics.jsonl"})
    EXPECT_TRUE(fs::exists(in("out") / file)) << file;
  // The file knows its classes and its transform.
  const Outcome judged =
      run_well({"evaluate", in("val"), "-m", in("out") / "best.safetensors", "--format json"});
  EXPECT_EQ(judged.json()["top1"], 100.0);
  const Outcome classified = run({"classify", in("val") / "light" / "0.ppm", "-m",
                                  in("out") / "best.safetensors", "--format jsonl"});
  EXPECT_EQ(classified.records().at(0)["top"][0]["label"], "light");
}

TEST_F(TrainCli, AnInterruptedRunEndsAsAnUninterruptedOne) {
  const Words options{
      "--epochs 6 --drop-path 0.1 --mixup 0.8 --cutmix 1 --aa rand-m9-mstd0.5-inc1 --model-ema "
      "--model-ema-warmup --clip-grad 1"};
  run_well(command("whole", options));
  {
    Program program(command("parts", options), {});
    Program::wait_for(in("parts") / "best.safetensors");
    program.signal(SIGINT);
    ASSERT_EQ(program.wait().code, 130);
  }
  ASSERT_FALSE(fs::exists(in("parts") / "step-12.safetensors")) << "it was over too soon";
  Words again = options + Words{"--resume auto"};
  const Outcome resumed = run_well(command("parts", again));
  EXPECT_THAT(resumed.err, HasSubstr("resumed at step "));
  for (const char* file : {"step-12.safetensors", "best.safetensors"})
    EXPECT_TRUE(read_bytes(in("whole") / file) == read_bytes(in("parts") / file)) << file;
  EXPECT_EQ(epochs_of("whole"), epochs_of("parts"));
}

// One batch of an epoch is of one size; those of larger ones show fewer pictures.
TEST_F(TrainCli, LearnsSizesAndResumesThem) {
  const std::string scenes =
      folder_.write("scenes.txt", (in("train/dark/0.ppm").string() + "\n")).string();
  const Words options{"--epochs 6 --sizes 16,24,32x48 --scenes", "@" + scenes, "--format json"};
  const Outcome whole = run_well(command("whole", options));
  EXPECT_THAT(whole.err, HasSubstr("8 pictures each at most"));
  EXPECT_EQ(whole.json()["steps"], 12);
  const nlohmann::json report = whole.json();
  const double images = report["images_per_second"].get<double>() * report["seconds"].get<double>();
  EXPECT_LT(images, 0.9 * 12 * 8) << "pictures of the batches that none were shown of";
  const Outcome plain = run_well(command("plain", {"--epochs 6"}));
  const auto losses = [&](const char* folder) {
    std::istringstream lines(read_bytes(in(folder) / "metrics.jsonl"));
    std::vector<double> values;
    for (std::string line; std::getline(lines, line);)
      if (const auto record = nlohmann::json::parse(line); record.contains("loss"))
        values.push_back(record["loss"]);
    return values;
  };
  ASSERT_EQ(losses("whole").size(), 12U);
  EXPECT_NE(losses("whole"), losses("plain"));

  Words first = options + Words{"--max-minutes 0.00001"};
  run_well(command("parts", first));
  ASSERT_FALSE(fs::exists(in("parts") / "step-12.safetensors")) << "it was over too soon";
  Words again = options + Words{"--resume auto"};
  const Outcome resumed = run_well(command("parts", again));
  EXPECT_THAT(resumed.err, HasSubstr("resumed at step 1 of 12"));
  for (const char* file : {"step-12.safetensors", "best.safetensors"})
    EXPECT_TRUE(read_bytes(in("whole") / file) == read_bytes(in("parts") / file)) << file;
  EXPECT_EQ(epochs_of("whole"), epochs_of("parts"));
  // Other scenes, another run.
  folder_.write("scenes.txt", (in("train/light/1.ppm").string() + "\n"));
  expect_error(2, {"other settings: scenes"}, command("parts", again));
}

TEST_F(TrainCli, LearnsSizesFromATeacher) {
  const std::string teacher = in("teacher.safetensors").string();
  run_well({"models create --arch deit_tiny_patch8_16 --num-classes 2 -o", teacher});
  run_well(command("out",
                   {"--epochs 2 --sizes 16,32 --mosaics 0.5 --teacher", teacher, "--format json"}));
  EXPECT_THAT(read_bytes(in("out") / "metrics.jsonl"), HasSubstr("teacher_agreement"));
}

TEST_F(TrainCli, RefusesSizesThatCannotBeLearned) {
  const auto expect = [&](const Words& more, const std::vector<std::string>& texts) {
    expect_error(2, texts, command("out", more));
  };
  expect({"--sizes 20"}, {"--sizes 20x20", "multiples of the patch, 8 pixels"});
  expect({"--sizes 0x8"}, {"--sizes", "0x8"});
  expect({"--scenes", in("train")}, {"--scenes", "--sizes"});
  expect({"--mosaics 0.5"}, {"--mosaics", "--sizes"});
  expect({"--sizes 16,16x32 --mosaics 0.5"}, {"--mosaics", "above 16x16 (HxW)"});
  expect({"--sizes 32 --scenes", in("missing")}, {"missing"});
  expect({"--sizes 8,16,16x32 --scenes", in("train")}, {"--scenes", "above 16x16 (HxW)"});
  for (const char* name : {"mixup", "cutmix", "vflip", "color-jitter", "reprob"})
    expect({"--sizes 32", "--" + std::string(name), "0.5"}, {name, "does not go with --sizes"});
  expect({"--sizes 32 --aa rand-m9"}, {"--aa", "does not go with --sizes"});
  expect({"--sizes 16,32 --attn linformer"}, {"made for 5 tokens", "linformer"});
  EXPECT_FALSE(fs::exists(in("out") / "last.safetensors"));
}

TEST_F(TrainCli, ForceLeavesNothingOfTheRunBefore) {
  run_well(command("out", {"--epochs 4"}));
  expect_error(2, {"--force begins anew"}, command("out", {"--epochs 2"}));
  run_well(command("out", {"--epochs 2 --force"}));
  EXPECT_TRUE(fs::exists(in("out") / "step-4.state.safetensors"));
  EXPECT_FALSE(fs::exists(in("out") / "step-8.state.safetensors"));
}

TEST_F(TrainCli, OtherSettingsDoNotGoOnWithARun) {
  run_well(command("out", {"--epochs 2"}));
  expect_error(2, {"other settings: smoothing"},
               command("out", {"--epochs 4 --smoothing 0.2 --resume auto"}));
  // How a step is computed is no setting of what is learned.
  const Outcome longer =
      run_well(command("out", {"--epochs 4 --grad-checkpointing --resume auto"}));
  EXPECT_THAT(longer.err, HasSubstr("resumed at step 4 of 8"));
}

TEST_F(TrainCli, FineTunesANewHeadAloneWithATeacher) {
  const Outcome outcome = run_well(
      {"train", in("train"), "--held-out 4 --reset-head --train-only head.* --epochs 1 -b 4 -o",
       in("tuned"), "--img-size 32 --lr 1e-3 --warmup-epochs 0 --format json"});
  EXPECT_THAT(outcome.err, HasSubstr("11 pictures of 2 classes, validated on 5"));
  const Outcome inspected = run({"inspect", in("tuned") / "best.safetensors", "--format json"});
  EXPECT_THAT(inspected.json()["metadata"]["training"].get<std::string>(), HasSubstr("train-only"));
  EXPECT_EQ(inspected.json()["metadata"]["license"], "apache-2.0");
  // All but the head is the parent's, in whose format it is written again.
  const fs::path half = in("half.safetensors");
  run_well({"convert --save-dtype float16", in("tuned") / "best.safetensors", half});
  const auto tuned = checkpoint::SafetensorsFile::open(half);
  const auto parent =
      checkpoint::SafetensorsFile::open(asset("models/deit_tiny_patch16_224.softmax.safetensors"));
  for (const char* name : {"blocks.0.attn.qkv.weight", "blocks.11.mlp.fc2.bias", "norm.weight"})
    EXPECT_TRUE(std::ranges::equal(tuned.find(name)->data, parent.find(name)->data)) << name;
  const Outcome taught = run_well(command(
      "taught", {"--epochs 1 --teacher", in("tuned") / "best.safetensors", "--img-size 16"}));
  EXPECT_THAT(read_bytes(in("taught") / "metrics.jsonl"), HasSubstr("teacher_agreement"));
  // Another file in the teacher's place is another teacher.
  fs::copy_file(in("tuned") / "last.safetensors", in("elsewhere.safetensors"));
  run_well({"convert --format-only --precision float16", in("elsewhere.safetensors"),
            in("tuned") / "best.safetensors", "--force"});
  expect_error(2, {"other settings: teacher"},
               command("taught", {"--epochs 2 --teacher", in("tuned") / "best.safetensors",
                                  "--img-size 16 --resume auto"}));
}

TEST_F(TrainCli, NamesPicturesOfTheValidationThatCannotBeRead) {
  const fs::path validation = in("val");
  ASSERT_TRUE(fs::is_directory(validation));
  const fs::path broken = fs::directory_iterator(validation)->path() / "broken.ppm";
  std::ofstream(broken) << "P6 no picture";
  const Outcome outcome = run(command("out", {"--epochs 2 --format json"}));
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  const std::size_t first = outcome.err.find("broken.ppm");
  ASSERT_NE(first, std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("broken.ppm", first + 1), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.json()["unreadable_pictures"], 1);
}

TEST_F(TrainCli, TheFirstPictureThatFailsEndsAStrictRun) {
  // More than a batch: none of an epoch's two goes without.
  for (int i = 0; i < 8; ++i) fs::remove(in("train") / "dark" / (std::to_string(i) + ".ppm"));
  for (int i = 0; i < 9; ++i)
    folder_.write("train/dark/broken" + std::to_string(i) + ".ppm", "P6 no picture");
  const Outcome outcome = run(command("out", {"--epochs 2 --on-error fail"}));
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_THAT(outcome.err, ::testing::ContainsRegex("dark/broken[0-8]\\.ppm"));
}

TEST_F(TrainCli, FoldersAsTheyCome) {
  // Names that contain each other, pictures in folders of folders, a class without any.
  fs::rename(in("train") / "dark", in("train") / "grey");
  fs::rename(in("train") / "light", in("train") / "grey, light");
  fs::create_directories(in("train") / "grey" / "more");
  write_grey(in("train") / "grey" / "more" / "a.ppm", 30);
  fs::create_directories(in("train") / "none");
  fs::remove_all(in("val"));
  const Outcome outcome = run_well(command("out", {"--epochs 1"}));
  EXPECT_THAT(outcome.err, HasSubstr("17 pictures of 3 classes"));
  EXPECT_THAT(outcome.err, HasSubstr("no pictures of none"));
}

TEST_F(TrainCli, ANewModelIsAsTheOptionsSay) {
  run_well(command("out", {"--epochs 1 --input-size 3 24 24"}));
  const auto shape_of = [&](const fs::path& file, const std::string& tensor) {
    const nlohmann::json inspected = run({"inspect", file, "--format json"}).json();
    for (const nlohmann::json& entry : inspected.at("tensors"))
      if (entry.at("name") == tensor) return entry.at("shape");
    return nlohmann::json();
  };
  EXPECT_EQ(shape_of(in("out") / "best.safetensors", "pos_embed"),
            nlohmann::json({1, 1 + 3 * 3, 192}));
  const std::string labels = folder_.write("labels.txt", "dark\nlight\nred\n").string();
  run_well(command("three", {"--epochs 1 --labels", labels}));
  EXPECT_EQ(shape_of(in("three") / "best.safetensors", "head.weight"), nlohmann::json({3, 192}));
  // The two heads of a distilled model without a teacher: their mean learns.
  Words distilled = command("distilled", {"--epochs 1"});
  *std::ranges::find(distilled, "deit_tiny_patch8_16") = "deit_tiny_distilled_patch8_16";
  run_well(distilled);
  expect_error(2, {"multiples of the patch"},
               {"train", in("train"), "--reset-head --img-size 100 -o", in("odd")});
}

TEST_F(TrainCli, ADumpedConfigurationIsReadBack) {
  Words words = command("out", {"--epochs 1 --dump-config"});
  words.erase(std::ranges::find(words, "--warmup-epochs"),
              std::ranges::find(words, "--warmup-epochs") + 2);
  const Outcome dumped = run_well(words);
  const std::string file = folder_.write("config.json", dumped.out).string();
  run_well({"train", folder_.path(), "-c", file});
}

TEST_F(TrainCli, AStateOfAnotherRunIsRefused) {
  run_well(command("one", {"--epochs 1"}));
  for (const auto& [file, text] :
       {std::pair("step-2.state.safetensors", "is no state of the run in"),
        std::pair("last.safetensors", "expected a state")}) {
    expect_error(2, {text}, command("two", {"--epochs 2 --resume", in("one") / file}));
  }
}

TEST_F(TrainCli, SaysWhatIsWrongInOneLine) {
  run_well(command("out", {"--epochs 1"}));
  expect_error(2, {"the folder holds a run"}, command("out", {"--epochs 1"}));
  run_well(command("out", {"--epochs 1 --force -q"}));
  {
    const LockOfAnother other(in("out"));
    expect_error(2, {"another run (process ", "is at work in this folder"},
                 command("out", {"--epochs 1 --force"}));
  }
  const Outcome flat = run({"train", in("train") / "dark", "-o", in("other")});
  EXPECT_EQ(flat.code, 2);
  EXPECT_THAT(flat.err, HasSubstr("expected a folder per class"));
  EXPECT_THAT(flat.err, ::testing::Not(HasSubstr("--labels-csv")));
  expect_error(2, {"there are 2 folders of classes", "--labels"},
               command("other", {"--num-classes 3"}));
  expect_error(2, {"there is no teacher"}, command("other", {"--distillation-alpha 0.3"}));
  expect_error(2, {"no such folder"}, {"train", in("nowhere")});
  expect_error(2, {"bloks.*"}, command("other", {"--freeze bloks.*"}));
  EXPECT_FALSE(fs::exists(in("other") / "last.safetensors"));
  expect_error(2, {"too few pictures would be left to learn from, of 16"},
               {"train", in("train"), "--held-out 15 --reset-head -o", in("other")});
}

TEST_F(TrainCli, IsJudgedByTheClassesThatItLearns) {
  fs::rename(in("val") / "dark", in("val") / "cat");
  fs::rename(in("val") / "light", in("val") / "dog");
  expect_error(2, {"no folder is named after a class of the model", in("val").string()},
               command("out", {"--epochs 1"}));
}

TEST_F(TrainCli, KeepsNoNamesOfClassesThatItDoesNotLearn) {
  run_well(command("out", {"--epochs 1"}));
  const std::string model = (in("out") / "best.safetensors").string();
  for (const char* split : {"train", "val"}) {
    fs::rename(in(split) / "dark", in(split) / "cat");
    fs::rename(in(split) / "light", in(split) / "dog");
  }
  expect_error(2, {"no folder is named after a class of the model", "--reset-head"},
               command("tuned", {"--epochs 1 -m", model}));
  run_well(command("tuned", {"--epochs 1 -m", model, "--reset-head"}));
  expect_error(2, {"no folder is named after a class of the model", "cat, dog", "--class-map"},
               {"evaluate", in("val"), "-m", model});
  const std::string map = folder_.write("map.txt", "cat\ndog\n").string();
  EXPECT_EQ(run_well({"evaluate", in("val"), "--class-map", map, "--format json -m", model})
                .json()
                .at("images"),
            16);
  for (const char* name : {"cat", "dog"})
    fs::rename(in("train") / name, in("train") / (name == std::string("cat") ? "0" : "7"));
  expect_error(2, {"from 0 to 1, found 7", "--reset-head"},
               {"train", in("train"), "-m", model, "-o", in("bundled"), "--epochs 1"});
  fs::rename(in("train/7"), in("train/1"));
  expect_error(2, {"no folder is named after a class", "--reset-head", "its lines, from 0"},
               {"train", in("train"), "-m", model, "-o", in("bundled"), "--epochs 1"});
  // As many classes as there are is no new classifier.
  expect_error(2, {"--reset-head"},
               {"train", in("train"), "--num-classes 1000 -o", in("bundled"), "--epochs 1"});
}

TEST_F(TrainCli, ReplacesNoModelOfSomebodyElse) {
  const std::string model = folder_.write("out/best.safetensors", "precious").string();
  for (const char* resume : {"", "auto"}) {
    Words more{"--epochs 1"};
    if (*resume != '\0') more += Words{"--resume", resume};
    expect_error(2, {"the folder holds a model"}, command("out", more));
  }
  EXPECT_EQ(read_bytes(model), "precious");
  run_well(command("out", {"--epochs 1 --force"}));
  expect_error(2, {"the model to start from lies in the run's folder"},
               command("out", {"--epochs 1 --force -m", model}));
}

TEST_F(TrainCli, AModelThatIsLostEndsTheRun) {
  const fs::path model = in("model.safetensors");
  run_well({"models create --arch deit_tiny_patch8_16 --num-classes 2 -o", model});
  folder_.write("model.safetensors", with_a_nan(read_bytes(model)));
  expect_error(2, {"no folder is named after a class of the model", "--labels FILE"},
               command("out", {"--epochs 3 -m", model}));
  const fs::path labels = folder_.write("labels.txt", "dark\nlight\n");
  const Outcome outcome = run(command("out", {"--epochs 3 -m", model, "--labels", labels}));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("after epoch 1, in which no gradient was finite"));
  EXPECT_EQ(outcome.out, "");
}

}  // namespace
}  // namespace hydrascope::testing
