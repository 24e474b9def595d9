#include "app/pictures/inputs.h"

#include "model/image/picture_formats.h"
#include "tests/as_nobody.h"
#include "tests/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <sstream>
#include <streambuf>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace hydrascope::app {
namespace {

namespace fs = std::filesystem;
using hydrascope::testing::TemporaryFolder;
using std::string_literals::operator""s;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class InputStreamTest : public ::testing::Test {
 protected:
  std::vector<Input> inputs(std::vector<std::string> specs, bool recursive = false,
                            const std::string& standard_input = "") {
    std::istringstream stream(standard_input);
    InputStream source(std::move(specs), recursive, {}, &stream);
    std::vector<Input> all;
    while (auto input = source.next()) all.push_back(std::move(*input));
    EXPECT_FALSE(source.next().has_value());
    return all;
  }

  /// What `inputs` gives, shortened: the temporary folder as "~", videos "name +video", failures
  /// "name !code".
  std::vector<std::string> names(std::vector<std::string> specs, bool recursive = false,
                                 const std::string& standard_input = "") {
    std::vector<std::string> all;
    for (const Input& input : inputs(std::move(specs), recursive, standard_input)) {
      std::string text = input.given;
      const std::size_t folder = text.find(folder_.path().native());
      if (folder != std::string::npos) text.replace(folder, folder_.path().native().size(), "~");
      if (input.is_video) text += " +video";
      if (input.error) {
        text += " !" + std::string(name(*input.error));
        EXPECT_NE(input.message, "");
      } else {
        EXPECT_EQ(input.message, "");
      }
      all.push_back(text);
    }
    return all;
  }

  std::string at(const std::string& name) const { return (folder_.path() / name).native(); }

  TemporaryFolder folder_;
};

TEST(Extensions, AreCaseInsensitive) {
  for (const char* name :
       {"a.jpg",  "a.JPG",       "a.jpeg", "a.jpe", "a.jfif", "a.png", "a.webp", "a.tif",
        "a.tiff", "a.bmp",       "a.dib",  "a.gif", "a.pnm",  "a.ppm", "a.pgm",  "a.pbm",
        "a.Psd",  "x.y/a.b.jpg", "a.jp2",  "a.J2K", "a.jpf",  "a.mpo", "a.apng", "a.HEIC",
        "a.avif", "a.svg",       "a.CR2",  "a.nef", "a.jxl"}) {
    EXPECT_TRUE(has_image_extension(name)) << name;
    EXPECT_FALSE(image::is_named_as_video(name)) << name;
  }
  for (const char* name :
       {"a.mp4", "a.MOV", "a.mkv", "a.avi", "a.webm", "a.m4v", "a.mpg", "a.mpeg"}) {
    EXPECT_TRUE(image::is_named_as_video(name)) << name;
    EXPECT_FALSE(has_image_extension(name)) << name;
  }
  for (const char* name : {"a", "jpg", ".jpg", "a.txt", "a.jpg.txt", "a.jpg/b"}) {
    EXPECT_FALSE(has_image_extension(name)) << name;
  }
}

TEST_F(InputStreamTest, NoneGiveNone) { EXPECT_THAT(names({}), IsEmpty()); }

TEST_F(InputStreamTest, NamedFilesAreTakenWhateverTheyAreCalled) {
  const std::vector<std::string> odd{"notes.txt", "no_extension", "a,b.jpg",   "a b.jpg",
                                     "*.jpg",     "[x].jpg",      "@list.txt", "-rf.jpg",
                                     "new\nline", "\xFF\xFE.jpg", ".hidden"};
  std::vector<std::string> specs;
  for (const std::string& name : odd) {
    folder_.write(name);
    specs.push_back(at(name));
  }
  const std::vector<Input> found = inputs(specs);
  ASSERT_EQ(found.size(), odd.size());
  for (std::size_t index = 0; index < odd.size(); ++index) {
    EXPECT_EQ(found[index].given, specs[index]);
    EXPECT_EQ(found[index].path, specs[index]);
    EXPECT_FALSE(found[index].error.has_value()) << specs[index];
  }
}

TEST_F(InputStreamTest, VideosAreToldApart) {
  folder_.write("clip.MP4");
  EXPECT_THAT(names({at("clip.MP4")}), ElementsAre("~/clip.MP4 +video"));
  for (const char* name : {"a.flv", "a.ts", "a.MTS", "a.m2ts", "a.3gp", "a.wmv", "a.vob", "a.m2v",
                           "a.ogv", "a.mjpeg", "a.h264"}) {
    folder_.write(name);
    EXPECT_THAT(names({at(name)}), ElementsAre("~/" + std::string(name) + " +video"));
  }
  std::istringstream nothing;
  InputStream source({folder_.path()}, false, {}, &nothing);
  while (source.next()) continue;
  EXPECT_EQ(source.passed().videos.count, 12);
}

TEST_F(InputStreamTest, MissingPaths) {
  folder_.write("a.jpg");
  fs::create_symlink("nowhere", folder_.path() / "dead.jpg");
  EXPECT_THAT(names({at("b.jpg"), at("a.jpg/c.jpg"), at("dead.jpg"), at(std::string(300, 'x')), "",
                     at("a.jpg")}),
              ElementsAre("~/b.jpg !not_found", "~/a.jpg/c.jpg !not_found", "~/dead.jpg !not_found",
                          "~/" + std::string(300, 'x') + " !not_found", " !not_found", "~/a.jpg"));
  EXPECT_THAT(names({at("a.jpg") + '\0' + "b"}), ElementsAre(HasSubstr("!not_found")));
}

TEST_F(InputStreamTest, ALinkToItselfIsUnreadable) {
  fs::create_symlink("loop.jpg", folder_.path() / "loop.jpg");
  EXPECT_THAT(names({at("loop.jpg")}), ElementsAre("~/loop.jpg !unreadable"));
}

TEST_F(InputStreamTest, AFolderGivesItsImagesInByteOrder) {
  for (const char* name : {"b.jpg", "B.PNG", "a.jpeg", "10.jpg", "9.jpg", "notes.txt", "clip.mp4",
                           ".hidden.jpg", "\xC3\xA9.jpg", "\xFF.jpg", "sub/c.jpg"}) {
    folder_.write(name);
  }
  EXPECT_THAT(names({folder_.path()}), ElementsAre("~/10.jpg", "~/9.jpg", "~/B.PNG", "~/a.jpeg",
                                                   "~/b.jpg", "~/\xC3\xA9.jpg", "~/\xFF.jpg"));
  EXPECT_THAT(names({folder_.path().native() + '/'}).front(), "~/10.jpg");
}

TEST_F(InputStreamTest, RecursionHasTheOrderOfSortedPaths) {
  for (const char* name : {"b.jpg", "b/2.jpg", "b/1/z.jpg", "b-1.jpg", "b0.jpg", "a/a.jpg",
                           ".git/x.jpg", "c/notes.txt"}) {
    folder_.write(name);
  }
  EXPECT_THAT(names({folder_.path()}, true), ElementsAre("~/a/a.jpg", "~/b-1.jpg", "~/b.jpg",
                                                         "~/b/1/z.jpg", "~/b/2.jpg", "~/b0.jpg"));
  EXPECT_THAT(names({folder_.path()}), ElementsAre("~/b-1.jpg", "~/b.jpg", "~/b0.jpg"));
}

TEST_F(InputStreamTest, FoldersWithoutImages) {
  folder_.write("sub/notes.txt");
  fs::create_directory(folder_.path() / "bare");
  EXPECT_THAT(names({at("bare"), at("sub")}), ElementsAre("~/bare !empty", "~/sub !empty"));
  EXPECT_THAT(names({folder_.path()}, true), ElementsAre("~ !empty"));
  EXPECT_THAT(inputs({folder_.path()}).front().message, HasSubstr("`recursive`"));
  EXPECT_THAT(inputs({at("bare")}).front().message, ::testing::Not(HasSubstr("`recursive`")));
}

TEST_F(InputStreamTest, LinkedFoldersAreWalkedWithoutEnd) {
  folder_.write("data/x.jpg");
  fs::create_directory_symlink("data", folder_.path() / "linked");
  fs::create_directory_symlink("..", folder_.path() / "data/up");
  fs::create_symlink("x.jpg", folder_.path() / "data/y.jpg");
  fs::create_symlink("nowhere", folder_.path() / "data/z.jpg");
  EXPECT_THAT(names({at("linked")}),
              ElementsAre("~/linked/x.jpg", "~/linked/y.jpg", "~/linked/z.jpg !not_found"));
  EXPECT_THAT(names({folder_.path()}, true),
              ElementsAre("~/data/x.jpg", "~/data/y.jpg", "~/data/z.jpg !not_found"))
      << "what a walk comes by anyway is an input once";
}

TEST_F(InputStreamTest, NoPictureIsAnInputTwice) {
  for (const char* name : {"d/a/1.jpg", "d/b/2.jpg", "d/b/in/3.jpg", "out/4.jpg", "out/sub/5.jpg"})
    folder_.write(name);
  const auto link = [&](const char* to, const char* from) {
    fs::create_directory_symlink(folder_.path() / to, folder_.path() / from);
  };
  link("d/b", "d/a/l");
  link("d/b/in", "d/z");
  const auto inner = ElementsAre("~/d/a/1.jpg", "~/d/b/2.jpg", "~/d/b/in/3.jpg");
  EXPECT_THAT(names({at("d")}, true), inner);
  EXPECT_THAT(names({at("d/**/*.jpg")}), inner);
  EXPECT_THAT(names({at("*/**/2.jpg")}), ElementsAre("~/d/b/2.jpg"));
  EXPECT_THAT(names({at("d/**/l/*.jpg")}), ElementsAre("~/d/a/l/2.jpg")) << "the link is named";
  EXPECT_THAT(names({at("d/**/a/**/*.jpg")}),
              ElementsAre("~/d/a/1.jpg", "~/d/a/l/2.jpg", "~/d/a/l/in/3.jpg"))
      << "no other way leads there";
  // Behind links, whichever comes first.
  link("out", "d/m");
  link("out/sub", "d/n");
  link("out/sub", "d/k");
  EXPECT_THAT(names({at("d")}, true), ElementsAre("~/d/a/1.jpg", "~/d/b/2.jpg", "~/d/b/in/3.jpg",
                                                  "~/d/k/5.jpg", "~/d/m/4.jpg"));
}

TEST_F(InputStreamTest, FoldersThatAllLinkToOneAnotherAreWalkedInPolynomialTime) {
  constexpr int kFolders = 12;
  for (int from = 0; from < kFolders; ++from) {
    folder_.write("f" + std::to_string(from) + "/x.jpg");
    for (int to = 0; to < kFolders; ++to) {
      fs::create_directory_symlink(
          "../f" + std::to_string(to),
          folder_.path() / ("f" + std::to_string(from)) / ("to" + std::to_string(to)));
    }
  }
  const auto found = names({folder_.path()}, true);
  EXPECT_GE(found.size(), kFolders);
  EXPECT_LE(found.size(), 3 * kFolders);
}

TEST_F(InputStreamTest, PipesInAFolderAreNotOpenedButMayBeNamed) {
  folder_.write("a.jpg");
  ASSERT_EQ(::mkfifo(at("pipe.jpg").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo(at("control").c_str(), 0600), 0);
  EXPECT_THAT(names({folder_.path(), at("pipe.jpg")}),
              ElementsAre("~/a.jpg", "~/pipe.jpg !unreadable", "~/pipe.jpg"));
}

TEST_F(InputStreamTest, LinksThatLeadNowhereAreFound) {
  folder_.write("a.jpg");
  for (const char* name : {"b.jpg", "folder", "c.HEIC", "clip.MP4", "notes.txt", ".hidden.jpg"})
    fs::create_symlink("/nonexistent/x", folder_.path() / name);
  fs::create_symlink("self.jpg", folder_.path() / "self.jpg");
  EXPECT_THAT(names({folder_.path()}),
              ElementsAre("~/a.jpg", "~/b.jpg !not_found", "~/c.HEIC !not_found",
                          "~/clip.MP4 !not_found", "~/folder !not_found", "~/self.jpg !unreadable"))
      << "one without an extension may have been a folder";
}

TEST_F(InputStreamTest, LinksToFoldersAboveAreNotFollowed) {
  folder_.write("outside.jpg");
  folder_.write("set/a/x.jpg");
  fs::create_directory_symlink("..", folder_.path() / "set/a/set");
  fs::create_directory_symlink("../..", folder_.path() / "set/a/above");
  fs::create_directory_symlink("/", folder_.path() / "set/a/root");
  fs::create_directory_symlink("set", folder_.path() / "linked");
  for (const char* word : {"set", "set/a", "set/", "linked", "set/**/*.jpg"}) {
    std::istringstream nothing;
    InputStream source({at(word)}, true, {}, &nothing);
    int found = 0;
    while (const auto input = source.next()) {
      ++found;
      EXPECT_TRUE(input->given.ends_with("a/x.jpg") || input->given.ends_with("a//x.jpg"));
    }
    EXPECT_EQ(found, 1) << word;
    EXPECT_EQ(source.passed().links.count, 3) << word;
    EXPECT_THAT(source.passed().notes(), ElementsAre(HasSubstr("a/above, ...")));
  }
}

TEST_F(InputStreamTest, WhatIsPassedOverIsCounted) {
  for (const char* name : {"a.jpg", "clip.mp4", "film.MKV", "notes.txt", "empty"})
    folder_.write(name);
  folder_.write("IMG_1", "\xFF\xD8\xFF\xE0");
  folder_.write("b.jpg.part", "GIF89a");
  std::istringstream nothing;
  InputStream source({folder_.path()}, false, {}, &nothing);
  EXPECT_EQ(source.next()->given, at("a.jpg"));
  EXPECT_FALSE(source.next().has_value());
  EXPECT_EQ(source.passed().videos.count, 2);
  EXPECT_EQ(source.passed().pictures.count, 2);
  EXPECT_EQ(source.passed().links.count, 0);
  EXPECT_THAT(source.passed().notes(),
              ElementsAre(AllOf(HasSubstr("2 videos"), HasSubstr("clip.mp4")),
                          AllOf(HasSubstr("2 files"), HasSubstr("IMG_1"))));
}

TEST_F(InputStreamTest, AFolderThatCannotBeListed) {
  folder_.write("a/x.jpg");
  folder_.write("b/x.jpg");
  fs::permissions(folder_.path() / "a", fs::perms::none);
  std::vector<std::string> recursive;
  std::vector<std::string> named;
  std::vector<std::string> matched;
  {
    const hydrascope::testing::AsNobody nobody(folder_.path());
    recursive = names({folder_.path()}, true);
    named = names({at("a"), at("a/x.jpg")});
    matched = names({at("*/*.jpg")});
  }
  fs::permissions(folder_.path() / "a", fs::perms::owner_all);
  EXPECT_THAT(recursive, ElementsAre("~/a !unreadable", "~/b/x.jpg"));
  EXPECT_THAT(named, ElementsAre("~/a !unreadable", "~/a/x.jpg !unreadable"));
  EXPECT_THAT(matched, ElementsAre("~/a !unreadable", "~/b/x.jpg"));
}

TEST_F(InputStreamTest, PatternsFindImages) {
  for (const char* name : {"a.jpg", "b.jpg", "b.txt", "c.mp4", "d.raw", "sub/e.jpg"}) {
    folder_.write(name);
  }
  EXPECT_THAT(names({at("*")}), ElementsAre("~/a.jpg", "~/b.jpg"));
  EXPECT_THAT(names({at("b*")}), ElementsAre("~/b.jpg"));
  EXPECT_THAT(names({at("**/*.jpg")}), ElementsAre("~/a.jpg", "~/b.jpg", "~/sub/e.jpg"));
  EXPECT_THAT(names({at("*.mp4")}), ElementsAre("~/c.mp4 +video")) << "its extension is named";
  EXPECT_THAT(names({at("*.raw")}), ElementsAre("~/d.raw"));
  EXPECT_THAT(names({at("*.mp[34]")}), ElementsAre("~/*.mp[34] !empty"));
  EXPECT_THAT(names({at("no/*.jpg")}), ElementsAre("~/no/*.jpg !empty"));
}

TEST_F(InputStreamTest, AListNamesOnePathALine) {
  folder_.write("pictures/a.jpg");
  folder_.write("pictures/b.jpg");
  folder_.write("pictures/# c.jpg");
  folder_.write("pictures/ d .jpg");
  folder_.write("pictures/more/e.jpg");
  folder_.write("pictures/list.txt",
                "\xEF\xBB\xBF"
                "a.jpg\r\n\r\n\n# c.jpg\n" +
                    at("pictures/b.jpg") + "\nmore\nmissing.jpg\n d .jpg");
  const std::vector<Input> found = inputs({"@" + at("pictures/list.txt")});
  ASSERT_EQ(found.size(), 6);
  EXPECT_EQ(found[0].given, "a.jpg") << "records show the line, without the list's folder";
  EXPECT_EQ(found[0].path, at("pictures/a.jpg"));
  EXPECT_EQ(found[1].given, "# c.jpg");
  EXPECT_EQ(found[2].given, at("pictures/b.jpg"));
  EXPECT_EQ(found[3].given, "more/e.jpg");
  EXPECT_EQ(found[3].path, at("pictures/more/e.jpg"));
  EXPECT_EQ(found[4].given, "missing.jpg");
  EXPECT_EQ(found[4].error, ErrorCode::not_found);
  EXPECT_EQ(found[5].given, " d .jpg");
  EXPECT_FALSE(found[5].error.has_value());
}

TEST_F(InputStreamTest, LinesAreNeitherListsNorPatternsNorStandardInput) {
  folder_.write("a.jpg");
  folder_.write("inner.txt", "a.jpg\n");
  folder_.write("list.txt", "@inner.txt\n*.jpg\n-\na.jpg\n");
  EXPECT_THAT(names({"@" + at("list.txt")}, false, "a.jpg\n"),
              ElementsAre("@inner.txt !not_found", "*.jpg !not_found", "- !not_found", "a.jpg"));
}

TEST_F(InputStreamTest, ListsThatAreNone) {
  folder_.write("blank.txt", "\n\r\n\n");
  EXPECT_THAT(
      names({"@" + at("no.txt"), "@" + folder_.path().native(), "@" + at("blank.txt"), "@"}),
      ElementsAre("@~/no.txt !not_found", "@~ !unreadable", "@~/blank.txt !empty", "@ !not_found"));
}

TEST_F(InputStreamTest, APictureGivenAsAListDoesNotFillTheMemory) {
  folder_.write("list.txt", std::string(100'000, 'x') + "\n" + std::string("a\0b", 3) + "\n");
  const std::vector<Input> found = inputs({"@" + at("list.txt")});
  ASSERT_EQ(found.size(), 2);
  EXPECT_EQ(found[0].error, ErrorCode::not_found);
  EXPECT_LE(found[0].given.size(), 4096);
  EXPECT_EQ(found[1].error, ErrorCode::not_found);
}

TEST_F(InputStreamTest, StandardInputOnce) {
  folder_.write("a.jpg");
  folder_.write("sub/b.jpg");
  EXPECT_THAT(names({"-", at("a.jpg"), "-"}, false, at("a.jpg") + "\n\n" + at("sub") + "\n"),
              ElementsAre("~/a.jpg", "~/sub/b.jpg", "~/a.jpg", "- !unreadable"));
  EXPECT_THAT(names({"-"}, false, ""), ElementsAre("- !empty"));
}

/// One byte at a time, each noted; as a slow pipe gives them.
class CountingBuffer final : public std::streambuf {
 public:
  explicit CountingBuffer(std::string text) : text_(std::move(text)) {}
  std::size_t taken() const { return taken_; }

 protected:
  int_type underflow() override {
    if (taken_ == text_.size()) return traits_type::eof();
    setg(&text_[taken_], &text_[taken_], &text_[taken_] + 1);
    ++taken_;
    return traits_type::to_int_type(*gptr());
  }

 private:
  std::string text_;
  std::size_t taken_ = 0;
};

TEST_F(InputStreamTest, APictureOnStandardInputIsTaken) {
  using std::string_view_literals::operator""sv;
  for (const std::string_view head :
       {"\xFF\xD8\xFF\xE0\0\x10JFIF"sv, "\x89PNG\r\n\x1A\n\0\0\0\rIHDR"sv, "GIF89a\1\0\1\0"sv,
        "RIFF\n\0\0\0WEBPVP8 "sv, "II*\0\x08\0\0\0"sv, "MM\0*\0\0\0\x08"sv, "P6\n4 4\n255\n"sv,
        "BM\n\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0"sv, "8BPS\0\1"sv, "\0\0\0\x0CjP  \r\n\x87\n"sv,
        "\xFF\x4F\xFF\x51"sv,
        "\0\0\0\x18"
        "ftypheic"sv}) {
    const std::string bytes = std::string(head) + "\nmore\0\n"s;
    const std::vector<Input> found = inputs({"-"}, false, bytes);
    ASSERT_EQ(found.size(), 1U) << head;
    EXPECT_EQ(found[0].given, "-");
    ASSERT_FALSE(found[0].error.has_value()) << found[0].message;
    ASSERT_NE(found[0].memory, nullptr);
    EXPECT_EQ(found[0].memory->encoded.size(), bytes.size());
    EXPECT_EQ(std::memcmp(found[0].memory->encoded.data(), bytes.data(), bytes.size()), 0);
    folder_.write("list", bytes);
    const std::vector<Input> listed = inputs({"@" + at("list")});
    ASSERT_EQ(listed.size(), 1U);
    EXPECT_EQ(listed[0].error, ErrorCode::unsupported_format);
    EXPECT_THAT(listed[0].message, HasSubstr("without the @"));
  }
}

TEST_F(InputStreamTest, OtherFilesOnStandardInputAreOneError) {
  using std::string_view_literals::operator""sv;
  for (const std::string_view bytes :
       {"\0\0\0\x18"
        "ftypisom\0\0\2\0"sv,
        "\x1A\x45\xDF\xA3\x01\0\0\0\n"sv, "RIFF\1\2\3\4AVI LIST\0\0"sv,
        "\xFF\xFE"
        "a\0.\0j\0p\0g\0\n\0"sv,
        "PK\3\4\n\0\0"sv, "%PDF-1.7\n%\xE2\n"sv, "\x1F\x8B\x08\0\n\n\n"sv}) {
    const std::vector<Input> found = inputs({"-"}, false, std::string(bytes));
    ASSERT_EQ(found.size(), 1U) << bytes;
    EXPECT_EQ(found[0].given, "-");
    EXPECT_EQ(found[0].error, ErrorCode::unsupported_format);
    EXPECT_THAT(found[0].message, HasSubstr("neither a picture nor a list"));
  }
}

TEST_F(InputStreamTest, ZeroBytesSeparateWhereThereAreSome) {
  for (const char* name : {"a.jpg", "b\nc.jpg", "d \"e.jpg"}) folder_.write(name);
  const std::string zero(1, '\0');
  const std::string text = at("b\nc.jpg") + zero + at("a.jpg") + zero + at("d \"e.jpg") + zero;
  EXPECT_THAT(names({"-"}, false, text), ElementsAre("~/b\nc.jpg", "~/a.jpg", "~/d \"e.jpg"));
  folder_.write("list", "a.jpg" + zero + "b\nc.jpg" + zero);
  EXPECT_THAT(names({"@" + at("list")}), ElementsAre("a.jpg", "b\nc.jpg"));
  // A slow pipe shows no more than its first path.
  CountingBuffer buffer(at("a.jpg") + zero + at("d \"e.jpg") + zero);
  std::istream slow(&buffer);
  InputStream source({"-"}, false, {}, &slow);
  EXPECT_EQ(source.next()->given, at("a.jpg"));
  EXPECT_EQ(source.next()->given, at("d \"e.jpg"));
}

TEST_F(InputStreamTest, Addresses) {
  folder_.write("a b.jpg");
  const std::string path = at("a%20b.jpg");
  EXPECT_THAT(names({"file://" + path, "file://localhost" + path, "FILE:" + path}),
              ElementsAre("file://~/a%20b.jpg", "file://localhost~/a%20b.jpg", "FILE:~/a%20b.jpg"));
  EXPECT_EQ(inputs({"file://" + path}).front().path, at("a b.jpg"));
  EXPECT_THAT(names({"-"}, false, "file://" + path + "\r\n"), ElementsAre("file://~/a%20b.jpg"));
  EXPECT_THAT(names({"file://" + at("none.jpg"), "file://" + at("a%00.jpg"), "file://host/a.jpg"}),
              ::testing::Each(HasSubstr("!not_found")));
  for (const char* word : {"https://example.org/a.jpg?b=1&c=*", "http://x/[1].jpg", "s3://b/a.jpg",
                           "FTP://x/a.jpg", "data:image/png;base64,iVBORw0KGgo="}) {
    for (const Input& input : {inputs({word}).front(), inputs({"-"}, false, word).front()}) {
      EXPECT_EQ(input.error, ErrorCode::not_found) << word;
      EXPECT_THAT(input.message, HasSubstr("fetches nothing"));
    }
  }
  EXPECT_EQ(inputs({"-"}, false, "none.jpg").front().message, "no such file or folder");
}

TEST_F(InputStreamTest, StandardInputIsReadNoFurtherThanNeeded) {
  folder_.write("a.jpg");
  const std::string line = at("a.jpg") + "\n";
  CountingBuffer buffer(line + line);
  std::istream stream(&buffer);
  InputStream source({"-"}, false, {}, &stream);
  ASSERT_TRUE(source.next().has_value());
  EXPECT_EQ(buffer.taken(), line.size());
}

TEST_F(InputStreamTest, EverythingInTheOrderGiven) {
  folder_.write("z.jpg");
  folder_.write("d/a.jpg");
  folder_.write("list.txt", "z.jpg\n");
  EXPECT_THAT(names({at("z.jpg"), at("d"), at("gone.jpg"), "@" + at("list.txt"), at("d/*")}),
              ElementsAre("~/z.jpg", "~/d/a.jpg", "~/gone.jpg !not_found", "z.jpg", "~/d/a.jpg"));
}

using ::testing::Not;

class InputCountTest : public ::testing::Test {
 protected:
  InputCountTest() {
    for (const char* name : {"a.jpg", "b.jpg", "sub/c.jpg", "text.txt", "clip/d.mp4"})
      folder_.write(name);
    folder_.write("list.txt", "a.jpg\nsub\nb.jpg\n");
  }
  std::string path(const char* name) const { return (folder_.path() / name).string(); }

  /// The progress line after one picture and the first frames of videos.
  std::string shown(std::vector<std::string> words, bool recursive,
                    const std::vector<image::VideoFacts>& videos = {}) {
    ProgressOptions options;
    options.style = ProgressStyle::bar;
    options.seconds = [now = 0.0]() mutable { return now += 1; };
    std::ostringstream out;
    Progress progress(options, out);
    InputStream inputs(std::move(words), recursive);
    InputCount count(inputs, progress);
    for (const image::VideoFacts& video : videos) count.add_video(video);
    progress.advance();
    return out.str();
  }

  testing::TemporaryFolder folder_;
};

TEST_F(InputCountTest, FoldersListsAndPatternsHaveATotal) {
  const std::string all = folder_.path().string();
  EXPECT_THAT(shown({all}, false), HasSubstr("1/2 "));
  EXPECT_THAT(shown({path("*.jpg"), path("sub")}, false), HasSubstr("1/3 "));
  EXPECT_THAT(shown({"@" + path("list.txt")}, false), HasSubstr("1/3 "));
  EXPECT_THAT(shown({all, path("a.jpg"), path("missing.jpg")}, true), HasSubstr("1/5 "))
      << "what fails is an input, too";
}

TEST_F(InputCountTest, AVideoCountsItsFramesOnceTheyAreKnown) {
  const image::VideoFacts known{.num_frames = 70, .stride = 10, .num_read = 7};
  const std::string folder = folder_.path().string();
  EXPECT_THAT(shown({path("clip/d.mp4")}, false, {known}), HasSubstr("1/7 "));
  EXPECT_THAT(shown({folder, path("clip/d.mp4")}, false, {known}), HasSubstr("1/9 "));
  EXPECT_THAT(shown({path("clip/d.mp4")}, false, {{}}), HasSubstr("1 images  "))
      << "the file does not say them";
  EXPECT_THAT(shown({path("clip/d.mp4"), path("clip/d.mp4")}, false, {known}),
              HasSubstr("1 images  "))
      << "one of two has not come";
}

TEST_F(InputCountTest, WhatIsCountedIsGivenLater) {
  InputStream inputs({folder_.path().string()}, true);
  ASSERT_NE(inputs.count(), nullptr);
  EXPECT_EQ(inputs.count()->size(), 3U);
  for (const char* name : {"a.jpg", "b.jpg", "sub/c.jpg"})
    EXPECT_EQ(inputs.next()->path, path(name));
  EXPECT_FALSE(inputs.next().has_value());
  EXPECT_EQ(inputs.passed().videos.count, 1);
}

TEST_F(InputCountTest, APictureIsATotalBeforeItIsThere) {
  ProgressOptions options;
  options.style = ProgressStyle::bar;
  options.seconds = [now = 0.0]() mutable { return now += 1; };
  std::ostringstream out;
  Progress progress(options, out);
  InputStream inputs({path("a.jpg")}, false);
  const InputCount count(inputs, progress);
  progress.add_part(0.5);
  EXPECT_THAT(out.str(), HasSubstr("0/1  50 %"));
}

TEST_F(InputCountTest, WhatCanBeReadOnceOrHasUnknownFramesHasNone) {
  const std::string pipe = path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& word : {std::string("-"), "@" + pipe, path("clip/d.mp4")})
    EXPECT_THAT(shown({folder_.path().string(), word}, false), HasSubstr("1 images  ")) << word;
}

}  // namespace
}  // namespace hydrascope::app
