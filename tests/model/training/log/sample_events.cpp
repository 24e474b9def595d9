// sample_events FOLDER: the event file of a run that was interrupted and resumed, for
// tensorboard_test.py.
#include "model/training/log/metric_log.h"

#include <cstdint>
#include <exception>
#include <iostream>

int main(int count, char** arguments) {
  using hydrascope::model::training::MetricLog;
  if (count != 2) return 2;
  const auto train = [](MetricLog& log, std::int64_t first, std::int64_t last) {
    for (std::int64_t step = first; step <= last; step += 100) {
      const auto number = static_cast<double>(step);
      log.add({step, step / 1000, {{"train/loss", 1 / number}, {"train/lr", 1e-3 * number}}});
    }
  };
  try {
    {
      MetricLog log(arguments[1]);
      train(log, 100, 700);
    }
    MetricLog log(arguments[1], 400);
    train(log, 500, 1000);
    log.add_epoch({1000, 1, {{"eval/top1", 84.5}}});
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
