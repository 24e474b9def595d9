// hydrascope convert: another checkpoint out of one that is there.
#include "app/command.h"
#include "app/tasks/conversion_options.h"
#include "app/tasks/format_only.h"

namespace hydrascope::app {
namespace {

/// Told to, or two names without an attention, which say nothing else.
bool only_rewrites(const ParsedOptions& options) {
  return options.flag("format-only") ||
         (options.positionals().size() == 2 && !options.given("attn") &&
          !options.given("attn-opt") && !options.given("input") && !options.given("output"));
}

}  // namespace

int run_convert(const ParsedOptions& options) {
  const bool rewrites = only_rewrites(options);
  ModelRequest model = model_request(options);
  model.may_be_random = true;
  const std::string architecture = options.text("arch");
  return rewrites ? rewrite_checkpoint(rewrite_request(options, model, architecture))
                  : distill(convert_request(options, model, architecture));
}

}  // namespace hydrascope::app
