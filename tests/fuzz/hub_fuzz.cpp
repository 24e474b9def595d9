// What a hub puts beside weights: config.json, then preprocessor_config.json.
#include "model/checkpoint/hub/hub_config.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace fuzz = hydrascope::fuzz;
  static const fuzz::Folder kFolder;
  const auto parts = fuzz::parts_of(fuzz::as_text(data, size), 2);
  kFolder.write("config.json", parts[0]);
  kFolder.write("preprocessor_config.json", parts[1]);
  fuzz::gives_result([&] {
    const auto hub = hydrascope::checkpoint::read_hub_config(kFolder.path());
    hydrascope::model::VitConfig config;
    hub.apply_to(config);
    hydrascope::model::validate(config);
    hub.check(config);
  });
  return 0;
}
