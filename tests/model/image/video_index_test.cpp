#include "model/image/video_index.h"

#include "tests/model/image/sample_files.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace hydrascope::image {
namespace {

using testing::data_folder;
using testing::read_file;

std::string video(const std::string& name) {
  return read_file(data_folder("../corpus/videos") / name);
}

VideoIndex index_of(const std::string& bytes) {
  std::istringstream stream(bytes);
  return read_video_index(stream);
}

/// 40 frames 25 ms apart, then ten a second apart.
std::vector<double> uneven_times() {
  std::vector<double> times;
  for (int i = 0; i < 40; ++i) times.push_back(0.025 * i);
  for (int i = 1; i <= 10; ++i) times.push_back(i);
  return times;
}

void expect_times(const VideoIndex& index, const std::vector<double>& expected) {
  ASSERT_EQ(index.times.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(index.times[i], expected[i], 1e-9) << i;
}

/// A file that ends early says so where its pieces have sizes.
TEST(VideoIndex, AFileThatListsNoFramesMayBeCut) {
  using std::string_literals::operator""s;
  const std::string flv = "FLV\1\1\0\0\0\x09\0\0\0\0"s + "\x09\0\0\2\0\0\0\0\0\0\0ab\0\0\0\x0D"s +
                          "\x09\0\0\1\0\0\0\0\0\0\0c\0\0\0\x0C"s;
  std::string ivf = "DKIF\0\0\x20\0VP80"s;
  ivf.resize(32);
  ivf += "\2\0\0\0"s + std::string(8, '\0') + "ab" + "\1\0\0\0"s + std::string(8, '\0') + "c";
  const std::string page = "OggS" + std::string(22, '\0') + "\2\1\2"s + "abc";
  std::string transport;
  for (int i = 0; i < 4; ++i) transport += "\x47" + std::string(187, 'x');
  const std::string properties =
      "\xA1\xDC\xAB\x8C\x47\xA9\xCF\x11\x8E\xE4\x00\xC0\x0C\x20\x53\x65\x68\0\0\0\0\0\0\0"s;
  std::string asf =
      "\x30\x26\xB2\x75\x8E\x66\xCF\x11\xA6\xD9\0\xAA\0\x62\xCE\x6C\x86\0\0\0\0\0\0\0\1\0\0\0\1\2"s +
      properties + std::string(16, 'i') + "\xA0\0\0\0\0\0\0\0"s;
  asf.resize(160);
  const std::string jpegs = "\xFF\xD8\xFF\xDBone\xFF\xD9\xFF\xD8\xFF\xDBtwo\xFF\xD9";
  for (const std::string& whole : {flv, ivf, page + page, transport, asf, jpegs}) {
    EXPECT_FALSE(index_of(whole).is_broken) << whole.substr(0, 4);
    EXPECT_TRUE(index_of(whole.substr(0, whole.size() - 1)).is_broken) << whole.substr(0, 4);
  }
  EXPECT_FALSE(index_of(jpegs + std::string(5, '\0')).is_broken);
  EXPECT_FALSE(index_of(flv + "more").is_broken) << "what others have put behind it";
  asf[30 + 88] = 1;
  EXPECT_FALSE(index_of(asf.substr(0, 150)).is_broken) << "one that goes on has no size";
}

TEST(VideoIndex, TimesAreThoseThatFramesWereGiven) {
  for (const char* name : {"uneven.mp4", "uneven.mkv", "uneven.webm", "fragments.mp4"}) {
    SCOPED_TRACE(name);
    const VideoIndex index = index_of(video(name));
    expect_times(index, uneven_times());
    EXPECT_EQ(index.num_frames, 50);
    EXPECT_FALSE(index.is_broken);
  }
  expect_times(index_of(video("late.mkv")), {0, 1.5, 3});
  expect_times(index_of(video("equal.mkv")), {0, 0, 0.04, 0.08, 0.08, 0.12});
  expect_times(index_of(video("six_frames.avi")), {0, 0.1, 0.2, 0.3, 0.4, 0.5});
  EXPECT_NEAR(index_of(video("uneven.webm")).duration, 10.04, 1e-9);
}

/// Behind its last frame a file may end where it wants to.
TEST(VideoIndex, WhatEndsEarlyIsBroken) {
  for (const char* name :
       {"uneven.mp4", "uneven.mkv", "uneven.webm", "fragments.mp4", "late.mkv", "six_frames.avi"}) {
    const std::string whole = video(name);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const VideoIndex index = index_of(whole.substr(0, size));
      EXPECT_LE(index.times.size(), 50U);
      // A file that ends between two fragments looks whole.
      if (size > 64 && size % 97 == 0 && name != std::string("fragments.mp4")) {
        EXPECT_TRUE(index.is_broken) << name << " of " << size;
      }
    }
    EXPECT_FALSE(index_of(whole).is_broken) << name;
  }
  EXPECT_EQ(index_of(video("six_frames.avi").substr(0, 2000)).num_frames, 6)
      << "as its header says";
}

/// Numbers of any size must neither crash nor ask for memory.
TEST(VideoIndex, LargeNumbersAnywhere) {
  for (const char* name : {"uneven.mp4", "uneven.mkv", "fragments.mp4", "six_frames.avi"}) {
    const std::string whole = video(name);
    for (std::size_t at = 0; at + 4 <= whole.size(); ++at) {
      std::string bent = whole;
      bent.replace(at, 4, "\x7F\xFF\xFF\xFF");
      EXPECT_LE(index_of(bent).times.size(), bent.size());
    }
  }
}

std::string box(const std::string& name, const std::string& body) {
  const auto size = static_cast<std::uint32_t>(body.size() + 8);
  std::string header;
  for (int shift = 24; shift >= 0; shift -= 8) header += static_cast<char>(size >> shift & 0xFFU);
  return header + name + body;
}

std::string numbers(const std::vector<std::uint32_t>& values) {
  std::string bytes;
  for (const std::uint32_t value : values)
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFFU);
  return bytes;
}

/// Eight frames of a tenth of a second; `edits` are the entries of an edit list.
std::string edited_movie(const std::vector<std::uint32_t>& edits) {
  const auto count = static_cast<std::uint32_t>(edits.size() / 3);
  std::vector<std::uint32_t> list{0, count};
  list.insert(list.end(), edits.begin(), edits.end());
  const std::string table = box("stts", numbers({0, 1, 8, 100})) + box("stsz", numbers({0, 5, 8}));
  const std::string media = box("mdhd", numbers({0, 0, 0, 1000, 800, 0})) +
                            box("hdlr", numbers({0, 0}) + "vide" + std::string(13, '\0')) +
                            box("minf", box("stbl", table));
  const std::string track = box("tkhd", numbers({0, 0, 0, 1, 0})) +
                            box("edts", box("elst", numbers(list))) + box("mdia", media);
  return box("ftyp", "isom") +
         box("moov", box("mvhd", numbers({0, 0, 0, 1000})) + box("trak", track)) +
         box("mdat", std::string(40, 'x'));
}

TEST(VideoIndex, FramesThatAnEditLeavesOutAreNotExpected) {
  constexpr std::uint32_t kRate = 0x10000;
  constexpr std::uint32_t kNothing = 0xFFFFFFFF;
  EXPECT_EQ(index_of(edited_movie({})).num_frames, 8);
  // From 0.2 s on, for 0.5 s.
  const VideoIndex cut = index_of(edited_movie({500, 200, kRate}));
  expect_times(cut, {0, 0.1, 0.2, 0.3, 0.4});
  EXPECT_EQ(cut.num_frames, 5);
  // It waits for a second first.
  EXPECT_EQ(index_of(edited_movie({1000, kNothing, kRate, 0, 0, kRate})).num_frames, 8);
  // Two parts: not followed.
  EXPECT_EQ(index_of(edited_movie({100, 0, kRate, 100, 400, kRate})).num_frames, 0);
}

TEST(VideoIndex, OtherFilesSayNothing) {
  for (const char* bytes : {"", "RIFF", "no video at all", "RIFF1234WAVEfmt "}) {
    const VideoIndex index = index_of(bytes);
    EXPECT_TRUE(index.times.empty());
    EXPECT_EQ(index.num_frames, 0);
    EXPECT_FALSE(index.is_broken);
  }
}

}  // namespace
}  // namespace hydrascope::image
