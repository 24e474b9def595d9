#include "app/run/process_team.h"

#include "app/run/signal_stop.h"
#include "app/run/usage_error.h"

#include <ATen/ATen.h>

#include <chrono>
#include <filesystem>

namespace hydrascope::app {
namespace training = model::training;

training::JoinOptions join_options(double timeout) {
  constexpr double kMillisecondsOfASecond = 1000;
  training::JoinOptions wanted;
  wanted.join_timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(timeout * kMillisecondsOfASecond));
  wanted.timeout = wanted.join_timeout;
  wanted.interrupted = stop_requested;
  return wanted;
}

ProcessTeam::ProcessTeam()
    : launch_(training::read_launch_environment()), group_(training::make_single_process()) {}

void ProcessTeam::refuse(const std::string& subject) const {
  if (!has_others()) return;
  throw UsageError("cannot be shared by " + std::to_string(launch_.world_size) + " processes",
                   subject, "run it in one process, without torchrun");
}

void ProcessTeam::join(double timeout) {
  if (!has_others()) return;
  training::JoinOptions wanted = join_options(timeout);
  wanted.timeout = std::chrono::hours(24 * 365);
  // Counts are exchanged, which lie on the CPU wherever the model is.
  group_ = training::join_process_group(c10::kCPU, wanted);
}

std::string ProcessTeam::own_file(const std::string& file) const {
  if (!has_others() || file.empty() || file == "-") return file;
  const std::filesystem::path path(file);
  std::filesystem::path name = path.stem();
  name += ".rank" + std::to_string(launch_.rank);
  name += path.extension();
  return (path.parent_path() / name).string();
}

void ProcessTeam::sum(std::initializer_list<std::int64_t*> counts) {
  if (!has_others()) return;
  std::vector<std::int64_t> values;
  for (const std::int64_t* count : counts) values.push_back(*count);
  const at::Tensor sums = at::tensor(values, at::kLong);
  sum(sums);
  const std::int64_t* result = sums.const_data_ptr<std::int64_t>();
  for (std::int64_t* count : counts) *count = *result++;
}

void ProcessTeam::sum(const at::Tensor& values) { group_->sum({values}); }

std::vector<double> ProcessTeam::gather(double value) {
  const at::Tensor values = at::zeros({launch_.world_size}, at::kDouble);
  double* first = values.mutable_data_ptr<double>();
  first[launch_.rank] = value;
  sum(values);
  return {first, first + launch_.world_size};
}

void ProcessTeam::wait_for_all() { group_->barrier(); }

}  // namespace hydrascope::app
