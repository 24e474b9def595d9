// Processes that exchange tensors on the CPU.
#pragma once

#include "model/training/parallel/rendezvous.h"

namespace hydrascope::model::training {

std::unique_ptr<ProcessGroup> make_gloo_group(std::unique_ptr<Rendezvous> rendezvous);

}  // namespace hydrascope::model::training
