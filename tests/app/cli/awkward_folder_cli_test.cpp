// A folder of everything awkward at once: in every command and format what is found is answered or has
// failed.
#include "tests/app/cli/program.h"
#include "tests/picture_files.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cctype>
#include <sys/stat.h>

namespace hydrascope::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Json = nlohmann::json;

const std::vector<std::string> kFormats{"text", "json", "jsonl", "csv", "tsv"};

class AwkwardFolder : public ::testing::Test {
 protected:
  AwkwardFolder() {
    run_well({"models create --arch deit_tiny_patch16_32 --num-classes 3 --seed 1 -o", model_});
    add_pictures();
    add_failures();
    add_what_is_no_picture();
  }
  ~AwkwardFolder() override { fs::permissions(set_ / "1/locked", fs::perms::owner_all); }

  void add_pictures() {
    for (const char* name : {"0/a.ppm", "0/new\nline.ppm", "0/quo\"te, comma.ppm", "0/tab\t.ppm",
                             "0/\xFF\xFE.ppm", "0/nested/deep/a.PPM", "2/a.ppm", "2/-rf.ppm"})
      answer(name, ppm(20, 20, static_cast<unsigned>(answered_) * 37));
    answer("0/" + std::string(240, 'x') + ".ppm", ppm(20, 20, 5));
    answer("1/baseline.jpg", good("baseline.jpg"));
    answer("1/two.mpo", good("baseline.jpg"));
    answer("1/still.apng", good("colour.png"));
    // Without OpenCV they fail, and are found all the same.
    for (const auto& [name, picture] : {std::pair{"2/b.JP2", "colour.jp2"},
                                        {"2/c.jpx", "colour.jp2"},
                                        {"2/d.webp", "lossy.webp"},
                                        {"2/e.tiff", "lzw.tif"}})
      answer(name, good(picture));
    fs::create_symlink("a.ppm", set_ / "2/link.ppm");
    ++answered_;
  }

  void add_failures() {
    const std::string jpeg = good("baseline.jpg");
    fail("0/cut.jpg", jpeg.substr(0, jpeg.size() / 2));
    fail("0/empty.png", "");
    fail("0/text.jpg", "no picture");
    fail("1/c.HEIC", std::string("\0\0\0\x18"
                                 "ftypheic",
                                 12));
    fail("1/d.avif", std::string("\0\0\0\x20"
                                 "ftypavif",
                                 12));
    fail("1/e.svg", "<svg/>");
    fail("1/f.NEF", good("lzw.tif"));
    fail("1/g.jxl", "\xFF\x0A");
    fs::create_symlink("/nonexistent/a.jpg", set_ / "1/dead.jpg");
    fs::create_symlink("/nonexistent/folder", set_ / "1/gone");
    fs::create_symlink("self.jpg", set_ / "1/self.jpg");
    mkfifo((set_ / "1/pipe.jpg").c_str(), 0600);
    failed_ += 4;
    // For root it is a picture more, for others a folder that fails.
    folder_.write("set/1/locked/a.ppm", ppm(20, 20, 3));
    fs::permissions(set_ / "1/locked", fs::perms::none);
    ++(geteuid() == 0 ? answered_ : failed_);
  }

  void add_what_is_no_picture() {
    for (const char* name : {"0/notes.txt", "0/labels.csv", "0/.hidden.ppm", "1/._baseline.jpg",
                             "2/.hidden/a.ppm", "2/clip.mp4"})
      folder_.write(std::string("set/") + name, "nothing to look at");
    folder_.write("set/2/IMG_1", ppm(20, 20));
    fs::create_directory_symlink("..", set_ / "1/set");
    fs::create_directory_symlink("../..", set_ / "1/above");
  }

  static std::string good(const char* name) {
    return read_bytes(fs::path(HYDRASCOPE_SOURCE_DIR) / "tests/corpus/pictures/good" / name);
  }
  void answer(const std::string& name, const std::string& bytes) {
    folder_.write("set/" + name, bytes);
    ++answered_;
  }
  void fail(const std::string& name, const std::string& bytes) {
    folder_.write("set/" + name, bytes);
    ++failed_;
  }

  /// The command on the set, which must end as one does of which some inputs failed.
  Outcome on_set(const Words& words) const {
    const Outcome outcome = run(words + Words{set_, "-m", model_, "--device cpu --threads 1"});
    EXPECT_EQ(outcome.code, 3) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("clip.mp4"));
    EXPECT_THAT(outcome.err, HasSubstr("IMG_1"));
    EXPECT_THAT(outcome.err, HasSubstr("1/above, ..."));
    EXPECT_TRUE(std::ranges::none_of(outcome.err, [](unsigned char byte) {
      return byte != '\n' && std::iscntrl(byte) != 0;
    })) << outcome.err;
    return outcome;
  }

  /// A row of a table for each record, of csv with its quoted lines.
  static std::vector<std::string> rows(const std::string& format, const std::string& out) {
    std::vector<std::string> rows(1);
    bool quoted = false;
    for (const char byte : out) {
      if (byte == '"' && format == "csv") quoted = !quoted;
      if (byte == '\n' && !quoted) {
        rows.emplace_back();
      } else {
        rows.back() += byte;
      }
    }
    rows.pop_back();
    return rows;
  }

  /// Records of `classify` and `visualize`: answered and failed.
  std::pair<int, int> count_records(const std::string& format, const Outcome& outcome) const {
    int records = 0;
    int failed = 0;
    if (format == "json" || format == "jsonl") {
      const auto list =
          format == "json" ? outcome.json().get<std::vector<Json>>() : outcome.records();
      for (const Json& record : list) failed += record.contains("error") ? 1 : 0;
      records = static_cast<int>(list.size());
    } else {
      for (const std::string& row : rows(format, outcome.out)) {
        if (row.starts_with("input") || row.starts_with("  ")) continue;  // a header, a class
        ++records;
        for (const char* code :
             {"empty", "decode_failed", "unsupported_format", "not_found", "unreadable"}) {
          const std::string word(code);
          const bool is_there = format == "text"
                                    ? row.find("error: " + word) != row.npos
                                    : row.find((format == "csv" ? "," : "\t") + word +
                                               (format == "csv" ? "," : "\t")) != row.npos;
          failed += is_there ? 1 : 0;
        }
      }
    }
    return {records - failed, failed};
  }

  /// A number of a summary.
  static int number(const std::string& format, const Outcome& outcome, const std::string& key) {
    if (format == "json" || format == "jsonl") return outcome.json().at(key).get<int>();
    const std::vector<std::string> lines = outcome.lines();
    if (format == "text") {
      for (const std::string& line : lines)
        if (line.starts_with(key + " ")) return std::stoi(line.substr(key.size()));
      throw std::runtime_error("no " + key + " in " + outcome.out);
    }
    const auto cells = [&](const std::string& line) {
      std::istringstream stream(line);
      std::vector<std::string> fields;
      for (std::string cell; std::getline(stream, cell, format == "csv" ? ',' : '\t');)
        fields.push_back(cell);
      return fields;
    };
    const std::vector<std::string> names = cells(lines.at(0));
    const auto at = std::ranges::find(names, key) - names.begin();
    return std::stoi(cells(lines.at(1)).at(static_cast<std::size_t>(at)));
  }

  TemporaryFolder folder_;
  fs::path set_ = folder_.path() / "set";
  fs::path model_ = folder_.path() / "model.safetensors";
  int answered_ = 0;
  int failed_ = 0;
};

TEST_F(AwkwardFolder, RecordsAddUp) {
  const std::pair<int, int> expected{answered_, failed_};
  for (const std::string& format : kFormats) {
    const Words as{"--recursive --format", format};
    EXPECT_EQ(count_records(format, on_set(Words{"classify --topk 1"} + as)), expected) << format;
    EXPECT_EQ(count_records(format, on_set(Words{"visualize -o", folder_.path() / format} + as)),
              expected)
        << format;
  }
}

TEST_F(AwkwardFolder, SummariesAddUp) {
  for (const std::string& format : kFormats) {
    for (const Words& command :
         {Words{"evaluate"}, Words{"compare --against-attn hydra"},
          Words{"faithfulness --measure deletion --method attention --steps 1"}}) {
      if (command.front() == "faithfulness" && (format == "csv" || format == "tsv")) continue;
      const Outcome outcome = on_set(command + Words{"--format", format});
      EXPECT_EQ(number(format, outcome, "images"), answered_) << command.front() << ' ' << format;
      EXPECT_EQ(number(format, outcome, "failed"), failed_) << command.front() << ' ' << format;
    }
    const Outcome rows =
        on_set({"faithfulness --measure deletion --method attention --steps 1 "
                "--limit-images 100 --format csv"});
    EXPECT_EQ(number("csv", rows, "images"), answered_);
    const Outcome limited = on_set({"evaluate --limit-images 12 --format", format});
    EXPECT_EQ(number(format, limited, "images") + number(format, limited, "failed"), 12);
  }
  const Json diagnosed = on_set({"diagnose --limit-images 1000 --format json"}).json();
  EXPECT_EQ(diagnosed.at("images"), answered_);
  EXPECT_EQ(diagnosed.at("failed"), failed_);
  EXPECT_THAT(on_set({"diagnose --limit-images 1000"}).out,
              HasSubstr("over " + std::to_string(answered_) + " pictures, " +
                        std::to_string(failed_) + " more failed"));
}

TEST_F(AwkwardFolder, TrainingSaysWhatItCannotLearnFrom) {
  const Outcome trained =
      on_set({"train --epochs 1 -b 1 --warmup-epochs 0 --workers 1 --lr 1e-5 "
              "--format json -o",
              folder_.path() / "run"});
  EXPECT_EQ(trained.json().at("unreadable_pictures"), failed_);
}

TEST_F(AwkwardFolder, ConversionSaysWhatItCannotLearnFrom) {
  const Outcome converted =
      run({"convert -m", model_, "-i", set_, "-o", folder_.path() / "out.safetensors",
           "--attn hydra:last1 --held-out 4 -b 4 --batch-size-maps 2 --steps-maps 2 "
           "--steps-outputs 2 --epochs 1 --evaluations 1 --threads 1 --workers 1 --device cpu "
           "--format json --eval",
           set_});
  EXPECT_EQ(converted.code, 3) << converted.err;
  EXPECT_EQ(converted.json().at("unreadable_pictures"), failed_) << converted.err;
  EXPECT_EQ(converted.json().at("eval_images"), answered_);
}

}  // namespace
}  // namespace hydrascope::testing
