// Going on with a run (`--resume`), for the commands that train.
#pragma once

#include "app/run/file_lock.h"
#include "model/checkpoint/formats/safetensors.h"
#include "model/training/data/training_set.h"
#include "model/training/parallel/process_group.h"

#include <c10/core/Device.h>

#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::app {

/// What happens to a run that the folder holds.
struct ResumeRequest {
  std::string word;    ///< `--resume`: "auto", a state's file, or ""
  bool force = false;  ///< it is replaced
};

/// Keeps other runs out of `folder`, which is there, until it ends. Throws Error(invalid_argument)
/// where one is at work.
std::unique_ptr<FileLock> lock_run(const std::filesystem::path& folder);

/// The state to go on from: rank 0's decision, which all processes must call for. `newest` is the
/// one that `folder` holds. Nothing: the run begins. Throws Error(invalid_argument) where a run
/// would be lost (neither `--resume` nor `--force`) and for a file that is no state of `folder`,
/// whose best weights would be missing; Error(failed) where a process does not see the
/// state that rank 0 sees.
std::optional<std::filesystem::path> state_to_resume(
    const ResumeRequest& request, const std::filesystem::path& folder,
    const std::optional<std::filesystem::path>& newest, model::training::ProcessGroup& group,
    c10::Device device);

/// What a resumed run must have in common with the one that it goes on with, as a JSON object:
/// `recipe` (one too) without what may differ between two numbers of processes, what decides only
/// how steps are computed and when a run ends, and `may_change`, the weights that it began with and
/// the transform (`describe_descendant`), and which pictures it learns from.
std::string identity_of_run(const std::string& recipe, const checkpoint::Metadata& about,
                            const std::vector<model::training::TrainingPicture>& pictures,
                            std::initializer_list<const char*> may_change = {});

/// That all processes were given the same `recipe` and the same pictures: Error(invalid_argument)
/// on all of them otherwise.
void require_same_on_all(const std::string& recipe, const std::string& identity,
                         model::training::ProcessGroup& group, c10::Device device);

}  // namespace hydrascope::app
