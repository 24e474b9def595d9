// hydrascope convert: another checkpoint out of one that is there.
#include "app/command.h"
#include "app/console.h"
#include "app/convert/distill.h"
#include "app/convert/format_only.h"
#include "app/convert/options.h"
#include "app/local_ranks.h"

namespace hydrascope::app {
namespace {

/// Told to, or two names without an attention, which say nothing else.
bool only_rewrites(const ParsedOptions& options) {
  return options.flag("format-only") ||
         (options.positionals().size() == 2 && !options.given("attn") &&
          !options.given("attn-opt") && !options.given("input") && !options.given("output"));
}

/// `-m` was the architecture once, and `--from` the model.
ParsedOptions with_earlier_spellings(const ParsedOptions& options, bool rewrites) {
  const bool is_named_elsewhere =
      options.given("from") || (rewrites && options.positionals().size() == 2);
  ParsedOptions now = options;
  if (options.given("model") && is_named_elsewhere) {
    now = now.with("arch", options.texts("model")).with("model", {});
    if (!LocalRanks::started_this_process()) {
      Console(options).note("note: -m names the model that is converted now; taken for --arch " +
                            options.text("model"));
    }
  }
  return options.given("from") ? now.with("model", options.texts("from")).with("from", {}) : now;
}

}  // namespace

int run_convert(const ParsedOptions& options) {
  const bool rewrites = only_rewrites(options);
  const ParsedOptions now = with_earlier_spellings(options, rewrites);
  return rewrites ? rewrite_checkpoint(now) : distill(now);
}

}  // namespace hydrascope::app
