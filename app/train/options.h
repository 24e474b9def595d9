// The command line of `train`.
#pragma once

#include "app/options.h"

namespace hydrascope::app {

CommandSpec train_spec();

}  // namespace hydrascope::app
