// The loop of every training: batches, a loss, gradients, an update, numbers; resumable at any step
// bit for bit. What is minimised is a TrainingTask's business.
#pragma once

#include "kernels/error.h"
#include "model/training/autocast.h"
#include "model/training/data/batch_loader.h"
#include "model/training/optimizer.h"
#include "model/training/parallel/process_group.h"
#include "model/training/parameter_average.h"
#include "model/training/schedule.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::model::training {

/// What one batch (or one part of it, with accumulation) costs.
struct StepLoss {
  at::Tensor loss;                               ///< scalar, differentiable, mean over the images
  std::map<std::string, at::Tensor> parts = {};  ///< detached scalars, for the log
};

class TrainingTask {
 public:
  virtual ~TrainingTask() = default;
  /// The loss of a batch on the trainer's device, under autocast where the trainer uses it. `step`
  /// is that of the update.
  virtual StepLoss loss(const Batch& batch, std::int64_t step) = 0;

 protected:
  TrainingTask() = default;
  TrainingTask(const TrainingTask&) = default;
  TrainingTask& operator=(const TrainingTask&) = default;
};

struct TrainerOptions {
  ScheduleOptions schedule = {};  ///< its `steps` are the run's
  std::int64_t accumulation = 1;  ///< batches of one update
  double clip_norm = 0;           ///< 0: none
  Autocast autocast = Autocast::off;
  c10::Device device{c10::kCPU};
  std::uint64_t seed = 42;  ///< of what the modules draw (drop-path): seeded anew for every step
  std::int64_t log_every = 20;
  /// Stops when so many updates in a row were not finite; each of them is skipped.
  int most_bad_steps = 10;
  /// Whether a step's gradients were finite is read when the next step's are on their way, so that
  /// nobody waits for them; until then the device skips the update by itself. On a GPU always.
  bool reads_late = false;
  /// Every rank's parameters are compared after so many steps; 0: never.
  std::int64_t check_ranks_every = 100;
};

/// Numbers of the steps since the last record.
struct StepRecord {
  std::int64_t step = 0;           ///< updates done
  std::int64_t steps = 0;          ///< those it is about, without the skipped ones
  std::int64_t skipped_steps = 0;  ///< whose gradients were not finite
  std::int64_t epoch = 0;
  double learning_rate = 0;
  double gradient_norm = 0;              ///< of the last of them
  std::map<std::string, double> losses;  ///< "loss" and the task's parts, means over the steps
  std::int64_t images = 0;  ///< shown by all processes, those of skipped steps too; parts of views
  double images_per_second = 0;
  double wait_share = 0;  ///< of the time, waiting for pictures
};

/// Where a run is: with the weights, the optimizer's and the average's tensors it is the whole
/// state.
struct TrainerPosition {
  std::int64_t step = 0;  ///< updates done
  double seconds = 0;     ///< trained so far, over all restarts
};

/// Gradients that stayed infinite or no numbers: Error(failed).
class NotFiniteError : public Error {
  using Error::Error;
};

class Trainer {
 public:
  /// `average` may be null. All must outlive the trainer.
  Trainer(TrainingTask& task, BatchLoader& loader, Optimizer& optimizer, ParameterAverage* average,
          ProcessGroup& group, TrainerOptions options);
  ~Trainer();

  /// Goes on from `position`, whose weights and states the caller has loaded.
  void resume(const TrainerPosition& position);
  [[nodiscard]] const TrainerPosition& position() const noexcept;
  [[nodiscard]] bool finished() const noexcept;

  /// Called with a record every `log_every` steps, and of what is left at the end of `run`.
  std::function<void(const StepRecord&)> on_record;
  /// Asked after every step; false ends `run` early, of several ranks on GPUs some steps later. What
  /// it says on rank 0 counts.
  std::function<bool()> keep_going;

  /// Whether `keep_going` ended the last `run`, on whichever rank.
  [[nodiscard]] bool was_stopped() const noexcept;

  /// Steps until `until` (or the end, or `keep_going`). Returns the steps done. Throws
  /// NotFiniteError, on all ranks alike.
  std::int64_t run(std::int64_t until);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydrascope::model::training
