// What torchrun learns of a process that failed.
#pragma once

#include <string>

namespace hydrascope::app {

/// Writes `message` to the file that TORCHELASTIC_ERROR_FILE names, in the form that
/// torch.distributed.elastic reads and shows; does nothing where it names none, or nothing can be
/// written: the process is failing already.
void report_to_torchelastic(const std::string& message) noexcept;

}  // namespace hydrascope::app
