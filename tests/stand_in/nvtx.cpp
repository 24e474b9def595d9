// Apart from the runtime: NVTX's own header has its functions in it.
#include "tests/stand_in/stand_in.h"

#include <nvtx3/nvToolsExt.h>

namespace {
std::vector<std::string> ranges;
}

namespace stand_in {
const std::string& range() { return ranges.back(); }
}  // namespace stand_in

int nvtxRangePushA(const char* name) {
  ranges.emplace_back(name);
  return static_cast<int>(ranges.size()) - 1;
}
int nvtxRangePop() {
  ranges.pop_back();
  return static_cast<int>(ranges.size());
}
