#include "app/results/classify_record.h"

#include "app/run/terminal_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>
#include <sstream>
#include <streambuf>

namespace hydrascope::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

ClassifyRecord otter() {
  ClassifyRecord record;
  record.input = "otters.jpg";
  record.width = 3840;
  record.height = 2160;
  record.model_size = {224, 256};
  record.tokens = 225;
  record.top = {{1, 360, "n02444819", "otter", double{0.9312F}, 11.84000015258789},
                {2, 357, "n02442845", "mink", 0.034, 8.5}};
  record.device = "cpu";
  record.precision = "float32";
  record.attention = "softmax";
  record.seconds = 0.0134;
  return record;
}

ClassifyRecord otter_in_parts() {
  ClassifyRecord record = otter();
  record.top[0].box = {448, 336, 224, 256};
  record.top[1].box = {0, 0, 224, 256};
  record.views = {{record.top[0], 0.75}, {record.top[1], 0.25}};
  record.top[0].mark = {500, 400};
  record.top[1].mark = {20, 30};
  record.finder = "deit_tiny";
  return record;
}

ClassifyRecord broken() {
  ClassifyRecord record;
  record.input = "bad.jpg";
  record.error = ErrorCode::decode_failed;
  record.message = "ends after 12 rows";
  return record;
}

RecordStream stream_to(Format format, std::ostream& out) {
  return {format, out, kClassifyColumns, kClassifyRows};
}

void write(RecordStream& stream, const ClassifyRecord& record) {
  stream.write(to_json(record), to_text(record, LabelType::name, false));
}

std::string written(Format format, const std::vector<ClassifyRecord>& records,
                    LabelType label_type = LabelType::name, bool color = false) {
  std::ostringstream out;
  RecordStream stream = stream_to(format, out);
  for (const ClassifyRecord& record : records)
    stream.write(to_json(record), to_text(record, label_type, color));
  stream.finish();
  return out.str();
}

TEST(TerminalText, ControlCharactersCannotReachTheTerminal) {
  EXPECT_EQ(printable("a\nb\tc\rd\x1b[31m\x7f"), "a\\nb\\tc\\rd\\x1b[31m\\x7f");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m\xC2\xA0"),
            "\\x9b31m\xC2\xA0");
  EXPECT_EQ(printable("\xFF\xC3\xA9\xC2"), "\\xff\xC3\xA9\\xc2") << "bytes that are no UTF-8";
  EXPECT_EQ(printable("a\x9B\x80z\x9F"), "a\\x9b\\x80z\\x9f");
  EXPECT_EQ(printable("\xE2\x82\xAC \xE2\x9B"), "\xE2\x82\xAC \\xe2\\x9b");
  EXPECT_EQ(printable("\xC0\x9B\xED\xA0\x80"), "\\xc0\\x9b\\xed\\xa0\\x80")
      << "too long, and half a pair";
  EXPECT_EQ(printable("\u061c\u200d\u200e\u200f\u2029\u202a\u202e\u202f\u2065\u2066\u2069\u206a"),
            "\\u061c\u200d\\u200e\\u200f\u2029\\u202a\\u202e\u202f\u2065\\u2066\\u2069\u206a")
      << "turns of direction, and their neighbours";
  EXPECT_EQ(printable("\U0001F420"), "\U0001F420");
  EXPECT_EQ(printable_json("\u00e9\u202e\x7f"), "\"\\u00e9\\u202e\\u007f\"");
  EXPECT_EQ(printable_json("\u00e9"), "\"\u00e9\"");
  EXPECT_EQ(printable_lines("a\x1b[2J\nb\x9B"), "a\\x1b[2J\nb\\x9b");
  EXPECT_EQ(columns("\xC3\xA9t\xC3\xA9"), 3);
}

TEST(JsonLines, IsTheSchemaInItsOrder) {
  EXPECT_EQ(written(Format::jsonl, {otter()}),
            R"({"schema":2,"input":"otters.jpg","width":3840,"height":2160,"model_size":[224,256],)"
            R"("tokens":225,"top":[{"rank":1,"index":360,"id":"n02444819","label":"otter",)"
            R"("prob":0.9312,"logit":11.84},{"rank":2,"index":357,"id":"n02442845","label":"mink",)"
            R"("prob":0.034,"logit":8.5}],"device":"cpu","precision":"float32",)"
            R"("attention":"softmax","seconds":0.0134})"
            "\n");
  EXPECT_EQ(written(Format::jsonl, {broken()}),
            R"({"schema":2,"input":"bad.jpg","error":{"code":"decode_failed",)"
            R"("message":"ends after 12 rows"}})"
            "\n");
}

TEST(JsonLines, FrameAndNoteOnlyWhereThereAre) {
  ClassifyRecord record = otter();
  record.frame = 0;
  record.time = 1001.0 / 30;
  record.note = "padded";
  const std::string line = written(Format::jsonl, {record});
  EXPECT_THAT(line,
              StartsWith(R"({"schema":2,"input":"otters.jpg","frame":0,"time":33.366667,"width")"));
  EXPECT_THAT(line, HasSubstr(R"("attention":"softmax","note":"padded","seconds":0.0134})"));
  ClassifyRecord failed = broken();
  failed.frame = 7;
  EXPECT_THAT(written(Format::jsonl, {failed}),
              HasSubstr(R"("input":"bad.jpg","frame":7,"error")"));
}

TEST(JsonLines, ThePlaceOfALeaverIsInJsonAndText) {
  ClassifyRecord record = otter();
  EXPECT_THAT(to_text(record, LabelType::name, false), Not(HasSubstr("behind layer")));
  record.exit_layer = 7;
  EXPECT_THAT(written(Format::jsonl, {record}), HasSubstr(R"("tokens":225,"exit_layer":7,"top")"));
  EXPECT_THAT(to_text(record, LabelType::name, false), HasSubstr("\n  answered behind layer 7\n"));
}

TEST(JsonLines, HostileNamesAndNumbersStayJson) {
  ClassifyRecord record = otter();
  record.input = "\xFF\"\n\x01.jpg";
  record.top[0].prob = std::nan("");
  record.top[0].label = "\xC3";
  const auto parsed = nlohmann::json::parse(written(Format::jsonl, {record}));
  EXPECT_EQ(parsed["input"], "\xEF\xBF\xBD\"\n\x01.jpg");
  EXPECT_TRUE(parsed["top"][0]["prob"].is_null());
  EXPECT_TRUE(parsed["top"][1]["prob"].is_number_float());
}

TEST(JsonLines, NamesThatAreNotUtf8HaveTheirBytes) {
  const auto record_of = [](const std::string& name) {
    ClassifyRecord record = broken();
    record.input = name;
    return nlohmann::json::parse(written(Format::jsonl, {record}));
  };
  const auto odd = record_of("a b/\xFF\xC3\xA9%.ppm");
  EXPECT_EQ(odd["input"], "a b/\xEF\xBF\xBD\xC3\xA9%.ppm");
  EXPECT_EQ(odd["input_bytes"], "a%20b/%FF%C3%A9%25.ppm") << "RFC 3986";
  EXPECT_FALSE(record_of("a b/\xC3\xA9%.ppm").contains("input_bytes"));
}

TEST(JsonLines, ACodeThatIsNoneOfRecordsIsInternal) {
  ClassifyRecord record = broken();
  record.error = ErrorCode::invalid_argument;
  EXPECT_THAT(written(Format::jsonl, {record}), HasSubstr(R"("code":"internal")"));
  EXPECT_THAT(written(Format::text, {record}), HasSubstr("error: internal:"));
  EXPECT_THAT(written(Format::csv, {record}), HasSubstr(",internal,"));
  record.error = ErrorCode::failed;
  EXPECT_THAT(written(Format::jsonl, {record}), HasSubstr(R"("code":"failed")"));
}

TEST(JsonArray, IsStreamedAndValidWhereverItEnds) {
  EXPECT_EQ(written(Format::json, {}), "[]\n");
  for (std::size_t count = 1; count <= 3; ++count) {
    const auto parsed =
        nlohmann::json::parse(written(Format::json, std::vector<ClassifyRecord>(count, otter())));
    ASSERT_EQ(parsed.size(), count);
    EXPECT_EQ(parsed.back()["top"][0]["label"], "otter");
  }
  std::ostringstream out;
  RecordStream stream = stream_to(Format::json, out);
  write(stream, otter());
  EXPECT_THAT(out.str(), HasSubstr("otters.jpg")) << "before finish()";
  stream.finish();
  stream.finish();
  EXPECT_EQ(nlohmann::json::parse(out.str()).size(), 1);
}

constexpr std::string_view kHeader =
    "input,frame,time,width,height,model_height,model_width,tokens,rank,index,id,"
    "label,"
    "prob,logit,box_left,box_top,box_width,box_height,group,group_prob,unsure,device,precision,"
    "attention,attention_"
    "options,"
    "approximations,kernels,note,seconds,exit_layer,error_code,error_"
    "message\n";

TEST(Csv, ARowAPredictionAndAFailure) {
  EXPECT_EQ(
      written(Format::csv, {otter(), broken()}),
      std::string(kHeader) +
          "otters.jpg,,,3840,2160,224,256,225,1,360,n02444819,otter,0.9312,11.84,,,,,,,,cpu,"
          "float32,"
          "softmax,,,,,0.0134,,,\n"
          "otters.jpg,,,3840,2160,224,256,225,2,357,n02442845,mink,0.034,8.5,,,,,,,,cpu,float32,"
          "softmax,,,,,0.0134,,,\n"
          "bad.jpg,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,decode_failed,ends after 12 rows\n");
  EXPECT_EQ(written(Format::csv, {}), kHeader);
}

TEST(JsonLines, TheTimeOfAPictureInABatchIsItsShareAndSaysSo) {
  ClassifyRecord record = otter();
  record.batch_size = 8;
  EXPECT_THAT(written(Format::jsonl, {record}), HasSubstr(R"("seconds":0.0134})"));
  EXPECT_THAT(to_text(record, LabelType::name, /*color=*/false),
              HasSubstr("  13.4 ms each in a batch of 8  cpu"));
}

TEST(JsonLines, AClassHasItsPlace) {
  const auto json = nlohmann::json::parse(written(Format::jsonl, {otter_in_parts()}));
  EXPECT_EQ(json["schema"], 2);
  EXPECT_EQ(json["finder"], "deit_tiny");
  EXPECT_EQ(json["top"][0]["box"],
            nlohmann::json::parse(R"({"left":448,"top":336,"width":224,"height":256})"));
  EXPECT_EQ(json["top"][0]["mark"], nlohmann::json::parse(R"({"x":500,"y":400})"));
  const auto whole = nlohmann::json::parse(written(Format::jsonl, {otter()}));
  EXPECT_FALSE(whole.contains("views") || whole.contains("finder"));
  EXPECT_FALSE(whole["top"][0].contains("box"));
}

TEST(JsonLines, ViewsHaveTheirWeights) {
  const auto json = nlohmann::json::parse(written(Format::jsonl, {otter_in_parts()}));
  ASSERT_EQ(json["views"].size(), 2U);
  EXPECT_EQ(json["views"][1], nlohmann::json::parse(R"({"index":357,"id":"n02442845",
      "label":"mink","prob":0.034,"weight":0.25,"box":{"left":0,"top":0,"width":224,"height":256}})"));
}

TEST(Text, TheFirstClassHasItsGroupOrIsUnsure) {
  ClassifyRecord record = otter();
  record.group = {"mammal", 0.97};
  EXPECT_THAT(written(Format::text, {record}), HasSubstr("otter  (n02444819)  mammal 97.00 %\n"));
  const auto json = nlohmann::json::parse(written(Format::jsonl, {record}));
  EXPECT_EQ(json["group"], nlohmann::json::parse(R"({"label":"mammal","prob":0.97})"));
  EXPECT_FALSE(json.contains("unsure"));
  record.group.reset();
  record.unsure = true;
  EXPECT_THAT(written(Format::text, {record}), HasSubstr("otter  (n02444819)  unsure\n"));
  EXPECT_EQ(nlohmann::json::parse(written(Format::jsonl, {record}))["unsure"], true);
}

TEST(Csv, AClassHasItsBox) {
  EXPECT_THAT(written(Format::csv, {otter_in_parts()}),
              HasSubstr(",225,1,360,n02444819,otter,0.9312,11.84,448,336,224,256,,,,cpu,"));
}

TEST(Text, AClassHasItsPlaceAndThePictureItsViews) {
  const std::string text = written(Format::text, {otter_in_parts()});
  EXPECT_THAT(text, HasSubstr("  2160x3840 -> 2 views of 224x256 (HxW)  "));
  EXPECT_THAT(
      text, ::testing::EndsWith("  1  93.12 %  otter  (n02444819)  at 500,400 in 224x256+448+336\n"
                                "  2   3.40 %  mink   (n02442845)  at 20,30 in 224x256+0+0\n"));
  EXPECT_THAT(written(Format::text, {otter_in_parts()}, LabelType::id),
              HasSubstr("n02444819  at 500,400 in 224x256+448+336\n"));
}

TEST(Csv, QuotesAsRfc4180Does) {
  ClassifyRecord record = broken();
  record.input = "a,\"b\"\n\xFF.jpg";
  record.frame = 3;
  EXPECT_THAT(written(Format::csv, {record}), HasSubstr("\n\"a,\"\"b\"\"\n\xFF.jpg\",3,,"));
}

TEST(Text, IsACompactTable) {
  EXPECT_EQ(written(Format::text, {otter(), broken()}),
            "otters.jpg  2160x3840 -> 224x256 (HxW)  225 tokens  13.4 ms  cpu float32 softmax\n"
            "  1  93.12 %  otter  (n02444819)\n"
            "  2   3.40 %  mink   (n02442845)\n"
            "bad.jpg  error: decode_failed: ends after 12 rows\n");
}

TEST(Text, FrameNoteAndSeconds) {
  ClassifyRecord record = otter();
  record.frame = 12;
  record.time = 0.4004;
  record.note = "padded";
  record.seconds = 2.345;
  EXPECT_THAT(
      written(Format::text, {record}),
      StartsWith(
          "otters.jpg  frame 12 at 0.400 s  2160x3840 -> 224x256 (HxW)  225 tokens  padded  2.3"));
}

TEST(Text, ColumnsKeepTheirPlaces) {
  ClassifyRecord record = otter();
  record.top.clear();
  for (int rank = 1; rank <= 10; ++rank) record.top.push_back({rank, rank, "", "x", 0, 0});
  record.top[0].prob = 1;
  record.top[0].label = std::string(60, 'l');
  record.top[0].id = "n1";
  record.top[1].label = "\xC3\xA9t\xC3\xA9";
  record.top[1].id = "n2";
  record.top[2].id = "n3";
  const std::string text = written(Format::text, {record});
  EXPECT_THAT(text, HasSubstr("\n   1  100.00 %  " + std::string(60, 'l') + "  (n1)\n"));
  EXPECT_THAT(text, HasSubstr("\n   2    0.00 %  \xC3\xA9t\xC3\xA9  (n2)\n"));
  EXPECT_THAT(text, HasSubstr("\n   3    0.00 %  x    (n3)\n"));
  EXPECT_THAT(text, HasSubstr("\n  10    0.00 %  x\n"));
}

TEST(Text, LabelTypes) {
  EXPECT_THAT(written(Format::text, {otter()}, LabelType::id), HasSubstr("93.12 %  n02444819\n"));
  EXPECT_THAT(written(Format::text, {otter()}, LabelType::index), HasSubstr("93.12 %  360\n"));
  ClassifyRecord record = otter();
  record.top[0].id = "";
  EXPECT_THAT(written(Format::text, {record}, LabelType::id), HasSubstr("93.12 %  otter\n"));
}

TEST(Text, ColorOnlyWhenAsked) {
  EXPECT_THAT(written(Format::text, {otter(), broken()}), Not(HasSubstr("\x1b")));
  const std::string colored = written(Format::text, {otter(), broken()}, LabelType::name, true);
  EXPECT_THAT(colored, HasSubstr("\x1b[1motters.jpg\x1b[0m"));
  EXPECT_THAT(colored, HasSubstr("\x1b[31merror: decode_failed"));
}

TEST(Text, NamesCannotCommandTheTerminal) {
  ClassifyRecord record = broken();
  record.input = "\x1b]0;owned\x07\nx.jpg";
  record.message = "line\nbreak";
  EXPECT_EQ(written(Format::text, {record}),
            "\\x1b]0;owned\\x07\\nx.jpg  error: decode_failed: line\\nbreak\n");
}

TEST(Writers, KeepBytesThatAreNoUtf8InCsvAndSpellThemInText) {
  ClassifyRecord record = otter();
  record.input = "\xFF.jpg";
  EXPECT_THAT(written(Format::csv, {record}), HasSubstr("\xFF.jpg"));
  EXPECT_THAT(written(Format::text, {record}), HasSubstr("\\xff.jpg"));
}

class RefusingBuffer final : public std::streambuf {};

TEST(Writers, AFullDiskIsAnError) {
  for (const Format format : {Format::text, Format::json, Format::jsonl, Format::csv}) {
    RefusingBuffer buffer;
    std::ostream out(&buffer);
    RecordStream stream = stream_to(format, out);
    try {
      write(stream, otter());
      FAIL() << "nothing was written";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unwritable);
    }
  }
}

class FlushCountingBuffer final : public std::stringbuf {
 public:
  int flushes = 0;

 protected:
  int sync() override {
    ++flushes;
    return 0;
  }
};

TEST(Writers, FlushEachRecord) {
  for (const Format format : {Format::text, Format::json, Format::jsonl, Format::csv}) {
    FlushCountingBuffer buffer;
    std::ostream out(&buffer);
    RecordStream stream = stream_to(format, out);
    write(stream, otter());
    EXPECT_EQ(buffer.flushes, 1);
    write(stream, broken());
    EXPECT_EQ(buffer.flushes, 2);
  }
}

}  // namespace
}  // namespace hydrascope::app
