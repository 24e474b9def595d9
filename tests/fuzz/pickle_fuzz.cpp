// The pickle machine: an input is a pickle, and what a file of torch.save holds at its root. The containers are
// put round it here, where their checks would keep most changes from it.
#include "model/checkpoint/formats/torch/pickle_machine.h"
#include "tests/fuzz/torch_file.h"
#include "tests/model/checkpoint/formats/torch/pickle_bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace fuzz = hydrascope::fuzz;
  namespace pickle = hydrascope::checkpoint::pickle;
  const std::string_view input = fuzz::as_text(data, size);
  fuzz::gives_result([&] {
    pickle::Heap heap(size, "fuzz");
    fuzz::require(pickle::run(fuzz::as_bytes(input), heap).length <= size,
                  "a pickle ends in its file");
  });
  const std::string root(input);
  static const hydrascope::testing::Storages kStorages{
      {"0", std::string(96, '\x3F')}, {"1", "abcdef"}, {"2", ""}};
  static const hydrascope::testing::Storages kLegacyStorages{
      {"10", hydrascope::testing::little(2, 8) + std::string(16, 'y')},
      {"11", hydrascope::testing::little(6, 8) + "012345"}};
  fuzz::read_torch_file(fuzz::as_bytes(hydrascope::testing::torch_zip(root, kStorages)));
  fuzz::read_torch_file(fuzz::as_bytes(hydrascope::testing::torch_legacy(root, kLegacyStorages)));
  return 0;
}
