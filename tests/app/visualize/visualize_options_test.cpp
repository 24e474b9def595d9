#include "app/visualize/visualize_options.h"

#include "app/command.h"
#include "tests/error_matchers.h"
#include "tests/picture_files.h"
#include "tests/temporary_folder.h"

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
  EXPECT_FALSE(options.has_extras(1));
  EXPECT_TRUE(options.has_extras(2));
}

TEST(FigureOptionsTest, EveryOptionArrives) {
  EXPECT_EQ(figure({"--sign", "both"}).sign, viz::Sign::both);
  EXPECT_EQ(figure({"--sign", "absolute"}).sign, viz::Sign::absolute);
  EXPECT_EQ(figure({"--cmap", "viridis"}).colormap, viz::find_colormap_or_null("viridis"));
  EXPECT_DOUBLE_EQ(figure({"--alpha", "0.9"}).alpha, 0.9);
  for (const char* extra : {"--caption", "--beside"})
    EXPECT_TRUE(figure({extra}).has_extras(1)) << extra;
}

TEST(FigureOptionsTest, WhatDoesNotExist) {
  EXPECT_ERROR(figure({"--cmap", "jet"}), invalid_argument, "`cmap`");
  EXPECT_ERROR(figure({"--cmap", "virdis"}), invalid_argument, "viridis");
  EXPECT_ERROR(figure({"--alpha", "2"}), invalid_argument, "`alpha`");
  EXPECT_ERROR(figure({"--no-fade"}), invalid_argument, "no_fade");
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
  const OutputOptions outputs = outputs_of(
      {"-o", "maps", "--cmap", "cividis", "--html", "page.html", "--save-raw", "--views", "whole"});
  EXPECT_EQ(outputs.folder, "maps");
  EXPECT_EQ(outputs.file, "");
  EXPECT_EQ(outputs.html, "page.html");
  EXPECT_EQ(outputs.report.colormap, "cividis");
  EXPECT_EQ(outputs.report.signed_colormap, "cividis") << "a table that is named serves all maps";
  EXPECT_TRUE(outputs.save_raw);
  EXPECT_EQ(outputs.threads, 3);
  EXPECT_ERROR(requested({"-o", "-"}), invalid_argument, "a folder");
  EXPECT_ERROR(requested({"--html", "photo.jpg"}), invalid_argument, ".html");
}

TEST(HeatmapOutputsTest, ANameOfAPictureIsTheFileOfOneMap) {
  const testing::TemporaryFolder folder;
  const std::string file = folder.path() / "heat.PNG";
  EXPECT_EQ(outputs_of({"-o", file}).file, file);
  EXPECT_EQ(outputs_of({"-o", file}).file_of_maps(), folder.path() / "heat.map.npy");
  EXPECT_ERROR(outputs_of({"-o", file}, 2), invalid_argument, "one map", "there are 2", "heat.PNG");
  EXPECT_ERROR(requested({"-o", folder.path() / "none" / "heat.jpg"}), not_found, "no such folder");
  EXPECT_ERROR(requested({"-o", "heat.webp"}), invalid_argument, "NAME.png");
  EXPECT_ERROR(requested({"-o", folder.write("photo.jpg", testing::ppm(4, 3))}), invalid_argument,
               "would replace a file");
  std::filesystem::create_directory(file);
  EXPECT_EQ(outputs_of({"-o", file}).folder, file);
}

}  // namespace visualize_options_test
}  // namespace hydrascope::app
