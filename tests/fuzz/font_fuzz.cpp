// Text in the bundled font; and an input as a font.
#include "tests/fuzz/fuzz.h"
#include "viz/text/font.h"
#include "viz/text/glyph_source.h"
#include "viz/text/text_block.h"
#include "viz/text/utf8.h"

namespace viz = hydrascope::viz;
using hydrascope::fuzz::require;

namespace {

void draw(const viz::Font& font, std::string_view text) {
  constexpr int kWidth = 60;
  viz::Canvas canvas{kWidth, 30, std::vector<std::uint8_t>(std::size_t{kWidth} * 30 * 3)};
  const std::string cut = font.fit(text, 12, kWidth);
  require(font.measure(cut, 12).width <= kWidth, "what fits is as wide as there is room");
  font.draw(canvas, text, static_cast<int>(text.size() % 50) - 20, 3, 12, {1, 2, 3});
  const viz::TextBlock block({std::string(text)}, font, 12, kWidth);
  require(block.lines().size() <= 3 && block.width() <= kWidth,
          "a block is as small as it was told");
  block.draw(canvas, 0, 0, {1, 2, 3});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const viz::Font kFont({HYDRASCOPE_SOURCE_DIR "/assets/fonts/DejaVuSans-subset.ttf"});
  static const hydrascope::fuzz::Folder kFolder;
  const std::string_view input = hydrascope::fuzz::as_text(data, size);
  const std::string_view text = input.substr(0, 200);
  for (std::string_view rest = text; !rest.empty();) {
    const viz::CodePoint point = viz::first_code_point(rest);
    require(point.bytes >= 1 && point.bytes <= 4 && point.bytes <= rest.size(),
            "a character is some bytes");
    require(point.value <= 0x10FFFF && (point.value < 0xD800 || point.value > 0xDFFF),
            "a character is one of Unicode");
    rest.remove_prefix(point.bytes);
  }
  draw(kFont, text);
  const auto file = kFolder.write("font.ttf", input);
  hydrascope::fuzz::gives_result([&] { draw(viz::Font({file}), "Otter"); });
  return 0;
}
