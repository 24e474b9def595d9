#include "app/maps/map_record.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <limits>
#include <map>
#include <sstream>
#include <tuple>

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

/// By the names of csv's columns.
std::map<std::string, std::string> cells_of(const MapRecord& record) {
  std::ostringstream out;
  RecordStream(Format::csv, out, map_columns(record.memory_share.has_value()))
      .write(to_json(record), "");
  std::istringstream lines(out.str());
  std::string header;
  std::string row;
  std::getline(lines, header);
  std::getline(lines, row);
  std::istringstream names(header);
  std::istringstream values(row);
  std::map<std::string, std::string> cells;
  for (std::string name; std::getline(names, name, ',');) std::getline(values, cells[name], ',');
  return cells;
}

TEST(MapRecordTest, JsonHasTheContractsFieldsInTheirOrder) {
  const auto json = to_json(example());
  EXPECT_EQ(keys(json),
            (std::vector<std::string>{"schema", "input", "class", "method", "layer", "grid", "min",
                                      "max", "cls_share", "files", "width", "height", "model_size",
                                      "attention", "device", "precision", "seconds"}));
  EXPECT_EQ(keys(json.at("class")), (std::vector<std::string>{"index", "id", "label", "prob"}));
  EXPECT_EQ(json.at("class").at("prob"), 0.674712);
  EXPECT_EQ(json.at("grid"), (OrderedJson{14, 14}));
  EXPECT_EQ(json.at("min"), -0.03125);
  EXPECT_EQ(json.at("max"), 0.423457);
  EXPECT_EQ(json.at("files"), (OrderedJson{{"heatmap", "heatmaps/otters.heatmap.png"}}));
}

TEST(MapRecordTest, WhatIsNotUsualHasItsOwnFields) {
  MapRecord record = example();
  record.head = "max";
  record.frame = 7;
  record.time = 0.28;
  record.map_file = "heatmaps/otters.map.npy";
  record.note = "approximate";
  record.minimum = std::numeric_limits<double>::infinity();
  const auto json = nlohmann::json::parse(json_text(to_json(record)));
  EXPECT_EQ(json.at("head"), "max");
  EXPECT_EQ(json.at("frame"), 7);
  EXPECT_EQ(json.at("time"), 0.28);
  EXPECT_EQ(json.at("files").at("map"), "heatmaps/otters.map.npy");
  EXPECT_EQ(json.at("note"), "approximate");
  EXPECT_TRUE(json.at("min").is_null());
}

TEST(MapRecordTest, NamesThatAreNotUtf8HaveTheirBytes) {
  MapRecord record = example();
  EXPECT_FALSE(nlohmann::json::parse(json_text(to_json(record))).contains("input_bytes"));
  record.input = "\xFF.jpg";
  record.heatmap_file = "maps/\xFF.heatmap.png";
  record.map_file = "maps/\xFF.map.npy";
  const auto json = nlohmann::json::parse(json_text(to_json(record)));
  EXPECT_EQ(json.at("input_bytes"), "%FF.jpg");
  EXPECT_EQ(json.at("files").at("heatmap_bytes"), "maps/%FF.heatmap.png");
  EXPECT_EQ(json.at("files").at("map_bytes"), "maps/%FF.map.npy");
}

TEST(MapRecordTest, AFailureIsInputAndError) {
  MapRecord record = example();
  record.error = ErrorCode::failed;
  record.message = "no";
  const auto json = to_json(record);
  EXPECT_EQ(keys(json), (std::vector<std::string>{"schema", "input", "error"}));
  EXPECT_EQ(json.at("error").at("code"), "failed");
  const auto cells = cells_of(record);
  EXPECT_EQ(cells.at("input"), "otters.jpg");
  EXPECT_EQ(cells.at("error_message"), "no");
  EXPECT_EQ(cells.at("head"), "");
}

TEST(MapRecordTest, RowsHaveACellAColumn) {
  const auto cells = cells_of(example());
  EXPECT_EQ(cells.at("label"), "otter");
  EXPECT_EQ(cells.at("head"), "mean");
  EXPECT_EQ(cells.at("cls_share"), "0.121");
  EXPECT_EQ(cells.at("model_height"), "224");
  EXPECT_EQ(cells.at("error_code"), "");
}

TEST(MapRecordTest, AMemorysShareIsToldWhereThereIsOne) {
  MapRecord record = example();
  EXPECT_FALSE(to_json(record).contains("memory_share"));
  EXPECT_FALSE(cells_of(record).contains("memory_share"));
  EXPECT_EQ(to_text({&record, 1}, LabelType::name, false).find("memory"), std::string::npos);
  record.memory_share = 0.41234567;
  const auto json = to_json(record);
  EXPECT_EQ(json.at("memory_share"), 0.4123);
  EXPECT_EQ(keys(json)[9], "memory_share");
  EXPECT_EQ(cells_of(record).at("memory_share"), "0.4123");
  EXPECT_EQ(cells_of(record).at("cls_share"), "0.121");
  EXPECT_EQ(to_text({&record, 1}, LabelType::name, false),
            "otters.jpg  otter 67.5 %  memory 41.2 %  -> heatmaps/otters.heatmap.png\n");
  EXPECT_NE(to_verbose_text(record, LabelType::name, false).find("cls 12.1 %  memory 41.2 %  61"),
            std::string::npos);
}

TEST(MapRecordTest, AClassHasItsPlace) {
  MapRecord record = example();
  record.finder = "window";
  record.views = {{record.of_class, 1}};
  record.of_class.box = {336, 168, 448, 224};
  record.of_class.mark = {400, 200};
  const auto json = nlohmann::json::parse(json_text(to_json(record)));
  EXPECT_EQ(json.at("finder"), "window");
  EXPECT_EQ(json.at("views").size(), 1U);
  EXPECT_EQ(json.at("class").at("mark"), nlohmann::json::parse(R"({"x":400,"y":200})"));
  EXPECT_EQ(json.at("class").at("box"),
            nlohmann::json::parse(R"({"left":336,"top":168,"width":448,"height":224})"));
  const auto cells = cells_of(record);
  EXPECT_EQ(cells.at("box_left") + "," + cells.at("box_top"), "336,168");
  EXPECT_EQ(cells.at("box_width") + "," + cells.at("box_height"), "448,224");
  EXPECT_EQ(cells.at("method"), "hydra");
}

std::string text(const std::vector<MapRecord>& maps, LabelType label_type = LabelType::name) {
  return to_text(maps, label_type, false);
}

TEST(MapRecordTest, TextIsALineThatNamesTheFileAndItsClasses) {
  EXPECT_EQ(text({example()}), "otters.jpg  otter 67.5 %  -> heatmaps/otters.heatmap.png\n");
  EXPECT_EQ(text({example()}, LabelType::id),
            "otters.jpg  n02444819 67.5 %  -> heatmaps/otters.heatmap.png\n");
  MapRecord saved = example();
  saved.frame = 3;
  saved.time = 0.12;
  saved.map_file = "heatmaps/otters.map.npy";
  EXPECT_EQ(text({saved}),
            "otters.jpg  frame 3 at 0.120 s  otter 67.5 %  -> heatmaps/otters.heatmap.png, "
            "heatmaps/otters.map.npy\n");
  const std::vector<MapRecord> one{example()};
  EXPECT_NE(to_text(one, LabelType::name, true).find('\x1b'), std::string::npos);
}

TEST(MapRecordTest, TextOfManyMapsIsOneLineAndNamesAClassOnce) {
  std::vector<MapRecord> maps;
  for (std::int64_t layer = 0; layer < 12; ++layer) {
    for (const auto& [index, label, prob] :
         {std::tuple{360, "otter", 0.6747}, std::tuple{337, "beaver", 0.0468}}) {
      MapRecord map = example();
      map.layer = layer;
      map.of_class = {1, index, "", label, prob, 0};
      maps.push_back(map);
    }
  }
  EXPECT_EQ(text(maps),
            "otters.jpg  otter 67.5 %, beaver 4.7 %  24 maps -> heatmaps/otters.heatmap.png\n");
}

TEST(MapRecordTest, TextOfAFailureSaysWhy) {
  MapRecord record = example();
  record.error = ErrorCode::not_found;
  record.message = "no such file";
  EXPECT_EQ(text({record}), "otters.jpg  error: not_found: no such file\n");
  EXPECT_EQ(to_verbose_text(record, LabelType::name, false), text({record}));
}

TEST(MapRecordTest, VerboseTextSaysAllOfAMap) {
  const std::string line = to_verbose_text(example(), LabelType::name, false);
  EXPECT_EQ(line,
            "otters.jpg  1080x1920 -> 224x224 (HxW)  otter 67.47 %  hydra layer 11  14x14  "
            "-0.0312..0.423  cls 12.1 %  61.2 ms  heatmaps/otters.heatmap.png\n");
}

}  // namespace map_record_test
}  // namespace hydrascope::app
