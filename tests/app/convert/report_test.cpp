#include "app/convert/report.h"

#include "tests/app/formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace hydrascope::app {
namespace {

using hydrascope::testing::written;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

ConversionReport report() {
  ConversionReport report;
  report.from = "teacher.safetensors";
  report.output = "a<b>.safetensors";
  report.before = "softmax";
  report.after = "softmax:0-10,hydra:11";
  report.attention_options = {{"hydra.scale", "linear"}};
  report.sources = {"photos/ (90 + 10)"};
  report.recipe = R"({"lr":1e-4})";
  report.precision = "float16";
  report.computed = "cpu, 1 process";
  model::training::ConversionHistory& history = report.history;
  history.evaluations = {{"start", 0, 6, {10, 3.5}},
                         {"hydra start", 0, 12, {40, 1.5}},
                         {"outputs", 100, 60, {70, 0.5}},
                         {"finetune", 50, 120, {75, 0.25}},
                         {"finetune", 100, 180, {74, 0.24}}};
  history.stages = {{"outputs", 100, 100, 3200, 48, false},
                    {"finetune", 200, 100, 3200, 120, true}};
  history.layers = {{11, "hydra", 1.25, 0.375}};
  history.best = 3;
  history.seconds = 200;
  history.held_out_images = 480;
  history.is_complete = true;
  return report;
}

TEST(ConversionReport, TextHasSummaryStagesAndLayers) {
  const std::string text = written(report_of(report()), Format::text);
  EXPECT_THAT(text, HasSubstr("finetune 50"));
  EXPECT_THAT(text, HasSubstr("75.00"));
  EXPECT_THAT(text, HasSubstr("66.7"));  // images/s of the outputs
  EXPECT_THAT(text, HasSubstr("0.3750"));
  EXPECT_THAT(text, Not(HasSubstr("eval top1")));
}

TEST(ConversionReport, JsonHasEverything) {
  ConversionReport all = report();
  all.top1 = 71.25;
  all.eval_images = 500;
  const Json json = Json::parse(written(report_of(all), Format::json));
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["agreement_before"], 10.0);
  EXPECT_EQ(json["agreement"], 75.0);
  EXPECT_EQ(json["divergence"], 0.25);
  EXPECT_EQ(json["best_state"], "finetune 50");
  EXPECT_EQ(json["eval_top1"], 71.25);
  EXPECT_EQ(json["eval_images"], 500);
  EXPECT_EQ(json["complete"], true);
  EXPECT_EQ(json["ended_early"], "finetune after 100 of 200 steps");
  EXPECT_EQ(json["stages"][1]["planned_steps"], 200);
  EXPECT_EQ(json["stages"][1]["steps"], 100);
  EXPECT_EQ(json["layers"][0]["error_after"], 0.375);
  EXPECT_EQ(json["evaluations"].size(), 5);
  EXPECT_EQ(json["evaluations"][1]["steps_of_all"], 0);
  EXPECT_EQ(json["evaluations"][4]["steps_of_all"], 200);
  EXPECT_EQ(json["sources"][0], "photos/ (90 + 10)");
  EXPECT_EQ(json["recipe"]["lr"], 1e-4);
}

TEST(ConversionReport, FeaturesHaveCosinesAndNoFigureOfClasses) {
  using model::training::Target;
  ConversionReport features = report();
  features.history.evaluations = {{"start", 0, 6, {0, 0, Target::features, 0.5, 0.25}},
                                  {"finetune", 100, 180, {0, 0, Target::features, 0.9875, 0.75}}};
  features.history.best = 1;
  features.eval_features = model::training::Agreement{0, 0, Target::features, 0.5, 0.125};
  features.eval_images = 500;
  const Json json = Json::parse(written(report_of(features), Format::json));
  EXPECT_EQ(json["pooled_cosine_before"], 0.5);
  EXPECT_EQ(json["pooled_cosine"], 0.9875);
  EXPECT_EQ(json["patch_cosine"], 0.75);
  EXPECT_EQ(json["eval_patch_cosine"], 0.125);
  EXPECT_EQ(json["eval_images"], 500);
  EXPECT_EQ(json["evaluations"][1]["patch_cosine"], 0.75);
  for (const std::string& said :
       {json.dump(), written(report_of(features), Format::text), report_of(features).page()})
    for (const char* of_classes : {"agreement", "divergence", "top-1", "top1"})
      EXPECT_THAT(said, Not(HasSubstr(of_classes)));
  EXPECT_EQ(to_text(features.history.best_evaluation().agreement),
            "pooled cosine 0.9875, patch cosine 0.7500");
  EXPECT_EQ(to_text(report().history.start().agreement), "agreement 10.0 %, divergence 3.5000");
}

TEST(ConversionReport, ThePageHasCurvesAndNeedsNothingElse) {
  const std::string page = report_of(report()).page();
  for (const char* text : {"<svg", "Divergence from the teacher", "photos/ (90 + 10)",
                           "a&lt;b&gt;.safetensors", "0.0001"})
    EXPECT_THAT(page, HasSubstr(text));
  EXPECT_THAT(page, HasSubstr("<dt>ended early</dt><dd><bdi>finetune after 100 of 200 steps"));
  EXPECT_THAT(page, HasSubstr("<dt>complete</dt><dd><bdi>yes<"));
  ConversionReport stopped = report();
  stopped.history.is_complete = false;
  stopped.unreadable = 3;
  stopped.history.failure = "a number is not finite";
  const std::string page_of_stopped = report_of(stopped).page();
  EXPECT_THAT(page_of_stopped, HasSubstr("<dt>complete</dt><dd><bdi>no<"));
  EXPECT_THAT(page_of_stopped, HasSubstr("<dt>unreadable pictures</dt><dd><bdi>3<"));
  EXPECT_THAT(page_of_stopped, HasSubstr("<strong>it failed: a number is not finite</strong>"));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
}

}  // namespace
}  // namespace hydrascope::app
