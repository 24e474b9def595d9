// `doctor --self-test`: does this build answer on this machine as it should?
#pragma once

#include "app/results/table.h"

namespace hydrascope::app {

struct SelfTest {
  ResultTable table;  ///< a row per precision
  bool passed = true;
};

/// Classifies the bundled pictures on the CPU, as `classify` does, in every precision that has
/// kernels there, and compares the logits with timm's in assets/self_test.safetensors. A precision
/// passes if its relative error (L2, over all pictures) is within its bound and the best class of
/// every picture is timm's. This takes some seconds. Throws Error if a bundled file is missing or
/// cannot be read, and Error(failed) if a stop was requested meanwhile.
SelfTest run_self_test();

}  // namespace hydrascope::app
