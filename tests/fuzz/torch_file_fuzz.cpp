// Files of torch.save: the zip archive and the legacy container.
#include "tests/fuzz/torch_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  hydrascope::fuzz::read_torch_file(
      hydrascope::fuzz::as_bytes(hydrascope::fuzz::as_text(data, size)));
  return 0;
}
