// Processes that exchange tensors between GPUs, a GPU each.
#pragma once

#include "model/training/parallel/rendezvous.h"

namespace hydrascope::model::training {

/// `device` is a GPU that no other rank uses.
std::unique_ptr<ProcessGroup> make_nccl_group(std::unique_ptr<Rendezvous> rendezvous,
                                              c10::Device device);

}  // namespace hydrascope::model::training
