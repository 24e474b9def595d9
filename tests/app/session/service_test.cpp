// A model that is asked from several threads, against the commands that answer the same questions.
#include "app/session/service.h"

#include "app/command.h"
#include "app/results/classify_record.h"
#include "model/checkpoint/checkpoint.h"
#include "tests/app/cli/program.h"
#include "tests/error_matchers.h"
#include "tests/model/small_vit.h"
#include "tests/picture_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <span>
#include <thread>

namespace hydrascope::app {
namespace service_test {

using hydrascope::testing::asset;
using hydrascope::testing::Npy;
using hydrascope::testing::ppm;
using hydrascope::testing::read_bytes;
using hydrascope::testing::run_well;
using hydrascope::testing::TemporaryFolder;
using hydrascope::testing::Words;

constexpr char kRun[] = "--device cpu --precision float32 --set deterministic=on --threads 2";

ServiceRequest request_of(const Words& words, bool wants_maps = false) {
  ServiceRequest request = service_request(
      parse(wants_maps ? visualize_spec() : classify_spec(), Words{kRun} + words), wants_maps);
  request.console = Console{.quiet = true, .progress = false};
  return request;
}

PictureInMemory in_memory(const std::string& bytes) {
  const auto kept = std::make_shared<const std::string>(bytes);
  return {.encoded = std::as_bytes(std::span(*kept)), .owner = kept};
}

Question about(const std::string& bytes, const std::string& name = "picture") {
  return {.name = name, .picture = in_memory(bytes)};
}

/// Without what depends on the clock.
OrderedJson timeless(OrderedJson record) {
  record.erase("seconds");
  return record;
}

OrderedJson command_record(const Words& words) {
  return timeless(OrderedJson::parse(run_well(words).out));
}

TEST(ServiceTest, WhatTheConsoleIsToldStandsInTheRecords) {
  Service service(request_of({"--native --attn hydra"}));
  const std::string of_attention =
      "attention changed from softmax to hydra after training: accuracy needs `hydrascope convert`";
  const std::string of_size =
      "deit_tiny_patch16_224.softmax was trained at 224x224 (HxW); answers at 576x576 are less "
      "accurate; deit_tiny_patch16_224.window is made for large pictures";
  EXPECT_THAT(service.notes(), ::testing::ElementsAre(of_attention));
  const auto asked = [&](std::int64_t edge) {
    const std::vector<std::uint8_t> rgb(static_cast<std::size_t>(3 * edge * edge), 100);
    PictureInMemory picture;
    picture.pixels = {rgb.data(), edge, edge, 3 * edge};
    return service.ask({.name = "grey", .picture = picture}).get().record;
  };
  EXPECT_THAT(asked(224).notes, ::testing::ElementsAre(of_attention));
  for (int i = 0; i < 2; ++i) {
    const ClassifyRecord record = asked(576);
    EXPECT_THAT(record.notes, ::testing::ElementsAre(of_attention, of_size));
    EXPECT_EQ(to_json(record).at("notes"), OrderedJson({of_attention, of_size}));
  }
  EXPECT_THAT(service.notes(), ::testing::ElementsAre(of_attention, of_size)) << "each once";
  EXPECT_FALSE(to_json(ClassifyRecord()).contains("notes"));
}

TEST(ServiceTest, SaysWhatClassifyWrites) {
  const std::string file = asset("images/otter-head.jpg").string();
  const TemporaryFolder folder;
  const auto logits = folder.path() / "logits.npy";
  const OrderedJson written =
      command_record(Words{"classify --format jsonl --set progress=off", kRun} +
                     Words{"--save-logits", logits, file});
  Service service(request_of({}));
  const Answer of_file = service.ask({.name = file, .file = file}).get();
  const Answer of_bytes = service.ask(about(read_bytes(file), file)).get();
  const image::Picture decoded = image::read_picture(file, {});
  std::vector<std::uint8_t> with_gaps;  // 5 bytes after each row, and the last row first
  for (int y = decoded.height - 1; y >= 0; --y) {
    const auto row = decoded.rgb.begin() + std::ptrdiff_t{3} * y * decoded.width;
    with_gaps.insert(with_gaps.end(), row, row + std::ptrdiff_t{3} * decoded.width);
    with_gaps.resize(with_gaps.size() + 5);
  }
  PictureInMemory pixels;
  const std::ptrdiff_t stride = std::ptrdiff_t{3} * decoded.width + 5;
  pixels.pixels = {with_gaps.data() + (decoded.height - 1) * stride, decoded.height, decoded.width,
                   -stride};
  const Answer of_pixels = service.ask({.name = file, .picture = pixels}).get();
  for (const Answer* answer : {&of_file, &of_bytes, &of_pixels}) {
    EXPECT_EQ(timeless(to_json(answer->record)), written);
    EXPECT_EQ(answer->logits, Npy(logits).values) << "the same bits";
  }
}

TEST(ServiceTest, SaysWhatVisualizeWrites) {
  const TemporaryFolder folder;
  const std::string file = folder.write("p.ppm", ppm(300, 200)).string();
  const std::string out = (folder.path() / "maps").string();
  run_well(Words{"visualize --format jsonl --set progress=off --save-raw --topk 2", kRun} +
           Words{"--layer 10,11 --head mean,2 --method hydra", "-o", out, file});
  Service service(request_of(Words{"--layer 10,11 --head mean,2 --method hydra"}, true));
  Question question = about(read_bytes(file), file);
  question.maps = MapQuestion{.topk = 2};
  const Answer answer = service.ask(question).get();
  ASSERT_FALSE(answer.record.error) << answer.record.message;
  ASSERT_EQ(answer.maps.size(), 8U);
  // One map at a time is an .npy file.
  for (const InputMap& map : answer.maps) {
    const std::string one = out + std::to_string(&map - answer.maps.data());
    run_well(Words{"visualize --format jsonl --set progress=off --save-raw --method hydra", kRun} +
             Words{"--layer", std::to_string(map.choice.layer), "--head", to_text(map.choice.head),
                   "--class", std::to_string(map.of_class.index), "-o", one, file});
    const Npy raw(one + "/p.map.npy");
    EXPECT_EQ(raw.shape, (std::vector<std::int64_t>{map.map.rows, map.map.columns}));
    ASSERT_EQ(raw.values.size(), map.map.values.size());
    for (std::size_t i = 0; i < raw.values.size(); ++i)
      EXPECT_NEAR(raw.values[i], map.map.values[i], 1e-6 + 1e-5 * std::abs(raw.values[i]));
    if (&map == answer.maps.data() + 1) break;  // two are enough: each is a run of the program
  }
}

TEST(ServiceTest, APartOfTheMapsCanBeAskedFor) {
  Service service(request_of(Words{"--layer 10,11"}, true));
  Question question = about(ppm(64, 64));
  question.maps = MapQuestion{.classes = {"otter", "3"}};
  question.maps->words.layers = {"11"};
  const Answer answer = service.ask(question).get();
  ASSERT_EQ(answer.maps.size(), 2U);
  const OrderedJson record = to_json(record_of(answer.record, answer.maps.front()));
  EXPECT_EQ(record["class"]["label"], "otter");
  EXPECT_FALSE(record.contains("files"));
  question.maps->words.layers = {"5"};
  EXPECT_ERROR(service.ask(question), invalid_argument, "opened for other maps");
  question.maps = MapQuestion{.classes = {"ottter"}};
  EXPECT_ERROR(service.ask(question), invalid_argument, "otter");
  Service without(request_of({}));
  EXPECT_ERROR(without.ask(question), invalid_argument, "without maps");
}

TEST(ServiceTest, EveryAskerGetsTheAnswerToItsOwnQuestion) {
  ServiceRequest request = request_of(Words{"--set max-pixels=200000 --set max-bytes=800000"});
  request.most_waiting = 8;
  Service service(std::move(request));
  std::vector<std::string> pictures;
  std::vector<Answer> alone;
  for (unsigned i = 0; i < 5; ++i) {
    pictures.push_back(ppm(60 + 40 * static_cast<int>(i), 90, i));
    alone.push_back(service.ask(about(pictures.back())).get());
    ASSERT_FALSE(alone.back().record.error) << alone.back().record.message;
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> askers;
  for (int asker = 0; asker < 6; ++asker) {
    askers.emplace_back([&, asker] {
      for (int turn = 0; turn < 20; ++turn) {
        const auto kind = static_cast<std::size_t>(asker + turn) % 8;
        const std::string name = std::to_string(asker) + "-" + std::to_string(turn);
        Question question = about(kind < 5    ? pictures[kind]
                                  : kind == 5 ? std::string("no picture")
                                  : kind == 6 ? ppm(800, 300)
                                              : std::string(900'000, 'x'),
                                  name);
        const Answer answer = service.ask(std::move(question)).get();
        bool right = answer.record.input == name;
        if (kind < 5) {
          right = right && !answer.record.error;
          for (std::size_t i = 0; right && i < answer.logits.size(); ++i)
            right = std::abs(answer.logits[i] - alone[kind].logits[i]) < 1e-3;
        } else {
          right = right && answer.record.error ==
                               (kind == 5 ? ErrorCode::unsupported_format : ErrorCode::too_large);
        }
        if (!right) ++wrong;
      }
    });
  }
  for (std::thread& asker : askers) asker.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(service.unanswered(), 0);
}

TEST(ServiceTest, AnswersWhatWasAskedBeforeItCloses) {
  std::atomic<int> answered = 0;
  {
    ServiceRequest request = request_of({});
    request.most_waiting = 6;
    Service service(std::move(request));
    for (unsigned i = 0; i < 10; ++i) {
      service.ask(about(ppm(80, 60, i)), [&](const Answer& answer) {
        if (!answer.record.error) ++answered;
      });
      EXPECT_LE(service.unanswered(), 6) << "only six may wait";
    }
  }
  EXPECT_EQ(answered, 10);
}

TEST(ServiceTest, RefusesWhatIsLateAndWhatIsNoPicture) {
  Service service(request_of({}));
  Question late = about(ppm(40, 40));
  late.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  EXPECT_EQ(service.ask(late).get().record.error, ErrorCode::failed);
  EXPECT_EQ(service.ask(about("")).get().record.error, ErrorCode::empty);
  EXPECT_EQ(service.ask({.name = "x", .file = "/nonexistent.jpg"}).get().record.error,
            ErrorCode::not_found);
  EXPECT_EQ(service.ask({.name = "x", .file = "/tmp"}).get().record.error, ErrorCode::unreadable);
  const TemporaryFolder folder;
  EXPECT_EQ(service.ask({.name = "x", .file = folder.write("x.mp4", "?")}).get().record.error,
            ErrorCode::unsupported_format);
  Question without_pixels{.name = "x", .picture = PictureInMemory()};
  const std::uint8_t one = 0;
  without_pixels.picture->pixels = {&one, 0, 4, 12};
  EXPECT_ERROR(service.ask(without_pixels), invalid_argument, "expected pixels with a height");
  EXPECT_ERROR(Service(request_of(Words{"--attn hydrra"})), invalid_argument, "hydrra");
}

TEST(ServiceTest, WhatNobodyWaitsForIsNotComputed) {
  ServiceRequest request = request_of(Words{"--layer all"}, true);
  std::atomic<int> batches = 0;
  request.batch_done = [&](std::int64_t, double) { ++batches; };
  Service service(std::move(request));
  std::atomic<int> times = 0;
  Question question = about(ppm(64, 64));
  question.maps = MapQuestion{.topk = 3};
  question.given_up = [&] {
    ++times;
    return false;
  };
  ASSERT_EQ(service.ask(question).get().maps.size(), 36U);
  const int steps = times;
  EXPECT_GE(steps, 2 + 12 * 3) << "before decoding, before the batch, before each class of a layer";
  for (const int last : {0, 1, 2, 3, 20, steps - 1}) {
    times = 0;
    batches = 0;
    question.given_up = [&] { return times++ >= last; };
    const Answer answer = service.ask(question).get();
    EXPECT_EQ(answer.record.error, ErrorCode::failed) << last;
    EXPECT_THAT(answer.record.message, ::testing::HasSubstr("nobody waits"));
    EXPECT_TRUE(answer.maps.empty());
    EXPECT_EQ(times, last + 1) << "nothing is begun after that";
    EXPECT_EQ(batches, last < 2 ? 0 : 1);
  }
}

TEST(ServiceTest, LayersOfTheWorkAtHandAreTold) {
  Service service(request_of(Words{"--layer all"}, true));
  std::vector<std::pair<int, int>> told;
  Question question = about(ppm(64, 64));
  question.maps = MapQuestion{};
  question.given_up = [&] {
    const LayersDone layers = service.layers_done();
    if (told.empty() || told.back() != std::pair(layers.done, layers.all))
      told.emplace_back(layers.done, layers.all);
    return false;
  };
  ASSERT_EQ(service.ask(question).get().maps.size(), 12U);
  // Before the batch, behind it, and in the maps, which have a step more than layers.
  std::vector<std::pair<int, int>> wanted{{0, 0}, {12, 12}};
  for (int done = 0; done < 12; ++done) wanted.emplace_back(done, 12);
  EXPECT_EQ(told, wanted);
  EXPECT_EQ(service.layers_done().all, 0) << "there is none";
}

TEST(ServiceTest, OtherMethodsCanBeAskedForByName) {
  ServiceRequest request = request_of(Words{"--layer all"}, true);
  request.all_methods = true;
  Service service(std::move(request));
  Question question = about(ppm(64, 64));
  question.maps = MapQuestion{};
  const Answer usual = service.ask(question).get();
  ASSERT_EQ(usual.maps.size(), 12U) << "of the method that the service was opened for";
  MapWords& words = question.maps->words;
  words.methods = {"gradcam"};
  words.layers = {"3"};
  const Answer other = service.ask(question).get();
  ASSERT_EQ(other.maps.size(), 1U);
  EXPECT_EQ(other.maps[0].choice.method, model::explain::Method::gradcam);
  words.methods = {"attention"};
  words.heads = {"1"};
  EXPECT_ERROR(service.ask(question), invalid_argument, "opened for other maps");
}

TEST(ServiceTest, MapsOfAQuestionAreLimited) {
  ServiceRequest request = request_of(Words{"--layer 10,11"}, true);
  request.most_maps = 4;
  Service service(std::move(request));
  Question question = about(ppm(64, 64));
  question.maps = MapQuestion{.topk = 2};
  EXPECT_EQ(service.ask(question).get().maps.size(), 4U);
  question.maps->topk = 3;
  EXPECT_ERROR(service.ask(question), invalid_argument, "at most 4 maps of a picture, found 6");
}

TEST(ServiceTest, AnEmbeddingIsWhatTheHeadIsGiven) {
  ServiceRequest request = request_of({});
  request.embeds = true;
  Service service(std::move(request));
  Question question = about(ppm(64, 64));
  question.embeds = true;
  const Answer answer = service.ask(question).get();
  ASSERT_FALSE(answer.record.error) << answer.record.message;
  ASSERT_EQ(std::ssize(answer.embedding), service.config().embed_dim);
  // Logits are linear in it: another picture's embedding with other logits, and no NaN.
  for (const float value : answer.embedding) EXPECT_TRUE(std::isfinite(value));
  const Answer other = [&] {
    Question of_another = about(ppm(64, 64, 9));
    of_another.embeds = true;
    return service.ask(of_another).get();
  }();
  EXPECT_NE(other.embedding, answer.embedding);
  Service without(request_of({}));
  EXPECT_ERROR(without.ask(question), invalid_argument, "without embeddings");
}

TEST(ServiceTest, AModelWithoutAClassifierIsAskedForEmbeddingsAlone) {
  const TemporaryFolder folder;
  model::VitConfig config = hydrascope::testing::small_vit({.classes = 0}, "softmax");
  const auto file = folder.path() / "tower.safetensors";
  checkpoint::save_checkpoint(file, *hydrascope::testing::random_vit(config, 3, 0.2),
                              checkpoint::Dtype::F32, {});
  ServiceRequest request = request_of(Words{"-m", file}, true);
  request.embeds = true;
  Service service(std::move(request));
  EXPECT_TRUE(service.maps().empty());
  Question question = about(ppm(64, 64));
  EXPECT_ERROR(service.ask(question), invalid_argument, "has no classifier");
  question.embeds = true;
  EXPECT_EQ(std::ssize(service.ask(question).get().embedding), config.embed_dim);
}

}  // namespace service_test
}  // namespace hydrascope::app
