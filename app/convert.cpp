// hydrascope convert: another checkpoint out of one that is there.
#include "app/command.h"
#include "app/tasks/format_only.h"
#include "app/train/conversion_options.h"

namespace hydrascope::app {
namespace {

/// Told to, or two names without an attention, which say nothing else.
bool only_rewrites(const ParsedOptions& options) {
  return options[&ConvertOptions::format_only].flag() ||
         (options.positionals().size() == 2 && !options.given(&ModelRequest::attention) &&
          !options.given(&ModelRequest::attention_options) &&
          !options.given(&PicturesRequest::words) && !options.given(&OutputRequest::file));
}

}  // namespace

int run_convert(const ParsedOptions& options) {
  return only_rewrites(options) ? rewrite_checkpoint(rewrite_request(options))
                                : distill(convert_request(options));
}

}  // namespace hydrascope::app
