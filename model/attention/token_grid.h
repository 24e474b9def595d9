// The order of tokens in a sequence.
#pragma once

#include <cstdint>

namespace hydrascope::model {

/// Where the tokens lie: `num_prefix` tokens, then `rows` x `columns` patches in row-major order.
struct TokenGrid {
  std::int64_t num_prefix = 1;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  [[nodiscard]] std::int64_t num_tokens() const { return num_prefix + rows * columns; }
};

}  // namespace hydrascope::model
