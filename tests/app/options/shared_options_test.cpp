// The groups against the contract of the command line, both columns of its table.
#include "app/options/option_table.h"
#include "app/options/options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace hydrascope::app {
namespace shared_options_test {

CommandSpec everything() {
  return {
      .name = "all",
      .summary = "",
      .options = join({model_options(), input_options(), preprocessing_options(), runtime_options(),
                       output_options(), label_options(), general_options()})};
}

TEST(SharedOptions, HaveDefaultsThatTheyAcceptThemselves) {
  for (const Option& option : everything().options) {
    if (option.default_value.empty()) continue;
    EXPECT_NO_THROW(check_values(option, split_values(option, option.default_value), option.name))
        << option.name;
  }
}

}  // namespace shared_options_test
}  // namespace hydrascope::app
