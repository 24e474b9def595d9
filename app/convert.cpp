// hydrascope convert: another checkpoint out of one that is there.
#include "app/command.h"
#include "app/console.h"
#include "app/convert/distill.h"
#include "app/convert/format_only.h"
#include "app/convert/options.h"

namespace hydrascope::app {
namespace {

int run_convert(const ParsedOptions& options) {
  if (dump_config_requested(options)) return kExitOk;
  return options.flag("format-only") ? rewrite_checkpoint(options) : distill(options);
}

}  // namespace

Command convert_command() { return {convert_spec(), run_convert}; }

}  // namespace hydrascope::app
