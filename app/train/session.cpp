#include "app/train/session.h"

#include "app/run/local_ranks.h"
#include "app/run/process_team.h"
#include "app/run/signal_stop.h"
#include "kernels/error.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>

namespace hydrascope::app {
namespace {

RunRequest in_environment(RunRequest run) {
  run.launch = model::training::read_launch_environment();
  return run;
}

std::unique_ptr<model::training::ProcessGroup> join(double timeout, c10::Device device) {
  model::training::JoinOptions wanted = join_options(timeout);
  wanted.interrupted = [] {
    LocalRanks::require_all_running();
    return stop_requested();
  };
  return model::training::join_process_group(device, wanted);
}

}  // namespace

int local_processes(const std::optional<Asked<int>>& asked, int otherwise) {
  const bool is_launched = std::getenv("WORLD_SIZE") != nullptr;
  if (is_launched && asked && !LocalRanks::started_this_process()) {
    throw Error(ErrorCode::invalid_argument, "the launcher says how many processes there are",
                asked->origin + " with WORLD_SIZE in the environment");
  }
  if (is_launched) return 1;
  return asked ? asked->value : otherwise;
}

model::training::FailureReport UnreadablePictures::report() {
  return [this](const std::string& file, const std::string& message) {
    if (ends_run_) throw Error(ErrorCode::failed, message, file);
    const std::lock_guard lock(mutex_);
    if (files_.insert(file).second) std::cerr << "error: " + file + ": " + message + "\n";
  };
}

std::int64_t UnreadablePictures::count(model::training::ProcessGroup& group,
                                       c10::Device device) const {
  std::vector<std::int64_t> mine;
  {
    const std::lock_guard lock(mutex_);
    for (const std::string& file : files_)
      mine.push_back(static_cast<std::int64_t>(std::hash<std::string>{}(file)));
  }
  // The names' hashes of all, each process's at its own place.
  at::Tensor counts = at::zeros({group.world_size()}, at::kLong);
  counts[group.rank()] = std::ssize(mine);
  counts = counts.to(device);
  group.sum({counts});
  counts = counts.cpu();
  at::Tensor all = at::zeros({counts.sum().item<std::int64_t>()}, at::kLong);
  if (all.numel() == 0) return 0;
  const auto before = counts.narrow(0, 0, group.rank()).sum().item<std::int64_t>();
  std::ranges::copy(mine, all.mutable_data_ptr<std::int64_t>() + before);
  all = all.to(device);
  group.sum({all});
  return std::get<0>(at::_unique(all.cpu())).numel();
}

TrainingSession::TrainingSession(const TrainingRequest& request)
    : resume_(request.resume),
      run_(in_environment(request.run)),
      console_(run_.launch.is_first() ? request.console : request.console.errors_only()),
      device_(choose_device(run_)),
      group_(join(run_.join_timeout, device_)),
      unreadable_(run_.fail_fast) {
  at::set_num_threads(model_threads(run_));
  if (run_.deterministic) at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
}

std::optional<std::filesystem::path> TrainingSession::begin_in(
    const std::filesystem::path& folder, const std::optional<std::filesystem::path>& newest) {
  if (is_first()) lock_ = lock_run(folder);
  return state_to_resume(resume_, folder, newest, *group_, device_);
}

ValidationScore TrainingSession::validate(model::VisionTransformerImpl& model,
                                          model::training::Autocast autocast,
                                          const std::vector<LabelledPicture>& pictures,
                                          const image::TransformConfig& transform) {
  return validate_model(model, device_, autocast, pictures, pipeline_options(run_, transform),
                        unreadable_.report(), *group_);
}

}  // namespace hydrascope::app
