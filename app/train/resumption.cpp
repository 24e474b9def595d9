#include "app/train/resumption.h"

#include "kernels/error.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <system_error>

namespace hydrascope::app {

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

void check_state(const fs::path& file, const fs::path& folder,
                 const std::optional<fs::path>& newest) {
  const std::string place = "--resume " + file.string();
  std::error_code ignored;
  if (!fs::exists(file, ignored)) throw Error(ErrorCode::invalid_argument, "no such file", place);
  const std::string hint = newest ? "the newest one is " + newest->string() : "";
  if (!file.native().ends_with(".state.safetensors"))
    throw Error(ErrorCode::invalid_argument, "expected a state, step-N.state.safetensors", place,
                hint);
  if (!fs::equivalent(fs::absolute(file).parent_path(), folder, ignored))
    throw Error(ErrorCode::invalid_argument, "is no state of the run in " + folder.string(), place,
                hint.empty() ? "a run goes on in its own folder (-o)" : hint);
}

}  // namespace

std::unique_ptr<FileLock> lock_run(const fs::path& folder) {
  auto lock = std::make_unique<FileLock>(folder);
  if (lock->is_taken()) {
    throw Error(ErrorCode::invalid_argument, "another run is at work in this folder",
                folder.string(), "wait for its end, or give this one another place (-o)");
  }
  return lock;
}

std::optional<fs::path> state_to_resume(const ResumeRequest& request, const fs::path& folder,
                                        const std::optional<fs::path>& newest,
                                        model::training::ProcessGroup& group, c10::Device device) {
  const std::string& word = request.word;
  std::error_code ignored;
  if (group.is_first() && !word.empty() && word != "auto") check_state(word, folder, newest);
  const bool begins = word.empty() || (word == "auto" && !newest);
  if (group.is_first() && word.empty() && newest && !request.force) {
    throw Error(ErrorCode::invalid_argument, "the folder holds a run", folder.string(),
                "--resume auto goes on with it, --force begins anew");
  }
  const bool all_begin = model::training::number_of_first(group, device, begins ? 1 : 0) != 0;
  const std::optional<fs::path> file =
      begins ? std::optional<fs::path>() : (word == "auto" ? *newest : fs::path(word));
  const bool sees_it = all_begin || (file && fs::exists(*file, ignored));
  const std::int64_t blind = model::training::sum_of_all(group, device, sees_it ? 0 : 1);
  if (!all_begin && group.world_size() > 1 && blind > 0) {
    throw Error(ErrorCode::failed, "some process does not see the state that rank 0 sees",
                folder.string(), "the folder has to be the same for all of them");
  }
  return all_begin ? std::nullopt : file;
}

std::string identity_of_run(const std::string& recipe, const checkpoint::Metadata& about,
                            const std::vector<model::training::TrainingPicture>& pictures,
                            std::initializer_list<const char*> may_change) {
  Json identity = Json::parse(recipe);
  for (const char* name :
       {"processes", "batch-size", "batch-size-maps", "grad-accum-steps",
        // What decides how a step is computed or when a run ends, not what it learns.
        "grad-checkpointing", "patience",
        // Where the weights lie and what the result is called; which they are is below.
        "checkpoint", "labels", "model", "arch", "save-dtype",
        // The transform is below, wherever it comes from.
        "img-size", "input-size", "crop-pct", "crop-mode", "interpolation", "mean", "std"})
    identity.erase(name);
  for (const char* name : may_change) identity.erase(name);
  const auto of_model = [&](const char* name) {
    const auto found = about.find(name);
    return found == about.end() ? std::string() : found->second;
  };
  identity["weights"] = of_model("parent_sha256");
  identity["transform"] = of_model("transform");
  identity["pictures"] = model::training::fingerprint(pictures);
  return identity.dump();
}

void require_same_on_all(const std::string& recipe, const std::string& identity,
                         model::training::ProcessGroup& group, c10::Device device) {
  const auto mine = static_cast<std::int64_t>(std::hash<std::string>{}(recipe + identity));
  const std::int64_t of_first = model::training::number_of_first(group, device, mine);
  if (model::training::sum_of_all(group, device, mine == of_first ? 0 : 1) > 0) {
    throw Error(ErrorCode::invalid_argument,
                "the processes were given different options or pictures", "training",
                "start all of them with the same command line, on the same files");
  }
}

}  // namespace hydrascope::app
