// Files of class names, and lookups among them.
#include "model/image/labels.h"
#include "tests/fuzz/fuzz.h"

#include <algorithm>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace fuzz = hydrascope::fuzz;
  const std::string_view text = fuzz::as_text(data, size);
  fuzz::gives_result(
      [&] {
        const auto labels = hydrascope::image::Labels::parse(text, "fuzz");
        fuzz::require(labels.size() > 0, "no classes are an error");
        for (std::size_t i = 0; i < labels.size(); ++i) {
          const auto index = static_cast<std::int64_t>(i);
          const auto& label = labels.at(index);
          fuzz::require(label.id.empty() || labels.find_id(label.id) == index,
                        "a class is found by its synset");
          fuzz::require(label.names.starts_with(label.short_name), "the first name is one of them");
          const auto found = labels.find_name(label.short_name);
          fuzz::require(label.short_name.empty() || std::ranges::find(found, index) != found.end(),
                        "a class is found by its name");
        }
        static_cast<void>(labels.find_name(text));
      },
      1000);
  return 0;
}
