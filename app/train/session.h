// The common part of `train` and `convert`: processes and device, messages, and the list of
// pictures that could not be read.
#pragma once

#include "app/pictures/labelled_set.h"
#include "app/pipeline/pipeline.h"
#include "app/run/console.h"
#include "app/run/output_file.h"
#include "app/run/progress.h"
#include "app/train/training_options.h"
#include "model/checkpoint/formats/safetensors.h"
#include "model/training/autocast.h"
#include "model/training/data/batch_loader.h"
#include "model/training/data/training_set.h"
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
#include <string_view>
#include <vector>

namespace hydrascope::model {
class VisionTransformerImpl;
}

namespace hydrascope::app {

// How good the model under training is, on pictures prepared as `evaluate` prepares them.

struct ValidationScore {
  std::int64_t images = 0;  ///< of all processes
  std::int64_t failed = 0;
  double top1 = 0;  ///< percent
  double top5 = 0;
  double loss = 0;           ///< cross-entropy, nats per image
  bool interrupted = false;  ///< a signal came: it is a score of some of the pictures
};

// Going on with a run (`--resume`), for the commands that train.

/// Throws Error(invalid_argument) where a run that begins in `folder` would replace a file that no run wrote.
void refuse_other_files(const std::filesystem::path& folder);

/// A JSON object that must be the same in a resumed run and in the run that it goes on with:
/// `recipe` (one too), the weights that the run began with, the transform (`describe_descendant`)
/// and the pictures that it learns from. Settings are left out whose role lets them change
/// (`is_kept_by_a_run`). `command` is "train" or "convert".
std::string identity_of_run(std::string_view command, const std::string& recipe,
                            const checkpoint::Metadata& about,
                            const std::vector<model::training::TrainingPicture>& pictures);

/// The number that is asked for, or `otherwise`; 1 in a process that was started as one of several.
/// Throws Error(invalid_argument) where a launcher says how many there are, too.
int local_processes(const std::optional<Asked<int>>& asked, int otherwise);

/// Says on standard error which pictures cannot be read, each once, whatever the rank and however
/// quiet.
class UnreadablePictures {
 public:
  /// `ends_run`: the first one does, by an Error(failed) out of `report`.
  explicit UnreadablePictures(bool ends_run) : ends_run_(ends_run) {}
  /// For loaders; this object must outlive them.
  [[nodiscard]] model::training::FailureReport report();
  /// The number over all processes, which must all call it.
  [[nodiscard]] std::int64_t count(model::training::ProcessGroup& group) const;

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
  /// Says which of the named pictures cannot be taken and which were passed over; the first count
  /// as unreadable. The first process does this.
  void report_found(const std::vector<Input>& failed, const std::vector<std::string>& notes);
  /// That all processes were given the same `recipe` and the same pictures: Error(invalid_argument)
  /// on all of them otherwise.
  void require_same_on_all(const std::string& recipe, const std::string& identity);
  /// Keeps other runs out of `folder`, which is there, until this one ends, and says which state to go
  /// on from: rank 0's decision, for which all processes must call it. `newest` is the one that
  /// `folder` holds. Nothing: the run begins. Throws Error(invalid_argument) where another run is at
  /// work or one would be lost (neither `--resume` nor `--force`), and for a file that is no state of
  /// `folder`, whose best weights would be missing; Error(failed) where a process does not see the
  /// state that rank 0 sees.
  std::optional<std::filesystem::path> begin_in(const std::filesystem::path& folder,
                                                const std::optional<std::filesystem::path>& newest);
  /// The score of `model` on pictures, each with a label, that `transform` prepares. Every process takes
  /// its share; all get the same score. The model is left in training mode. Pictures that cannot be
  /// read are left out and counted as unreadable; Error(empty) on all where none can.
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
