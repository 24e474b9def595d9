// stb_truetype, https://github.com/nothings/stb (public domain). The implementation is compiled
// here, with internal linkage so that another copy in the process cannot clash with it.
#include "viz/text/glyph_source.h"

#include "kernels/error.h"
#include "kernels/input_file.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

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
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMostBytes = std::uintmax_t{1} << 28;

std::vector<std::uint8_t> read_font(const fs::path& file) {
  InputFile in(file);
  in.require_open(file);
  std::error_code error;
  if (!fs::is_regular_file(file, error))
    throw Error(ErrorCode::unreadable, "expected a font file, found a device", file.native());
  if (fs::file_size(file, error) > kMostBytes || error)
    throw Error(ErrorCode::decode_failed, "no font is that large", file.native());
  const std::string bytes = in.text();
  return {bytes.begin(), bytes.end()};
}

std::uint32_t big_endian(const std::vector<std::uint8_t>& bytes, std::size_t at, std::size_t size) {
  std::uint32_t value = 0;
  for (std::size_t i = at; i < at + size; ++i) value = (value << 8) | bytes[i];
  return value;
}

/// The check sum of a table, as its maker computed it: the sum of its words, the last one filled up with zeros.
std::uint32_t checksum(std::span<const std::uint8_t> table, bool is_head) {
  constexpr std::size_t kWord = 4;
  constexpr std::size_t kAdjustment = 2;  // the word of `head` that was 0 then
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (is_head && i / kWord == kAdjustment) continue;
    sum += std::uint32_t{table[i]} << (8 * (kWord - 1 - i % kWord));
  }
  return sum;
}

/// Whether the tables that shapes are read from are there, and as they were made.
bool has_tables(const std::vector<std::uint8_t>& bytes) {
  constexpr std::size_t kHeader = 12;
  constexpr std::size_t kEntry = 16;
  if (bytes.size() < kHeader) return false;
  const std::size_t count = big_endian(bytes, 4, 2);
  if (bytes.size() < kHeader + count * kEntry) return false;
  constexpr std::array<std::string_view, 7> kNeeded{"cmap", "glyf", "head", "hhea",
                                                    "hmtx", "loca", "maxp"};
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t entry = kHeader + i * kEntry;
    const std::size_t offset = big_endian(bytes, entry + 8, 4);
    const std::size_t length = big_endian(bytes, entry + 12, 4);
    if (offset + length > bytes.size()) return false;
    const std::string tag(bytes.begin() + static_cast<std::ptrdiff_t>(entry),
                          bytes.begin() + static_cast<std::ptrdiff_t>(entry) + 4);
    if (checksum(std::span(bytes).subspan(offset, length), tag == "head") !=
        big_endian(bytes, entry + 4, 4))
      return false;
    found += std::ranges::find(kNeeded, tag) != kNeeded.end() ? 1 : 0;
  }
  return found == kNeeded.size();
}

}  // namespace

struct GlyphSource::State {
  std::vector<std::uint8_t> bytes;
  stbtt_fontinfo font{};

  [[nodiscard]] float scale(double pixels) const {
    return stbtt_ScaleForMappingEmToPixels(&font, static_cast<float>(pixels));
  }
};

GlyphSource::GlyphSource(const fs::path& file) : state_(std::make_unique<State>()) {
  state_->bytes = read_font(file);
  if (!has_tables(state_->bytes) || stbtt_InitFont(&state_->font, state_->bytes.data(), 0) == 0)
    throw Error(ErrorCode::decode_failed, "is not a TrueType font, or is damaged", file.native());
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
