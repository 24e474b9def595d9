#include "model/training/parallel/process_group.h"

#include "kernels/error.h"
#include "model/training/parallel/rendezvous.h"

#include <ATen/ATen.h>

#include <memory>

namespace hydrascope::model::training {

namespace {

class SingleProcess final : public ProcessGroup {
 public:
  [[nodiscard]] int rank() const noexcept override { return 0; }
  [[nodiscard]] int world_size() const noexcept override { return 1; }
  void broadcast(const std::vector<at::Tensor>&) override {}
  void sum(const std::vector<at::Tensor>&) override {}
  void barrier() override {}
};

}  // namespace

std::unique_ptr<ProcessGroup> make_single_process() { return std::make_unique<SingleProcess>(); }

std::unique_ptr<ProcessGroup> join_process_group(c10::Device device, const JoinOptions& options) {
  const LaunchEnvironment launch = read_launch_environment();
  if (!launch.has_others()) return make_single_process();
  if (device.is_cuda()) {
    throw Error(ErrorCode::invalid_argument, "several processes cannot train on GPUs",
                "`device` " + device.str(), "train in one process, or with `device` cpu");
  }
  return make_gloo_group(std::make_unique<Rendezvous>(launch, options));
}

std::int64_t number_of_first(ProcessGroup& group, std::int64_t mine) {
  const at::Tensor number = at::full({1}, mine, at::kLong);
  group.broadcast({number});
  return number.item<std::int64_t>();
}

std::int64_t sum_of_all(ProcessGroup& group, std::int64_t mine) {
  const at::Tensor number = at::full({1}, mine, at::kLong);
  group.sum({number});
  return number.item<std::int64_t>();
}

}  // namespace hydrascope::model::training
