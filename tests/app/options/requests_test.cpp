#include "app/options/requests.h"

#include "app/command.h"
#include "app/run/assets.h"
#include "app/specs/requests.h"
#include "tests/error_matchers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

namespace hydrascope::app {
namespace {

using ::testing::ElementsAre;
using Words = std::vector<std::string>;

ParsedOptions classify(const Words& words) { return parse(classify_spec(), words); }

TEST(RequestsTest, ModelAndRunHoldWhatIsAskedAndNothingElse) {
  const ModelRequest nothing = model_request(classify({}));
  EXPECT_EQ(nothing.word, "");
  EXPECT_FALSE(nothing.num_classes || nothing.pos_interp || nothing.overview);
  EXPECT_TRUE(nothing.rel_pos.empty() && nothing.rel_pos_options.empty() && !nothing.pos_embed);
  const ModelRequest model = model_request(classify(
      {"-m", "a", "--attn", "hydra", "--set", "attn-opt=hydra.scale=none", "--set", "use-ema=on",
       "--set", "pos-interp=hf", "--set", "overview=off", "--set", "rel-pos=rope:0-5", "--set",
       "rel-pos-opt=rope.base=10", "--set", "pos-embed=sincos"}));
  EXPECT_EQ(model.word, "a");
  EXPECT_EQ(model.attention, "hydra");
  EXPECT_THAT(model.attention_options, ElementsAre("hydra.scale=none"));
  EXPECT_TRUE(model.use_ema);
  EXPECT_EQ(model.pos_interp, model::PosInterp::hf);
  EXPECT_EQ(model.overview, false);
  EXPECT_EQ(model.rel_pos, "rope:0-5");
  EXPECT_THAT(model.rel_pos_options, ElementsAre("rope.base=10"));
  EXPECT_EQ(model.pos_embed, model::PosEmbed::sincos);

  const RunRequest usual = run_request(classify({}), AutoExif::as_stored);
  EXPECT_EQ(usual.seed, RunRequest().seed);
  EXPECT_EQ(usual.batch_size, 0);
  EXPECT_EQ(usual.decode.max_pixels, image::DecodeOptions().max_pixels);
  EXPECT_FALSE(usual.threads || usual.workers);
  const RunRequest run = run_request(classify({"-b", "4", "--fp16", "--threads", "2", "--set",
                                               "kernels=reference", "--set", "on-error=fail"}),
                                     AutoExif::upright);
  EXPECT_EQ(run.batch_size, 4);
  EXPECT_EQ(run.precision, "float16");
  EXPECT_EQ(run.threads, 2);
  EXPECT_EQ(run.kernels, model::Kernels::reference);
  EXPECT_TRUE(run.fail_fast);
}

TEST(RequestsTest, OthersDecodeForTheServer) {
  const auto reader = [](const ParsedOptions& options) {
    return run_request(options, AutoExif::upright).decode.reader;
  };
  EXPECT_EQ(reader(classify({})), nullptr);
  EXPECT_NE(reader(parse(serve_spec(), Words{})), nullptr);
  EXPECT_NE(reader(parse(serve_spec(), Words{"--set", "decode-timeout=3"})), nullptr);
}

TEST(RequestsTest, ExifIsAppliedWhereTheCommandOrTheUserWantsIt) {
  for (const auto& [word, upright, stored] :
       {std::tuple("auto", true, false), {"apply", true, true}, {"ignore", false, false}}) {
    const ParsedOptions options = classify({"--set", "exif=" + std::string(word)});
    EXPECT_EQ(run_request(options, AutoExif::upright).decode.apply_exif, upright) << word;
    EXPECT_EQ(run_request(options, AutoExif::as_stored).decode.apply_exif, stored) << word;
  }
}

TEST(RequestsTest, ATransformSaysWhereItsValuesComeFrom) {
  const TransformRequest request = transform_request(
      classify({"--imgsz", "32x64", "--set", "mean=0.1,0.2,0.3", "--views", "whole"}));
  EXPECT_EQ(request.img_size->value, (image::Size{32, 64}));
  EXPECT_EQ(request.img_size->origin, "`imgsz`");
  EXPECT_THAT(request.mean->value, ElementsAre(0.1, 0.2, 0.3));
  EXPECT_EQ(request.views->value, image::Views::whole);
  EXPECT_FALSE(request.std || request.crop_pct);
  for (const Words& words : {Words{"--native"}, {"--views", "native"}})
    EXPECT_EQ(transform_request(classify(words)).views->value, image::Views::native);
  EXPECT_EQ(transform_request(classify({"--views", "zoom"})).views->value, image::Views::zoom);
}

TEST(RequestsTest, LargePicturesHaveTheModelThatWasMadeForThem) {
  for (const Words& words : {Words{"--native"}, {"--views", "native"}})
    EXPECT_EQ(model_request(classify(words)).word, kLargePicturesModel) << words.back();
  EXPECT_EQ(model_request(classify({"--native", "-m", "a.pth"})).word, "a.pth");
  for (const Words& words :
       {Words{}, {"--views", "whole"}, {"--views", "zoom"}, {"--native", "--attn", "hydra"}})
    EXPECT_EQ(model_request(classify(words)).word, "");
}

TEST(RequestsTest, PicturesAreSeenInPartsUnlessSomethingElseIsAskedFor) {
  const auto request_of = [](const Words& words, AutoExif exif) {
    return pictures_request(classify(words), exif, {&ClassifyRequest::save_input});
  };
  for (const Words& words : {Words{}, {"--topk", "3"}, {"--precision", "float32"}}) {
    const PicturesRequest request = request_of(words, AutoExif::upright);
    ASSERT_TRUE(request.transform.views);
    EXPECT_EQ(request.transform.views->value, image::Views::zoom);
    EXPECT_TRUE(request.transform.is_default);
    EXPECT_EQ(request.model.word, "");
    EXPECT_FALSE(request_of(words, AutoExif::as_stored).transform.views) << "labelled sets";
  }
  for (const Words& words : {Words{"-m", "a.pth"},
                             {"--set", "crop-pct=1"},
                             {"--img-size", "64"},
                             {"--attn", "hydra"},
                             {"--set", "mean=0,0,0"},
                             {"--save-input", "a.npy"}}) {
    const PicturesRequest request = request_of(words, AutoExif::upright);
    EXPECT_FALSE(request.transform.views) << words.front();
  }
  const PicturesRequest whole = request_of({"--views", "whole"}, AutoExif::upright);
  EXPECT_EQ(whole.transform.views->value, image::Views::whole);
  EXPECT_EQ(whole.model.word, "");
  EXPECT_FALSE(request_of({"--views", "zoom"}, AutoExif::upright).transform.is_default);
}

TEST(RequestsTest, AClientOfAServerHasTheDefaultsOfTheCommandLine) {
  struct Case {
    Words started;
    std::string model;
    std::string views;
    Words same;  // of the command line
  };
  for (const Case& each : std::vector<Case>{
           {{}, "", "whole", {"--views", "whole"}},
           {{}, "", "native", {"--native"}},
           {{}, "a.pth", "", {"-m", "a.pth"}},
           {{}, "a.pth", "zoom", {"-m", "a.pth", "--views", "zoom"}},
           {{"--views", "whole"}, "", "native", {"--native"}},
           {{"--views", "whole"}, "", "zoom", {"--views", "zoom"}},
           {{"--native"}, "", "whole", {"--views", "whole"}},
           {{"--views", "whole"}, "a.pth", "", {"-m", "a.pth", "--views", "whole"}},
           {{"-m", "b.pth"}, "", "native", {"-m", "b.pth", "--native"}},
           {{"-m", "b.pth", "--set", "mean=0,0,0"}, "a.pth", "", {"-m", "a.pth"}},
           {{"--img-size", "384x640"}, "", "zoom", {"--views", "zoom"}},
           {{"--views", "zoom", "--img-size", "640"}, "", "whole", {"--views", "whole"}},
           {{"--set", "crop-pct=1"}, "", "native", {"--native"}}}) {
    PicturesRequest found = pictures_request(classify(each.started), AutoExif::upright);
    choose_anew(found.model, found.transform, each.model, each.views);
    const PicturesRequest expected = pictures_request(classify(each.same), AutoExif::upright);
    const std::string what =
        (each.started.empty() ? "" : each.started.back()) + " " + each.model + " " + each.views;
    EXPECT_EQ(found.model.word, expected.model.word) << what;
    ASSERT_EQ(found.transform.views.has_value(), expected.transform.views.has_value()) << what;
    if (expected.transform.views) {
      EXPECT_EQ(found.transform.views->value, expected.transform.views->value) << what;
    }
    EXPECT_EQ(found.transform.img_size.has_value(), expected.transform.img_size.has_value())
        << what;
    EXPECT_FALSE(found.transform.crop_pct || found.transform.mean || found.transform.is_default)
        << what;
  }
}

TEST(RequestsTest, RefuseWhatDoesNotGoTogether) {
  EXPECT_ERROR(transform_request(classify({"--native", "--img-size", "32"})), invalid_argument,
               "own size");
  EXPECT_ERROR(transform_request(classify({"--native", "--views", "whole"})), invalid_argument,
               "two values");
  for (const char* views : {"native", "zoom"}) {
    EXPECT_ERROR(transform_request(classify({"--views", views, "--set", "crop-pct=1"})),
                 invalid_argument, "nothing is resized and cropped");
  }
  EXPECT_TRUE(transform_request(classify({"--views", "whole", "--set", "crop-pct=1"})).crop_pct);
  EXPECT_ERROR(transform_request(classify({"--img-size", "0"})), invalid_argument, "HxW");
  EXPECT_ERROR(classify({"--threads", "1025"}), invalid_argument, "1024");
}

}  // namespace
}  // namespace hydrascope::app
