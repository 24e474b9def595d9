// A run's state on disk: weights that every command reads, and beside them the data that only
// training needs. A run that is killed at any moment finds its last whole state again.
#pragma once

#include "model/checkpoint/formats/safetensors.h"
#include "model/training/log/state_fields.h"
#include "model/training/optimizer.h"

#include <cstdint>
#include <filesystem>
#include <optional>

namespace hydrascope::model {
class VisionTransformerImpl;
}

namespace hydrascope::model::training {

/// The data that a run needs besides the weights.
struct TrainingState {
  std::int64_t step = 0;
  NamedTensors tensors;         ///< optimizer's and average's; float32, float64 or int64
  checkpoint::Metadata fields;  ///< further data of the run, as text
};

/// Writes tensors of float32, float64 or int64 as safetensors. Throws Error(unwritable).
void write_tensors(const std::filesystem::path& file, const NamedTensors& tensors,
                   const checkpoint::Metadata& metadata);

/// The state file of the newest step in a folder that need not exist, or nothing.
std::optional<std::filesystem::path> newest_state(const std::filesystem::path& folder);

/// The folder of one run: `step-N.safetensors` and `step-N.state.safetensors` of the newest states,
/// `last.safetensors` (the newest weights), `best-N.safetensors` and `best.safetensors` (the newest
/// of them). Best weights are kept as long as a state that knew them.
class StateFolder {
 public:
  /// Creates the folder. `recent` >= 1 states are kept. Throws Error(unwritable).
  explicit StateFolder(std::filesystem::path folder, int recent = 1);

  /// Writes a state; `about` describes the model (`save_checkpoint`). The weights are written
  /// first, so that every state on disk has its weights. Throws Error(unwritable).
  void save(const VisionTransformerImpl& model, const checkpoint::Metadata& about,
            const TrainingState& state);
  /// Saves the weights of `step` as `best.safetensors`. Before the first state the name waits for
  /// that state: a folder with `best.safetensors` and no state is then no run that was killed.
  void save_best(const VisionTransformerImpl& model, const checkpoint::Metadata& about,
                 std::int64_t step);
  /// Gives the name without waiting, for a run that is over before its first state.
  void name_best();
  [[nodiscard]] std::filesystem::path best() const { return folder_ / "best.safetensors"; }

  /// Deletes all states; the best weights stay. A run that begins anew in the folder needs it: an
  /// older run's later steps would count as newer ones.
  void clear();
  /// Deletes the states after `step` and the best weights that came later; the best weights before
  /// them are the best again. A run that goes on from an older state needs it as well.
  void forget_after(std::int64_t step);
  /// Deletes all states but the state of `step`, and gives the newest best weights that step's
  /// number. A run whose steps are renumbered needs it.
  void keep_only(std::int64_t step);
  /// The state file of the newest step, or nothing.
  [[nodiscard]] std::optional<std::filesystem::path> newest() const {
    return newest_state(folder_);
  }
  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }

 private:
  /// The state `written` stays, whatever its number.
  void forget_all_but(std::size_t recent, std::optional<std::int64_t> written = {});

  std::filesystem::path folder_;
  int recent_;
  std::optional<std::int64_t> unnamed_best_;  ///< step of best weights without the name
};

/// Reads a state and copies its weights into `model`. `file` is the state, or its weights. Throws
/// Error(not_found) when one of the two is missing, as `require_same_run` does if the state is of
/// another run than `identity`, Error(failed) if the weights do not fit `model`.
TrainingState load_training_state(const std::filesystem::path& file, VisionTransformerImpl& model,
                                  const std::optional<std::string>& identity = {});

/// Copies the weights of `file` into `model`, which must have the same configuration.
void load_weights(const std::filesystem::path& file, VisionTransformerImpl& model);

}  // namespace hydrascope::model::training
