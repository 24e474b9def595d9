// The commands of hydrascope-trainer: those that need the code of training. The first pictures do not wait for its build.
#include "app/command.h"

#include <array>

namespace hydrascope::app {

constexpr std::array kRuns{
    CommandRun{"benchmark", run_benchmark},
    CommandRun{"convert", run_convert},
    CommandRun{"train", run_train},
};
const std::span<const CommandRun> command_runs = kRuns;

}  // namespace hydrascope::app
