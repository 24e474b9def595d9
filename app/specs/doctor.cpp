// The table of `hydrascope doctor`.
#include "app/command.h"
#include "app/options/option_builders.h"

namespace hydrascope::app {

CommandSpec doctor_spec() {
  CommandSpec spec;
  spec.name = "doctor";
  spec.summary = "what this build and this machine can do";
  spec.group = "This program";
  spec.options =
      join({{flag("self-test",
                  "compare answers in float32, bfloat16 and int8 with stored ones; the bundled "
                  "pictures are classified on the CPU, exit code 4 if answers differ too much")},
            output_options(),
            general_options()});
  spec.common = {"self-test", "output", "format"};
  spec.examples = {"hydrascope doctor", "hydrascope doctor --self-test",
                   "hydrascope doctor --format json"};
  return spec;
}

}  // namespace hydrascope::app
