/// A command with most groups of options and a positional that has an option, too.
#pragma once

#include "app/options/option_builders.h"
#include "app/options/options.h"
#include "app/options/requests.h"

namespace hydrascope::testing {

inline app::CommandSpec classify() {
  using namespace app;
  return {
      .name = "classify",
      .summary = "top-k classes",
      .positionals = "[INPUT...]",
      .options = join({model_options(),
                       input_options(),
                       preprocessing_options(),
                       runtime_options(),
                       output_options(),
                       label_options(),
                       {text("input", "pictures", for_field(&PicturesRequest::words), letter('i'),
                             also({{"source"}, {"data-dir"}}), repeatable, as_argument)},
                       general_options()})};
}

}  // namespace hydrascope::testing
