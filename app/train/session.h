// What a run of `train` or `convert` has from its first moment, whatever it trains: with whom it
// computes and how, what it says, and which pictures could not be read.
#pragma once

#include "app/model/model_source.h"
#include "app/run/console.h"
#include "app/run/progress.h"
#include "app/train/training_options.h"
#include "app/train/validation.h"
#include "model/training/autocast.h"
#include "model/training/log/metric_log.h"
#include "model/training/parallel/process_group.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hydrascope::app {

/// What is asked for, or `otherwise`; 1 in a process that was started as one of several. Throws
/// Error(invalid_argument) where a launcher says how many there are, too.
int local_processes(const std::optional<Asked<int>>& asked, int otherwise);

/// Says on standard error which pictures cannot be read, each once, whatever the rank and however
/// quiet.
class UnreadablePictures {
 public:
  /// `ends_run`: the first one does, by an Error(failed) out of `report`.
  explicit UnreadablePictures(bool ends_run) : ends_run_(ends_run) {}
  /// For loaders; this object must outlive them.
  [[nodiscard]] model::training::FailureReport report();
  /// Of all processes, which must ask alike.
  [[nodiscard]] std::int64_t count(model::training::ProcessGroup& group, c10::Device device) const;

 private:
  mutable std::mutex mutex_;
  std::set<std::string> files_;
  bool ends_run_;
};

class TrainingSession {
 protected:
  /// Joins the processes that the environment describes, which a signal gives up waiting for.
  explicit TrainingSession(const TrainingRequest& request);

  [[nodiscard]] bool is_first() const { return group_->is_first(); }
  /// Keeps other runs out of `folder` and says which state to go on from, as `state_to_resume` does.
  std::optional<std::filesystem::path> begin_in(const std::filesystem::path& folder,
                                                const std::optional<std::filesystem::path>& newest);
  /// The score of `model` on pictures that `transform` prepares.
  ValidationScore validate(model::VisionTransformerImpl& model, model::training::Autocast autocast,
                           const std::vector<LabelledPicture>& pictures,
                           const image::TransformConfig& transform);

  ResumeRequest resume_;
  RunRequest run_;
  Console console_;  ///< of the first process; the others say errors alone
  c10::Device device_;
  std::unique_ptr<model::training::ProcessGroup> group_;
  UnreadablePictures unreadable_;
  std::unique_ptr<FileLock> lock_;                   ///< of the run's folder; the first process's
  std::unique_ptr<model::training::MetricLog> log_;  ///< the first process's
  std::unique_ptr<Progress> progress_;
};

}  // namespace hydrascope::app
