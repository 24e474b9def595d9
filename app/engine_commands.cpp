// The commands of hydrascope-engine: those that look at pictures and at models.
#include "app/command.h"

#include <array>

namespace hydrascope::app {

constexpr std::array kRuns{
    CommandRun{"classify", run_classify}, CommandRun{"visualize", run_visualize},
    CommandRun{"embed", run_embed},       CommandRun{"search", run_search},
    CommandRun{"serve", run_serve},       CommandRun{"evaluate", run_evaluate},
    CommandRun{"compare", run_compare},   CommandRun{"faithfulness", run_faithfulness},
    CommandRun{"diagnose", run_diagnose}, CommandRun{"models", run_models},
    CommandRun{"doctor", run_doctor},
};
const std::span<const CommandRun> command_runs = kRuns;

}  // namespace hydrascope::app
