#include "model/training/parallel/gloo_group.h"
#include "model/training/parallel/nccl_group.h"

namespace hydrascope::model::training {

std::unique_ptr<ProcessGroup> join_process_group(c10::Device device, const JoinOptions& options) {
  const LaunchEnvironment launch = read_launch_environment();
  if (!launch.has_others()) return make_single_process();
  auto rendezvous = std::make_unique<Rendezvous>(launch, options);
  return device.is_cuda() ? make_nccl_group(std::move(rendezvous), device)
                          : make_gloo_group(std::move(rendezvous));
}

}  // namespace hydrascope::model::training
