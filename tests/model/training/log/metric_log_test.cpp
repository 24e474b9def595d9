#include "model/training/log/metric_log.h"

#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

#include <limits>

namespace hydrascope::model::training {
namespace metric_log_test {

using hydrascope::testing::read_bytes;
using hydrascope::testing::TemporaryFolder;

MetricRecord epoch_of(std::int64_t epoch) {
  const auto number = static_cast<double>(epoch);
  return {10 * (epoch + 1), epoch, {{"train_loss", 2 - 0.1 * number}, {"eval_top1", 80 + number}}};
}

/// Two epochs of ten steps with a record in the middle of each.
void train(MetricLog& log, std::int64_t first_epoch, std::int64_t last_epoch) {
  for (std::int64_t epoch = first_epoch; epoch <= last_epoch; ++epoch) {
    log.add({10 * epoch + 5, epoch, {{"loss", 0.5}}});
    log.add_epoch(epoch_of(epoch));
  }
}

TEST(MetricLogTest, WritesARowAnEpochAndALineARecord) {
  const TemporaryFolder folder;
  MetricLog log(folder.path() / "new" / "run");
  train(log, 0, 1);
  EXPECT_EQ(read_bytes(folder.path() / "new" / "run" / "summary.csv"),
            "epoch,step,train_loss,eval_top1\n0,10,2,80\n1,20,1.9,81\n");
  EXPECT_EQ(read_bytes(folder.path() / "new" / "run" / "metrics.jsonl"),
            R"({"step":5,"epoch":0,"loss":0.5}
{"step":10,"epoch":0,"train_loss":2.0,"eval_top1":80.0}
{"step":15,"epoch":1,"loss":0.5}
{"step":20,"epoch":1,"train_loss":1.9,"eval_top1":81.0}
)");
}

TEST(MetricLogTest, TheFirstRowFixesTheColumns) {
  const TemporaryFolder folder;
  {
    MetricLog log(folder.path());
    log.add_epoch(epoch_of(0));
  }
  MetricLog log(folder.path(), 10);
  log.add_epoch({20, 1, {{"new", 1}, {"eval_top1", std::numeric_limits<double>::quiet_NaN()}}});
  EXPECT_EQ(read_bytes(folder.path() / "summary.csv"),
            "epoch,step,train_loss,eval_top1\n0,10,2,80\n1,20,,nan\n");
  EXPECT_TRUE(read_bytes(folder.path() / "metrics.jsonl")
                  .ends_with("{\"step\":20,\"epoch\":1,\"new\":1.0,\"eval_top1\":null}\n"));
}

TEST(MetricLogTest, AResumedRunLeavesNoDuplicates) {
  const TemporaryFolder uninterrupted, resumed;
  MetricLog whole(uninterrupted.path());
  train(whole, 0, 3);
  {
    MetricLog log(resumed.path());
    train(log, 0, 2);
  }
  for (const char* name : {"summary.csv", "metrics.jsonl"}) {
    const std::string bytes = read_bytes(resumed.path() / name);
    resumed.write(name, bytes.substr(0, bytes.size() - 3));  // cut short by a crash
  }
  {
    MetricLog log(resumed.path(), 20);
    train(log, 2, 3);
  }
  for (const char* name : {"summary.csv", "metrics.jsonl"})
    EXPECT_EQ(read_bytes(resumed.path() / name), read_bytes(uninterrupted.path() / name)) << name;
}

TEST(MetricLogTest, BeginsAnewWithNewColumns) {
  const TemporaryFolder folder;
  {
    MetricLog log(folder.path());
    train(log, 0, 1);
  }
  MetricLog log(folder.path());
  EXPECT_EQ(read_bytes(folder.path() / "metrics.jsonl"), "");
  log.add_epoch({1, 0, {{"other", 1}}});
  EXPECT_EQ(read_bytes(folder.path() / "summary.csv"), "epoch,step,other\n0,1,1\n");
}

TEST(MetricLogTest, RefusesNamesThatTheFilesCannotHold) {
  const TemporaryFolder folder;
  MetricLog log(folder.path());
  EXPECT_ERROR(log.add({1, 0, {{"a,b", 1}}}), internal, "a,b");
  EXPECT_ERROR(log.add({1, 0, {{"step", 1}}}), internal, "step");
}

}  // namespace metric_log_test
}  // namespace hydrascope::model::training
