#include "model/training/log/metric_log.h"

#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

#include <limits>

namespace hydrascope::model::training {
namespace metric_log_test {

using hydrascope::testing::read_bytes;
using hydrascope::testing::TemporaryFolder;

constexpr const char* kFile = "metrics.jsonl";

/// Two epochs of ten steps with a record in the middle of each.
void train(MetricLog& log, std::int64_t first_epoch, std::int64_t last_epoch) {
  for (std::int64_t epoch = first_epoch; epoch <= last_epoch; ++epoch) {
    const auto number = static_cast<double>(epoch);
    log.add({10 * epoch + 5, epoch, {{"loss", 0.5}}});
    log.add(
        {10 * (epoch + 1), epoch, {{"train_loss", 2 - 0.1 * number}, {"eval_top1", 80 + number}}});
  }
}

TEST(MetricLogTest, WritesALineARecord) {
  const TemporaryFolder folder;
  MetricLog log(folder.path() / "new" / "run");
  train(log, 0, 1);
  log.add({25, 2, {{"loss", std::numeric_limits<double>::quiet_NaN()}}});
  EXPECT_EQ(read_bytes(folder.path() / "new" / "run" / kFile),
            R"({"step":5,"epoch":0,"loss":0.5}
{"step":10,"epoch":0,"train_loss":2.0,"eval_top1":80.0}
{"step":15,"epoch":1,"loss":0.5}
{"step":20,"epoch":1,"train_loss":1.9,"eval_top1":81.0}
{"step":25,"epoch":2,"loss":null}
)");
}

TEST(MetricLogTest, AResumedRunLeavesNoDuplicates) {
  const TemporaryFolder uninterrupted, resumed;
  MetricLog whole(uninterrupted.path());
  train(whole, 0, 3);
  {
    MetricLog log(resumed.path());
    train(log, 0, 2);
  }
  const std::string bytes = read_bytes(resumed.path() / kFile);
  resumed.write(kFile, bytes.substr(0, bytes.size() - 3));  // cut short by a crash
  {
    MetricLog log(resumed.path(), 20);
    train(log, 2, 3);
  }
  EXPECT_EQ(read_bytes(resumed.path() / kFile), read_bytes(uninterrupted.path() / kFile));
}

TEST(MetricLogTest, LinesFromTheFirstOneThatIsNoRecordAreDropped) {
  const std::string record = "{\"step\":1,\"epoch\":0}\n";
  for (const char* other :
       {"", "[1]", "{\"epoch\":0}", "{\"step\":\"1\"}", "{\"step\":1", "step"}) {
    const TemporaryFolder folder;
    folder.write(kFile, record + other + "\n" + record);
    const MetricLog log(folder.path(), 1);
    EXPECT_EQ(read_bytes(folder.path() / kFile), record) << other;
  }
}

TEST(MetricLogTest, ARunThatBeginsDropsAnEarlierOnes) {
  const TemporaryFolder folder;
  {
    MetricLog log(folder.path());
    train(log, 0, 1);
  }
  const MetricLog log(folder.path());
  EXPECT_EQ(read_bytes(folder.path() / kFile), "");
}

TEST(MetricLogTest, NamesAFolderThatIsAFile) {
  const TemporaryFolder folder;
  const auto file = folder.write("file", "");
  EXPECT_ERROR(MetricLog(file), failed, "file");
  std::filesystem::create_symlink("/dev/zero", folder.path() / kFile);
  EXPECT_ERROR(MetricLog(folder.path()), invalid_argument, kFile, "found a folder or a device");
}

}  // namespace metric_log_test
}  // namespace hydrascope::model::training
