#include "app/run/process_team.h"

#include "app/run/output_file.h"
#include "app/run/signal_stop.h"
#include "app/run/usage_error.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <span>

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
  if (!has_others() || is_stream(file)) return file;
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

LogitsFile::LogitsFile(ProcessTeam& team, const std::filesystem::path& file,
                       std::int64_t num_classes)
    : team_(team), num_classes_(num_classes) {
  if (team_.is_first()) writer_.emplace(file);
}

void LogitsFile::append(const at::Tensor& logits) {
  const std::span<const float> row(logits.const_data_ptr<float>(),
                                   static_cast<std::size_t>(logits.numel()));
  if (team_.has_others()) {
    kept_.insert(kept_.end(), row.begin(), row.end());
  } else {
    writer_->append(row, logits.sizes());
  }
}

void LogitsFile::append_nan() {
  if (team_.has_others()) {
    kept_.insert(kept_.end(), static_cast<std::size_t>(num_classes_),
                 std::numeric_limits<float>::quiet_NaN());
  } else {
    writer_->append_nan();
  }
}

void LogitsFile::exchange() {
  constexpr std::int64_t kRowsAtOnce = 4096;
  const std::int64_t world_size = team_.launch().world_size;
  const std::int64_t rank = team_.launch().rank;
  const std::int64_t kept = std::ssize(kept_) / num_classes_;
  // The first input that each process lacks; the rows before all of them are there.
  const std::vector<double> missing = team_.gather(static_cast<double>(rank + kept * world_size));
  const auto rows = static_cast<std::int64_t>(std::ranges::min(missing));
  for (std::int64_t first = 0; first < rows; first += kRowsAtOnce) {
    const std::int64_t count = std::min(kRowsAtOnce, rows - first);
    const at::Tensor piece = at::zeros({count, num_classes_}, at::kFloat);
    float* values = piece.mutable_data_ptr<float>();
    for (std::int64_t row = first; row < first + count; ++row) {
      if (!team_.takes(row)) continue;
      std::copy_n(kept_.begin() + row / world_size * num_classes_, num_classes_,
                  values + (row - first) * num_classes_);
    }
    team_.sum(piece);
    if (!writer_) continue;
    for (std::int64_t row = 0; row < count; ++row) {
      writer_->append({values + row * num_classes_, static_cast<std::size_t>(num_classes_)},
                      std::span<const std::int64_t>(&num_classes_, 1));
    }
  }
}

void LogitsFile::close() {
  if (team_.has_others()) exchange();
  if (writer_) writer_->close();
}

}  // namespace hydrascope::app
