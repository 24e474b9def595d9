// stb_truetype, https://github.com/nothings/stb (public domain). The implementation is compiled
// here, with internal linkage so that another copy in the process cannot clash with it.
#include "viz/text/glyph_source.h"

#include "kernels/error.h"
#include "kernels/input_file.h"

#include <cstddef>
#include <string>

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wpedantic"
#endif
#define STB_TRUETYPE_IMPLEMENTATION
#define STBTT_STATIC
#include <stb/stb_truetype.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

namespace hydrascope::viz {

struct GlyphSource::State {
  std::string bytes;
  stbtt_fontinfo font{};

  [[nodiscard]] float scale(double pixels) const {
    return stbtt_ScaleForMappingEmToPixels(&font, static_cast<float>(pixels));
  }
};

GlyphSource::GlyphSource(const std::filesystem::path& file) : state_(std::make_unique<State>()) {
  InputFile in(file);
  in.require_open(file);
  state_->bytes = in.text();
  constexpr std::size_t kHeader = 12;
  const auto* bytes = reinterpret_cast<const unsigned char*>(state_->bytes.data());
  const int offset = state_->bytes.size() < kHeader ? -1 : stbtt_GetFontOffsetForIndex(bytes, 0);
  if (offset < 0 || stbtt_InitFont(&state_->font, bytes, offset) == 0)
    throw Error(ErrorCode::decode_failed, "is not a TrueType font", file.native());
}
GlyphSource::~GlyphSource() = default;
GlyphSource::GlyphSource(GlyphSource&&) noexcept = default;
GlyphSource& GlyphSource::operator=(GlyphSource&&) noexcept = default;

int GlyphSource::glyph(char32_t code_point) const {
  return stbtt_FindGlyphIndex(&state_->font, static_cast<int>(code_point));
}

double GlyphSource::advance(int glyph, double pixels) const {
  int advance = 0;
  stbtt_GetGlyphHMetrics(&state_->font, glyph, &advance, nullptr);
  return advance * static_cast<double>(state_->scale(pixels));
}

double GlyphSource::kerning(int left, int right, double pixels) const {
  return stbtt_GetGlyphKernAdvance(&state_->font, left, right) *
         static_cast<double>(state_->scale(pixels));
}

double GlyphSource::ascent(double pixels) const {
  int ascent = 0;
  stbtt_GetFontVMetrics(&state_->font, &ascent, nullptr, nullptr);
  return ascent * static_cast<double>(state_->scale(pixels));
}

double GlyphSource::descent(double pixels) const {
  int descent = 0;
  stbtt_GetFontVMetrics(&state_->font, nullptr, &descent, nullptr);
  return -descent * static_cast<double>(state_->scale(pixels));
}

InkBox GlyphSource::ink(int glyph, double pixels, double shift) const {
  const float scale = state_->scale(pixels);
  InkBox box;
  stbtt_GetGlyphBitmapBoxSubpixel(&state_->font, glyph, scale, scale, static_cast<float>(shift), 0,
                                  &box.left, &box.top, &box.right, &box.bottom);
  return box;
}

std::vector<std::uint8_t> GlyphSource::coverage(int glyph, double pixels, double shift,
                                                const InkBox& box) const {
  const int width = box.right - box.left;
  const int height = box.bottom - box.top;
  std::vector<std::uint8_t> values(static_cast<std::size_t>(width) *
                                   static_cast<std::size_t>(height));
  const float scale = state_->scale(pixels);
  stbtt_MakeGlyphBitmapSubpixel(&state_->font, values.data(), width, height, width, scale, scale,
                                static_cast<float>(shift), 0, glyph);
  return values;
}

}  // namespace hydrascope::viz
