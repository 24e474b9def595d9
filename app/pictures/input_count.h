// How many inputs a command will see, counted beside its work so that progress has a total.
#pragma once

#include "app/run/progress.h"

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace hydrascope::app {

/// Walks what the words name a second time, on a thread of its own, and gives `progress` the total.
/// It begins when it is told to, after the first answer, so that it delays none. There is no total
/// where walking twice would take something away (standard input, a list that is a pipe), nor with
/// a video, whose frames are not known.
class InputCount {
 public:
  /// `takes`: which inputs, by number from 0, are this process's.
  InputCount(std::vector<std::string> words, bool recursive, Progress& progress,
             std::function<bool(std::int64_t)> takes = {});
  InputCount(const InputCount&) = delete;
  InputCount& operator=(const InputCount&) = delete;
  ~InputCount();  ///< gives up what is not counted yet

  /// Once; later calls do nothing. A single file, or a progress that shows nothing, needs no count.
  void begin();

 private:
  std::vector<std::string> words_;
  bool recursive_;
  Progress& progress_;
  std::function<bool(std::int64_t)> takes_;
  bool begun_ = false;
  std::jthread counter_;
};

}  // namespace hydrascope::app
