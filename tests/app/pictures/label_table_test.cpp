#include "app/pictures/labelled_set.h"
#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::app {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class LabelTableTest : public ::testing::Test {
 protected:
  LabelTableTest() {
    for (const char* name : {"set/a.jpg", "set/b, c.jpg", "set/sub/d.png", "tables/e.jpg"})
      folder_.write(name);
  }
  LabelledSet read(std::string_view table) const {
    return read_labels_csv(folder_.write("tables/t.csv", table), folder_.path() / "set", labels_);
  }
  /// Files as paths relative to the test's folder, with their classes.
  std::vector<std::pair<std::string, std::int64_t>> found(std::string_view table) const {
    std::vector<std::pair<std::string, std::int64_t>> result;
    for (const LabelledPicture& picture : read(table).pictures)
      result.emplace_back(picture.file.lexically_relative(folder_.path()).lexically_normal(),
                          picture.target);
    return result;
  }

  testing::TemporaryFolder folder_;
  image::Labels labels_ = image::Labels::parse(
      "n02363005 beaver\nn02444819 otter, river otter\nn02012849 crane\nn03126707 crane\n", "test");
};

std::string utf16(std::string_view ascii, bool is_big_endian) {
  std::string bytes;
  for (const char letter : ascii) {
    if (is_big_endian) bytes += '\0';
    bytes += letter;
    if (!is_big_endian) bytes += '\0';
  }
  return bytes;
}

constexpr std::string_view kPlain = "file,label\na.jpg,1\n\"b, c.jpg\",0\n";

TEST_F(LabelTableTest, EveryFormSaysTheSame) {
  const auto expected = ElementsAre(Pair("set/a.jpg", 1), Pair("set/b, c.jpg", 0));
  const std::vector<std::string> tables{
      std::string(kPlain),
      "file;label\na.jpg;1\nb, c.jpg;0\n",
      "file\tlabel\na.jpg\t1\nb, c.jpg\t0\n",
      "file|label\na.jpg|1\nb, c.jpg|0\n",
      "file  label \na.jpg   1\n\"b, c.jpg\"  0  \n",
      "file,label\r\na.jpg,1\r\n\"b, c.jpg\",0\r\n",
      "file,label\ra.jpg,1\r\"b, c.jpg\",0",
      "\n\n File , LABEL \n\n  a.jpg ,\t1 \n,,\n \"b, c.jpg\" , 0 ,\n\n",
      "\"file\";\"label\"\n\"a.jpg\";\"1\"\n\"b, c.jpg\";\"0\"\n",
      "label,author,file\n1,\"x \"\"y\"\"\nz\",a.jpg\n0,,\"b, c.jpg\"\n",
      "\xEF\xBB\xBF" + std::string(kPlain),
      "sep=;\nfile;label\na.jpg;1\nb, c.jpg;0\n",
      "\"sep=\t\"\r\nfile\tlabel\r\na.jpg\t1\r\nb, c.jpg\t0\r\n",
      "# made by hand, in May\n#\n" + std::string(kPlain),
      "# file,label\na.jpg,1\n\"b, c.jpg\",0\n",
      "\xFF\xFE" + utf16(kPlain, false),
      "\xFE\xFF" + utf16(kPlain, true),
      utf16(kPlain, false),
      utf16(kPlain, true),
      "file,label\na.jpg,otter\n\"b, c.jpg\",beaver\n",
      "file,label\na.jpg,River_Otter\n\"b, c.jpg\",N02363005\n",
      "file,label\na.jpg,\"otter, river otter\"\n\"b, c.jpg\",000\n",
      "file,class_index\na.jpg,1\n\"b, c.jpg\",0\n",
      "file,class_index,label\na.jpg,1,Fischotter\n\"b, c.jpg\",0,\n",
      "ImageId,PredictionString\na,n02444819 1 2 3 4 n02444819 5 6 7 8 \n\"b, c\",n02363005 0 0 9 "
      "9\n",
      "a.jpg,1\n\"b, c.jpg\",0\n",
      "a.jpg 1\n\"b, c.jpg\" 0\n",
      "a\totter\nb, c\tbeaver\n",
  };
  for (const std::string& table : tables) EXPECT_THAT(found(table), expected) << table;
}

TEST_F(LabelTableTest, FilesOfSeveralPlacesAndSpellings) {
  const std::string absolute = (folder_.path() / "set/a.jpg").string();
  EXPECT_THAT(found("file,label\nsub/d.png,0\nsub\\d.png,0\nsub/d,0\n../set/a.jpg,1\ne.jpg,2\n"s +
                    "e,2\n" + absolute + ",1\nnot there.jpg,3\nnot there,3\n")
                  .size(),
              9U);
  EXPECT_THAT(found("file,class_index\nsub\\d,0\ne,2\nnone.jpg,3\n" + absolute + ",1\n"),
              ElementsAre(Pair("set/sub/d.png", 0), Pair("tables/e.jpg", 2),
                          Pair("set/none.jpg", 3), Pair("set/a.jpg", 1)));
  folder_.write("set/a.txt");
  EXPECT_THAT(found("file,label\na,1\n"), ElementsAre(Pair("set/a.jpg", 1)));
  folder_.write("set/a.png");
  EXPECT_ERROR(read("file,label\na,1\n"), invalid_argument, "a.jpg and a.png", "row 2");
  EXPECT_THAT(found("file,label\na.jpg,1\n"), ElementsAre(Pair("set/a.jpg", 1)));
}

TEST_F(LabelTableTest, NamesBeyondAscii) {
  folder_.write("set/k\xC3\xA4se\xF0\x9F\xA7\x80.jpg");
  const std::string file =
      "k\0\xE4\0s\0e\0\x3E\xD8\xC0\xDD.\0j\0p\0g\0"s;  // UTF-16 of one letter and one pair
  EXPECT_THAT(found("\xFF\xFE" + utf16("file,label\n", false) + file + utf16(",1\n", false)),
              ElementsAre(Pair("set/k\xC3\xA4se\xF0\x9F\xA7\x80.jpg", 1)));
}

TEST_F(LabelTableTest, NumbersOfAnIndexColumnAreIndices) {
  labels_ = image::Labels::parse("1\n2\n3\n", "from one");
  EXPECT_THAT(found("file,class_index\na.jpg,1\n"), ElementsAre(Pair("set/a.jpg", 1)));
  EXPECT_THAT(found("file,label\na.jpg,1\n"), ElementsAre(Pair("set/a.jpg", 0)));
  EXPECT_ERROR(read("file,label\na.jpg,0\n"), invalid_argument, "row 2", "called by numbers");
}

TEST_F(LabelTableTest, WhatIsRefusedAndWhy) {
  const auto refuse = [&](std::string_view table, const char* text, const char* place = "t.csv") {
    EXPECT_ERROR(read(table), invalid_argument, text, place);
  };
  refuse("file,author\na.jpg,1\n", "found: file, author");
  refuse("path,label\na.jpg,1\n", "found: path, label");
  refuse("foto;klasse\na.jpg;1\n", "found: foto, klasse");
  refuse("none.jpg,1\na.jpg,1\n", "found: none.jpg, 1");
  refuse("a.jpg,1,2\n", "found: a.jpg, 1, 2");
  refuse("", "empty");
  refuse("\n \n", "expected a header and rows");
  refuse("file,label\n", "expected a header and rows");
  refuse("file,label\n\n\na.jpg,1\nb.jpg,seal\n", "'seal'", "row 5");
  refuse("file,label\na.jpg,oter\n", "did you mean otter", "row 2");
  refuse("file,label\na.jpg,crane\n", "2 (n02012849: crane), 3 (n03126707: crane)", "row 2");
  refuse("file,label\na.jpg,4\n", "0 to 3", "row 2");
  refuse("file,label\na.jpg,-1\n", "0 to 3", "row 2");
  refuse("file,class_index\na.jpg,4\n", "count from 0", "row 2");
  refuse("file,label\na.jpg,\n", "column 'label' is empty", "row 2");
  refuse("file,label\na.jpg\n", "expected 2 columns, found 1", "row 2");
  refuse("file,label\n,1\n", "column 'file' is empty", "row 2");
  refuse("file,label\na.jpg,otter, river otter\n", "expected 2 columns, found 3", "row 2");
  refuse("file,label\na.jpg,0\n\nsub/d,1\na.jpg,0\n./a.jpg,1\n", "another class in row 2", "row 6");
  refuse("file,label\n\"a.jpg,1\n", "no end", "row 2");
  refuse("ImageId,PredictionString\na,n02363005 1 2 3 4 n02444819 1 2 3 4\n", "expected one class",
         "row 2");
  refuse("ImageId,PredictionString\na,n02363005 1 2 3\n", "four numbers", "row 2");
  refuse("file,label\na.jpg,\0\n"s, "zero bytes");
  refuse("\xFF\xFE\0\0f\0\0\0"s, "UTF-32");
  refuse("\0\0\xFE\xFF\0\0\0f"s, "UTF-32");
  refuse("file,label\n# of May\na.jpg,1\n", "expected 2 columns, found 1", "row 2");
  refuse("PK\x03\x04\0\0"s, "zero bytes");
  EXPECT_ERROR(read_labels_csv(folder_.path(), folder_.path(), labels_), invalid_argument,
               "cannot be read");
  EXPECT_ERROR(read_labels_csv(folder_.path() / "none.csv", folder_.path(), labels_),
               invalid_argument, "cannot be read", "none.csv");
}

}  // namespace
}  // namespace hydrascope::app
