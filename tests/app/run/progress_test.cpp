#include "app/run/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <thread>
#include <vector>

namespace hydrascope::app {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ProgressTest : public ::testing::Test {
 protected:
  ProgressOptions options(ProgressStyle style, std::optional<std::int64_t> total = std::nullopt) {
    ProgressOptions options;
    options.label = "classify";
    options.total = total;
    options.style = style;
    options.seconds = [this] { return now_; };
    return options;
  }
  std::string shown() {
    std::string text = out_.str();
    out_.str("");
    return text;
  }

  double now_ = 100;
  std::ostringstream out_;
};

TEST_F(ProgressTest, OffShowsNothing) {
  Progress progress(options(ProgressStyle::off, 10), out_);
  now_ += 60;
  progress.advance(10);
  progress.finish();
  EXPECT_EQ(shown(), "");
}

TEST_F(ProgressTest, ADetailStandsAtTheEnd) {
  Progress progress(options(ProgressStyle::lines, 100), out_);
  progress.set_detail("loss 0.41");
  now_ += 20;
  progress.advance(50);
  EXPECT_THAT(shown(), EndsWith("0:20 left of 0:40  loss 0.41\n"));
  progress.set_detail("");
  now_ += 20;
  progress.advance(25);
  EXPECT_THAT(shown(), EndsWith("0:13 left of 0:53\n"));
}

TEST_F(ProgressTest, ABarWithCountRateAndTimeLeft) {
  Progress progress(options(ProgressStyle::bar, 100), out_);
  now_ += 2;
  progress.advance(50);
  EXPECT_EQ(shown(),
            "\rclassify  [=====     ]  50/100  50 %  25.0 images/s  0:02 left of 0:04"
            "\x1b[K");
  now_ += 8;
  progress.advance(50);
  EXPECT_THAT(shown(), HasSubstr("[==========]  100/100  100 %  10.0 images/s"));
}

TEST_F(ProgressTest, AnUnknownTotalShowsTheTimePassed) {
  Progress progress(options(ProgressStyle::bar), out_);
  now_ += 90;
  progress.advance(9000);
  EXPECT_EQ(shown(), "\rclassify  9000 images  100 images/s  1:30\x1b[K");
  progress.set_total(18000);
  now_ += 90;
  progress.advance(0);
  EXPECT_THAT(shown(), HasSubstr("9000/18000  50 %"));
}

TEST_F(ProgressTest, ABarIsDrawnAtMostTenTimesASecond) {
  Progress progress(options(ProgressStyle::bar, 10'000), out_);
  for (int step = 0; step < 10'000; ++step) {
    now_ += 0.001;
    progress.advance();
  }
  const std::string text = shown();
  const auto draws = std::count(text.begin(), text.end(), '\r');
  EXPECT_GE(draws, 95);
  EXPECT_LE(draws, 101);
  EXPECT_THAT(text, Not(HasSubstr("\n")));
}

TEST_F(ProgressTest, TheBarLeavesNoTrace) {
  {
    Progress progress(options(ProgressStyle::bar, 10), out_);
    progress.hide();
    EXPECT_EQ(shown(), "") << "nothing to erase";
    progress.advance();
    shown();
    progress.hide();
    EXPECT_EQ(shown(), "\r\x1b[K");
    now_ += 1;
    progress.advance();
    EXPECT_THAT(shown(), HasSubstr("2/10"));
  }
  EXPECT_EQ(shown(), "\r\x1b[K") << "the destructor finishes";
}

TEST_F(ProgressTest, NothingIsShownAfterTheEnd) {
  Progress progress(options(ProgressStyle::bar, 10), out_);
  progress.advance();
  progress.finish();
  shown();
  now_ += 1;
  progress.advance();
  progress.finish();
  EXPECT_EQ(shown(), "");
}

TEST_F(ProgressTest, NarrowTerminalsAreNeverOverrun) {
  for (const std::size_t columns : {0U, 1U, 10U, 40U, 60U, 80U, 200U}) {
    ProgressOptions narrow = options(ProgressStyle::bar, 1'000'000);
    narrow.columns = columns;
    Progress progress(narrow, out_);
    now_ += 10;
    progress.advance(1234);
    const std::string text = shown();
    progress.finish();
    shown();
    ASSERT_THAT(text, StartsWith("\r"));
    ASSERT_THAT(text, EndsWith("\x1b[K"));
    EXPECT_LT(text.size() - 4, std::max<std::size_t>(columns, 1)) << text;
  }
}

TEST_F(ProgressTest, LogsGetALineEveryTenSeconds) {
  Progress progress(options(ProgressStyle::lines, 7200), out_);
  progress.advance(10);
  EXPECT_EQ(shown(), "");
  now_ += 10;
  progress.advance(10);
  EXPECT_EQ(shown(), "classify: 20/7200  0 %  2.0 images/s  59:50 left of 1:00:00\n");
  now_ += 5;
  progress.advance(10);
  EXPECT_EQ(shown(), "");
  now_ += 5;
  progress.advance(10);
  EXPECT_EQ(shown(), "classify: 40/7200  0 %  2.0 images/s  59:40 left of 1:00:00\n");
  progress.hide();
  progress.finish();
  EXPECT_EQ(shown(), "") << "a log has nothing to erase";
}

/// A large picture is long work by itself: its layers are parts of it.
TEST_F(ProgressTest, PartsOfAPictureSayTheTimeLeft) {
  Progress progress(options(ProgressStyle::lines, 2), out_);
  now_ += 3;
  progress.add_part(0.25);
  EXPECT_EQ(shown(), "") << "too early";
  now_ += 9;
  progress.add_part(0.75);
  EXPECT_EQ(shown(), "classify: 0/2  50 %  0.08 images/s  0:12 left of 0:24\n");
  progress.advance();
  now_ += 3;
  progress.add_part(0.5);
  now_ += 7;
  progress.advance(0);
  EXPECT_EQ(shown(), "classify: 1/2  75 %  0.07 images/s  0:07 left of 0:29\n")
      << "what is counted is no part any more";
  progress.advance(1);
  now_ += 10;
  progress.advance(0);
  EXPECT_EQ(shown(), "classify: 2/2  100 %  0.06 images/s  0:00 left of 0:32\n");
}

TEST(AboutTest, NamesTheUnitThatFits) {
  EXPECT_EQ(about(8.2), "about 9 s");
  EXPECT_EQ(about(99), "about 99 s");
  EXPECT_EQ(about(170), "about 3 min");
  EXPECT_EQ(about(9000), "about 2.5 h");
}

TEST_F(ProgressTest, OddNumbers) {
  Progress progress(options(ProgressStyle::bar, 3), out_);
  progress.advance(5);
  EXPECT_THAT(shown(), HasSubstr("5/5  100 %  0.0 images/s"))
      << "no time passed, more than there were";
  ProgressOptions slow = options(ProgressStyle::bar, 1'000'000'000'000);
  Progress endless(slow, out_);
  now_ += 100;
  endless.advance(1);
  EXPECT_THAT(shown(), HasSubstr("99:59:59 left of"));
  Progress nothing(options(ProgressStyle::bar, 0), out_);
  nothing.advance(0);
  EXPECT_THAT(shown(), HasSubstr("0 images"));
}

TEST_F(ProgressTest, CountsFromManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kSteps = 2000;
  ProgressOptions shared = options(ProgressStyle::bar, kThreads * kSteps);
  shared.seconds = [time = 0.0]() mutable { return time += 1; };  // called under the lock
  Progress progress(shared, out_);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      for (int step = 0; step < kSteps; ++step) progress.advance();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(shown(), HasSubstr("8000/8000  100 %"));
}

}  // namespace
}  // namespace hydrascope::app
