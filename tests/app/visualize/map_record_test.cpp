#include "app/visualize/map_record.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

namespace hydrascope::app {
namespace map_record_test {

MapRecord example() {
  MapRecord record;
  record.input = "otters.jpg";
  record.of_class = {1, 360, "n02444819", "otter", 0.674712345, 11.8};
  record.method = "hydra";
  record.layer = 11;
  record.grid = {14, 14};
  record.minimum = -0.03125;
  record.maximum = 0.4234567;
  record.cls_share = 0.121;
  record.heatmap_file = "heatmaps/otters.heatmap.png";
  record.width = 1920;
  record.height = 1080;
  record.model_size = {224, 224};
  record.attention = "softmax";
  record.device = "cpu";
  record.precision = "float32";
  record.seconds = 0.0612;
  return record;
}

std::vector<std::string> keys(const nlohmann::ordered_json& object) {
  std::vector<std::string> names;
  for (const auto& item : object.items()) names.push_back(item.key());
  return names;
}

TEST(MapRecordTest, JsonHasTheContractsFieldsInTheirOrder) {
  const auto json = nlohmann::ordered_json::parse(to_json(example()));
  EXPECT_EQ(keys(json),
            (std::vector<std::string>{"schema", "input", "class", "method", "layer", "grid", "min",
                                      "max", "cls_share", "files", "width", "height", "model_size",
                                      "attention", "device", "precision", "seconds"}));
  EXPECT_EQ(keys(json.at("class")), (std::vector<std::string>{"index", "id", "label", "prob"}));
  EXPECT_EQ(json.at("class").at("prob"), 0.674712);
  EXPECT_EQ(json.at("grid"), (nlohmann::json{14, 14}));
  EXPECT_EQ(json.at("min"), -0.03125);
  EXPECT_EQ(json.at("max"), 0.423457);
  EXPECT_EQ(json.at("files"), (nlohmann::json{{"heatmap", "heatmaps/otters.heatmap.png"}}));
}

TEST(MapRecordTest, WhatIsNotUsualHasItsOwnFields) {
  MapRecord record = example();
  record.head = "max";
  record.frame = 7;
  record.map_file = "heatmaps/otters.map.npy";
  record.note = "approximate";
  record.minimum = std::numeric_limits<double>::infinity();
  const auto json = nlohmann::json::parse(to_json(record));
  EXPECT_EQ(json.at("head"), "max");
  EXPECT_EQ(json.at("frame"), 7);
  EXPECT_EQ(json.at("files").at("map"), "heatmaps/otters.map.npy");
  EXPECT_EQ(json.at("note"), "approximate");
  EXPECT_TRUE(json.at("min").is_null());
}

TEST(MapRecordTest, AFailureIsInputAndError) {
  MapRecord record = example();
  record.error = ErrorCode::failed;
  record.message = "no";
  const auto json = nlohmann::ordered_json::parse(to_json(record));
  EXPECT_EQ(keys(json), (std::vector<std::string>{"schema", "input", "error"}));
  EXPECT_EQ(json.at("error").at("code"), "internal");
  const std::vector<std::string> row = to_row(record);
  EXPECT_EQ(row.size(), map_columns().size());
  EXPECT_EQ(row.front(), "otters.jpg");
  EXPECT_EQ(row.back(), "no");
}

TEST(MapRecordTest, RowsHaveACellAColumn) {
  const std::vector<std::string> row = to_row(example());
  const std::vector<std::string> columns = map_columns();
  ASSERT_EQ(row.size(), columns.size());
  const auto cell = [&](const std::string& column) {
    return row.at(static_cast<std::size_t>(std::ranges::find(columns, column) - columns.begin()));
  };
  EXPECT_EQ(cell("label"), "otter");
  EXPECT_EQ(cell("head"), "mean");
  EXPECT_EQ(cell("cls_share"), "0.121");
  EXPECT_EQ(cell("model_height"), "224");
  EXPECT_EQ(cell("error_code"), "");
}

TEST(MapRecordTest, TextIsALine) {
  const std::string line = to_text(example(), LabelType::name, false);
  EXPECT_EQ(line,
            "otters.jpg  1920x1080 -> 224x224  otter 67.47 %  hydra layer 11  14x14  "
            "-0.0312..0.423  cls 12.1 %  61.2 ms  heatmaps/otters.heatmap.png\n");
  EXPECT_NE(to_text(example(), LabelType::id, false).find("n02444819 67.47 %"), std::string::npos);
  EXPECT_NE(to_text(example(), LabelType::name, true).find('\x1b'), std::string::npos);
}

}  // namespace map_record_test
}  // namespace hydrascope::app
