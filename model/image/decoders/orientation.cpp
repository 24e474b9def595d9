#include "model/image/decoders/orientation.h"

#include "model/image/decoders/tiff_directory.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <zlib.h>

namespace hydrascope::image {
namespace {

using std::string_view_literals::operator""sv;

std::string_view text_of(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

ByteView bytes_of(std::string_view text) {
  return ByteView(std::as_bytes(std::span(text.data(), text.size())));
}

/// Nothing if the text is damaged or longer than a megabyte.
std::optional<std::string> inflated(std::string_view data) {
  constexpr std::size_t kMostText = std::size_t{1} << 20;
  std::string text(kMostText, '\0');
  z_stream stream{};
  if (data.size() > std::numeric_limits<uInt>::max() || inflateInit(&stream) != Z_OK)
    return std::nullopt;
  // zlib's input is not const for old compilers' sake.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  const int result = inflate(&stream, Z_FINISH);
  text.resize(text.size() - stream.avail_out);
  inflateEnd(&stream);
  const bool is_cut = result == Z_BUF_ERROR && stream.avail_in == 0;
  return result == Z_STREAM_END || is_cut ? std::optional(std::move(text)) : std::nullopt;
}

/// "\nexif\n     114\n45786966...\n": the lines after the third are hexadecimal digits.
std::optional<std::string> raw_profile(std::string_view text) {
  for (int line = 0; line < 3; ++line) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) return "";
    text.remove_prefix(end + 1);
  }
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  std::string bytes;
  int high = -1;
  for (const char c : text) {
    if (c == ' ' || (c >= '\t' && c <= '\r')) continue;
    const int value = digit(c);
    if (value < 0) return std::nullopt;
    if (high >= 0) bytes.push_back(static_cast<char>(high * 16 + value));
    high = high >= 0 ? -1 : value;
  }
  return bytes;
}

struct PngText {
  std::string_view key;
  std::string value;
};

/// A chunk of text in one of the three forms (PNG, 11.3.3).
std::optional<PngText> read_png_text(std::string_view name, std::string_view data) {
  const auto take_word = [&] {
    const std::size_t end = std::min(data.find('\0'), data.size());
    const std::string_view word = data.substr(0, end);
    data.remove_prefix(std::min(end + 1, data.size()));
    return word;
  };
  PngText text{.key = take_word(), .value = {}};
  bool is_compressed = name == "zTXt";
  if (is_compressed) {
    if (!data.starts_with('\0')) return std::nullopt;
    data.remove_prefix(1);
  } else if (name == "iTXt") {
    if (data.size() < 2) return std::nullopt;
    is_compressed = data[0] != 0;
    if (is_compressed && data[1] != 0) return std::nullopt;
    data.remove_prefix(2);
    take_word();  // the language
    take_word();  // the key in that language
  }
  if (!is_compressed) {
    text.value = data;
    return text;
  }
  std::optional<std::string> value = inflated(data);
  if (!value) return std::nullopt;
  text.value = *std::move(value);
  return text;
}

}  // namespace

std::optional<int> exif_orientation(ByteView block) {
  for (int i = 0; i < 2 && block.holds(0, "Exif\0\0"sv); ++i) block = block.part(6, block.size());
  const TiffDirectory directory = read_tiff_directory(block);
  return directory.has_orientation ? std::optional(directory.orientation) : std::nullopt;
}

std::optional<int> xmp_orientation(ByteView bytes) {
  constexpr std::string_view kName = "tiff:Orientation";
  const std::string_view text = text_of(bytes);
  for (std::size_t at = text.find(kName); at != text.npos; at = text.find(kName, at)) {
    at += kName.size();
    std::string_view rest = text.substr(at);
    if (!rest.starts_with("=\"") && !rest.starts_with('>')) continue;
    rest.remove_prefix(rest.starts_with('>') ? 1 : 2);
    if (rest.empty() || rest.front() < '0' || rest.front() > '9') continue;
    return rest.front() >= '1' && rest.front() <= '8' ? rest.front() - '0' : 1;
  }
  return std::nullopt;
}

int png_orientation(ByteView file) {
  std::optional<ByteView> exif;
  std::optional<std::string> profile;
  std::optional<std::string> xmp;
  // Chunks may stand after the picture data; a chunk is at least 12 bytes, so this ends.
  for (std::size_t at = 8; at + 12 <= file.size() && !file.holds(at + 4, "IEND");) {
    const std::size_t length = file.u32_big(at);
    const std::string_view name = text_of(file.part(at + 4, 4));
    const ByteView data = file.part(at + 8, length);
    if (name == "eXIf") exif = data;
    const bool is_text = name == "tEXt" || name == "zTXt" || name == "iTXt";
    constexpr std::string_view kProfile = "Raw profile type exif";
    constexpr std::string_view kXmp = "XML:com.adobe.xmp";
    const auto has_key = [&](std::string_view key) {
      return text_of(data).starts_with(key) && data.size() > key.size() && data.u8(key.size()) == 0;
    };
    if (name == "tEXt" && has_key("exif")) exif = data.part(5, data.size());
    if (is_text && (has_key(kProfile) || has_key(kXmp))) {
      if (std::optional<PngText> text = read_png_text(name, text_of(data)))
        (text->key == kXmp ? xmp : profile) = std::move(text->value);
    }
    at += 12 + length;
  }
  std::optional<int> orientation;
  if (exif) {
    orientation = exif_orientation(*exif);
  } else if (profile) {
    if (const std::optional<std::string> block = raw_profile(*profile))
      orientation = exif_orientation(bytes_of(*block));
  }
  if (!orientation && xmp) orientation = xmp_orientation(bytes_of(*xmp));
  return orientation.value_or(1);
}

}  // namespace hydrascope::image
