#include "app/visualize/visualize_options.h"

#include "app/command.h"
#include "tests/error_matchers.h"

#include <gtest/gtest.h>

namespace hydrascope::app {
namespace visualize_options_test {

VisualizeRequest requested(const std::vector<std::string>& arguments) {
  return visualize_request(parse(visualize_spec(), arguments));
}

FigureOptions figure(const std::vector<std::string>& arguments) {
  return requested(arguments).outputs.figure;
}

OutputOptions outputs_of(const std::vector<std::string>& arguments, std::size_t num_maps = 1) {
  return heatmap_outputs(requested(arguments), num_maps, 3);
}

TEST(FigureOptionsTest, DefaultsDrawTheEvidenceForTheClassAlone) {
  const FigureOptions options = figure({});
  EXPECT_EQ(options.sign, viz::Sign::positive);
  EXPECT_EQ(options.colormap, nullptr);
  EXPECT_DOUBLE_EQ(options.alpha, 0.8);
  EXPECT_TRUE(options.fade);
  EXPECT_DOUBLE_EQ(options.outlier_percent, 30);
  EXPECT_FALSE(options.outlined_mass.has_value());
  EXPECT_FALSE(options.has_extras(1));
  EXPECT_TRUE(options.has_extras(2));
}

TEST(FigureOptionsTest, EveryOptionArrives) {
  EXPECT_EQ(figure({"--sign", "both"}).sign, viz::Sign::both);
  EXPECT_EQ(figure({"--sign", "absolute"}).sign, viz::Sign::absolute);
  EXPECT_EQ(figure({"--cmap", "viridis"}).colormap, viz::find_colormap_or_null("viridis"));
  EXPECT_DOUBLE_EQ(figure({"--alpha", "0.9"}).alpha, 0.9);
  EXPECT_FALSE(figure({"--no-fade"}).fade);
  EXPECT_TRUE(figure({"--fade"}).fade);
  EXPECT_TRUE(figure({"--grey"}).grey);
  EXPECT_EQ(figure({"--blocks"}).sampling, viz::Sampling::nearest);
  EXPECT_DOUBLE_EQ(figure({"--outlier_perc", "2"}).outlier_percent, 2);
  EXPECT_DOUBLE_EQ(figure({"--threshold", "0.6"}).outlined_mass.value(), 0.6);
  EXPECT_TRUE(figure({"--colorbar"}).colorbar);
  EXPECT_FALSE(figure({"--colorbar"}).colorbar_numbers);
  EXPECT_TRUE(figure({"--colorbar-numbers"}).colorbar_numbers);
  for (const char* extra : {"--colorbar", "--colorbar-numbers", "--caption", "--beside"})
    EXPECT_TRUE(figure({extra}).has_extras(1)) << extra;
}

TEST(FigureOptionsTest, WhatDoesNotExist) {
  EXPECT_ERROR(figure({"--cmap", "jet"}), invalid_argument, "`cmap`");
  EXPECT_ERROR(figure({"--cmap", "virdis"}), invalid_argument, "viridis");
  EXPECT_ERROR(figure({"--threshold", "2"}), invalid_argument, "`threshold`");
}

TEST(MapWordsTest, ListsAreSplitAndDefaultsAreWords) {
  const MapWords words = requested({"--method", "hydra,gradcam", "--layer", "0,last"}).maps;
  EXPECT_EQ(words.methods, (std::vector<std::string>{"hydra", "gradcam"}));
  EXPECT_EQ(words.layers, (std::vector<std::string>{"0", "last"}));
  EXPECT_EQ(words.heads, (std::vector<std::string>{"mean"}));
  EXPECT_EQ(words.mapless, model::explain::MaplessLayers::skip);
  EXPECT_EQ(requested({"--set", "mapless=cosine"}).maps.mapless,
            model::explain::MaplessLayers::cosine);
  const MapWords usual = requested({}).maps;
  EXPECT_EQ(usual.methods, (std::vector<std::string>{"hydra"}));
  EXPECT_EQ(usual.layers, (std::vector<std::string>{"last"}));
  EXPECT_EQ(requested({"--method", "auto,gradcam"}).maps.methods,
            (std::vector<std::string>{"hydra", "gradcam"}))
      << "auto is an earlier word for the default";
  EXPECT_FALSE(requested({}).topk.has_value());
  EXPECT_EQ(requested({"--topk", "3"}).topk, 3);
}

TEST(HeatmapOutputsTest, FilesAndThePage) {
  const OutputOptions outputs =
      outputs_of({"-o", "maps", "--image-format", "jpg", "--quality", "70", "--cmap", "cividis",
                  "--html", "page.html", "--save-raw", "--views", "whole"});
  EXPECT_EQ(outputs.folder, "maps");
  EXPECT_EQ(outputs.image_format, viz::ImageFormat::jpeg);
  EXPECT_EQ(outputs.encode.quality, 70);
  EXPECT_EQ(outputs.html, "page.html");
  EXPECT_EQ(outputs.report.colormap, "cividis");
  EXPECT_EQ(outputs.report.signed_colormap, "cividis") << "a table that is named serves all maps";
  EXPECT_TRUE(outputs.save_raw);
  EXPECT_EQ(outputs.threads, 3);
  EXPECT_NE(outputs.font, nullptr) << "for class and probability";
  EXPECT_EQ(outputs_of({"--no-caption", "--views", "whole"}).font, nullptr)
      << "nothing is written on one map";
  EXPECT_NE(outputs_of({"--no-caption"}).font, nullptr) << "for the boxes of a closer look";
  EXPECT_FALSE(outputs_of({}).image_format) << "by the size of each";
  EXPECT_NE(outputs_of({}, 2).font, nullptr);
  EXPECT_ERROR(requested({"-o", "-"}), invalid_argument, "a folder");
  EXPECT_ERROR(requested({"-o", "maps.png"}), invalid_argument, "a folder");
  EXPECT_ERROR(requested({"--html", "photo.jpg"}), invalid_argument, ".html");
}

}  // namespace visualize_options_test
}  // namespace hydrascope::app
