// The loop of every training: batches, gradients, an update, numbers; resumable at any step bit for
// bit. A TrainingTask decides about the loss.
#pragma once

#include "kernels/error.h"
#include "model/training/data/batch_loader.h"
#include "model/training/optimizer.h"
#include "model/training/parallel/process_group.h"
#include "model/training/parameter_average.h"
#include "model/training/schedule.h"
#include "model/training/training_task.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace hydrascope::model::training {

struct TrainerOptions {
  ScheduleOptions schedule = {};  ///< its `steps` are the run's
  std::int64_t accumulation = 1;  ///< batches of one update
  double clip_norm = 0;           ///< 0: none
  Autocast autocast = Autocast::off;
  c10::Device device{c10::kCPU};
  std::uint64_t seed = 42;  ///< for the modules' random numbers (drop-path), anew for every step
  std::int64_t log_every = 20;
};

/// Numbers of the steps since the last record.
struct StepRecord {
  std::int64_t step = 0;           ///< updates done
  std::int64_t steps = 0;          ///< steps of this record, without the skipped ones
  std::int64_t skipped_steps = 0;  ///< steps whose gradients were not finite
  std::int64_t epoch = 0;
  double learning_rate = 0;
  double gradient_norm = 0;              ///< the last step's that was not skipped
  std::map<std::string, double> losses;  ///< "loss" and the task's parts, means over the steps
  std::int64_t images = 0;  ///< shown by all processes, in skipped steps too; parts of views
  double images_per_second = 0;
  double wait_share = 0;  ///< the share of the time spent waiting for pictures
};

/// A run's place. With the tensors of the weights, the optimizer and the average it is the whole
/// state.
struct TrainerPosition {
  std::int64_t step = 0;  ///< updates done
  double seconds = 0;     ///< trained so far, over all restarts
};

/// Gradients that stay infinite or NaN: Error(failed).
class NotFiniteError : public Error {
  using Error::Error;
};

class Trainer {
 public:
  /// `average` may be null. All arguments must outlive the trainer.
  Trainer(TrainingTask& task, BatchLoader& loader, Optimizer& optimizer, ParameterAverage* average,
          ProcessGroup& group, TrainerOptions options);
  ~Trainer();

  /// Goes on from `position`, whose weights and states the caller has loaded.
  void resume(const TrainerPosition& position);
  [[nodiscard]] const TrainerPosition& position() const noexcept;
  [[nodiscard]] bool finished() const noexcept;
  /// Makes the run longer or shorter, which later steps' learning rates follow; at least as long as it
  /// has become.
  void set_steps(std::int64_t steps, std::int64_t warmup_steps);

  /// Called with a record every `log_every` steps, and at the end of `run` with one of the
  /// remaining steps.
  std::function<void(const StepRecord&)> on_record;
  /// Called before every batch.
  std::function<void()> before_batch;
  /// Asked after every step; false ends `run` early. The answer on rank 0 counts.
  std::function<bool()> keep_going;

  /// Whether `keep_going` ended the last `run`, on any rank.
  [[nodiscard]] bool was_stopped() const noexcept;

  /// Steps until `until` (or the end, or `keep_going`). Returns the number of steps done. Throws
  /// NotFiniteError, on all ranks alike.
  std::int64_t run(std::int64_t until);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydrascope::model::training
