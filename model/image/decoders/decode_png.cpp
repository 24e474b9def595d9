// PNG (W3C, third edition), row by row: neither the file nor the samples of a large picture stay
// beside its pixels. As in Pillow, a picture is whole when its rows are; data missing behind them
// do not count.
#include "kernels/error.h"
#include "model/image/decoders/byte_view.h"
#include "model/image/decoders/decoders.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include <zlib.h>

namespace hydrascope::image {
namespace {

enum class PngColours : std::uint32_t { grey = 0, rgb = 2, palette = 3, grey_alpha = 4, rgba = 6 };

[[noreturn]] void fail_png(const std::string& why) {
  throw Error(ErrorCode::decode_failed, "the PNG is damaged: " + why);
}

struct PngHeader {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::uint32_t depth = 8;
  PngColours colours = PngColours::rgb;
  bool is_interlaced = false;

  [[nodiscard]] std::uint32_t samples() const {
    switch (colours) {
      case PngColours::grey:
      case PngColours::palette: return 1;
      case PngColours::grey_alpha: return 2;
      case PngColours::rgb: return 3;
      case PngColours::rgba: return 4;
    }
    return 0;
  }
  [[nodiscard]] std::size_t row_bytes(std::int64_t pixels) const {
    return (static_cast<std::size_t>(pixels) * samples() * depth + 7) / 8;
  }
};

PngHeader read_png_header(ByteView file) {
  PngHeader header{file.u32_big(16), file.u32_big(20), file.u8(24), PngColours(file.u8(25)),
                   file.u8(28) == 1};
  const std::uint32_t depth = header.depth;
  const bool is_byte = depth == 8 || depth == 16;
  const bool is_packed = depth == 1 || depth == 2 || depth == 4;
  bool is_known = false;
  switch (header.colours) {
    case PngColours::grey: is_known = is_byte || is_packed; break;
    case PngColours::palette: is_known = depth == 8 || is_packed; break;
    case PngColours::rgb:
    case PngColours::grey_alpha:
    case PngColours::rgba: is_known = is_byte; break;
  }
  if (!is_known || file.u8(26) != 0 || file.u8(27) != 0 || file.u8(28) > 1)
    fail_png("its header has no such depth, colours or methods");
  return header;
}

/// The colours that stand before the picture's data, and its transparency.
struct PngColourTables {
  std::array<Colour, 256> palette{};
  std::array<std::uint8_t, 256> palette_alpha{};
  std::optional<std::array<std::uint32_t, 3>> key;  ///< samples of a transparent colour
  std::size_t num_colours = 0;
  bool has_alpha = false;
};

/// The data of IDAT chunks, one after the other.
class PngData {
 public:
  explicit PngData(const Encoded& encoded) : encoded_(encoded), file_(encoded.bytes) {}

  /// Reads up to the first of them.
  PngColourTables read_tables(const PngHeader& header) {
    PngColourTables tables;
    tables.palette_alpha.fill(255);
    for (; !is_at("IDAT"); next_chunk()) {
      if (at_ + 12 > file_.size() || is_at("IEND")) fail_png("there is no picture in it");
      const ByteView data = file_.part(at_ + 8, length());
      if (is_at("PLTE")) {
        check_sum();
        tables.num_colours = std::min<std::size_t>(data.size() / 3, 256);
        for (std::size_t i = 0; i < 3 * tables.num_colours; ++i)
          tables.palette[i / 3][i % 3] = static_cast<std::uint8_t>(data.u8(i));
      } else if (is_at("tRNS")) {
        check_sum();
        read_transparency(header, data, tables);
      } else if (is_at("IHDR")) {
        check_sum();
      }
    }
    if (header.colours == PngColours::palette && tables.num_colours == 0)
      fail_png("there is no palette in it");
    return tables;
  }

  /// The next piece of data; empty behind the last.
  std::span<const std::byte> next() {
    constexpr std::size_t kLongest = 0x7FFFFFFF;
    if (at_ + 8 > file_.size() || !is_at("IDAT")) return {};
    if (length() > kLongest) fail_png("a chunk is longer than it may be");
    // A chunk that is cut off has no sum, and may hold all rows.
    if (at_ + 12 + length() <= file_.size()) check_sum();
    const ByteView data = file_.part(at_ + 8, length());
    encoded_.forget_before(at_);
    next_chunk();
    return {data.data(), data.size()};
  }

 private:
  [[nodiscard]] bool is_at(std::string_view name) const { return file_.holds(at_ + 4, name); }
  [[nodiscard]] std::size_t length() const { return file_.u32_big(at_); }
  void next_chunk() { at_ += 12 + length(); }

  void check_sum() const {
    const std::size_t size = 4 + length();
    const auto* chunk = reinterpret_cast<const Bytef*>(encoded_.bytes.data() + at_ + 4);
    if (at_ + 8 + size > file_.size() || crc32_z(0, chunk, size) != file_.u32_big(at_ + 4 + size))
      fail_png("a checksum does not fit");
  }

  static void read_transparency(const PngHeader& header, ByteView data, PngColourTables& tables) {
    switch (header.colours) {
      case PngColours::palette:
        tables.has_alpha = true;
        for (std::size_t i = 0; i < std::min<std::size_t>(data.size(), 256); ++i)
          tables.palette_alpha[i] = static_cast<std::uint8_t>(data.u8(i));
        break;
      case PngColours::grey: tables.key = {{data.u16_big(0), 0, 0}}; break;
      case PngColours::rgb:
        tables.key = {{data.u16_big(0), data.u16_big(2), data.u16_big(4)}};
        break;
      case PngColours::grey_alpha:
      case PngColours::rgba: break;
    }
  }

  const Encoded& encoded_;
  ByteView file_;
  std::size_t at_ = 8;
};

/// Rows of the deflated data, without their filters.
class PngRows {
 public:
  PngRows(PngData& data, std::size_t pixel_bytes) : data_(data), pixel_bytes_(pixel_bytes) {
    if (inflateInit(&stream_) != Z_OK)
      throw Error(ErrorCode::out_of_memory, "no memory to decode the picture");
  }
  PngRows(const PngRows&) = delete;
  PngRows& operator=(const PngRows&) = delete;
  ~PngRows() { inflateEnd(&stream_); }

  /// The rows that follow have `bytes` each, and none above the first.
  void begin(std::size_t bytes) {
    row_.assign(bytes + 1, 0);
    above_.assign(bytes + 1, 0);
  }

  const std::uint8_t* next() {
    row_.swap(above_);
    fill();
    unfilter();
    return row_.data() + 1;
  }

 private:
  void fill() {
    stream_.next_out = row_.data();
    stream_.avail_out = static_cast<uInt>(row_.size());
    while (stream_.avail_out > 0) {
      if (stream_.avail_in == 0) {
        if (rest_.empty()) rest_ = data_.next();
        if (rest_.empty()) fail_png("the file is truncated inside the picture's data");
        // Pieces that zlib can count, and that are forgotten soon.
        const std::size_t count = std::min<std::size_t>(rest_.size(), kPiece);
        // zlib's input is not const for old compilers' sake.
        stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(rest_.data()));
        stream_.avail_in = static_cast<uInt>(count);
        rest_ = rest_.subspan(count);
      }
      const int result = inflate(&stream_, Z_NO_FLUSH);
      if (result == Z_STREAM_END && stream_.avail_out > 0) fail_png("rows are missing");
      if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
        fail_png(stream_.msg != nullptr ? stream_.msg : "its data cannot be inflated");
    }
  }

  void unfilter() {
    std::uint8_t* row = row_.data() + 1;
    const std::uint8_t* up = above_.data() + 1;
    const std::size_t size = row_.size() - 1;
    const std::size_t step = pixel_bytes_;
    const auto add = [](std::uint8_t& value, std::uint32_t more) {
      value = static_cast<std::uint8_t>(value + more);
    };
    switch (row_.front()) {
      case 0: break;
      case 1:
        for (std::size_t i = step; i < size; ++i) add(row[i], row[i - step]);
        break;
      case 2:
        for (std::size_t i = 0; i < size; ++i) add(row[i], up[i]);
        break;
      case 3:
        for (std::size_t i = 0; i < std::min(step, size); ++i) add(row[i], up[i] / 2U);
        for (std::size_t i = step; i < size; ++i) add(row[i], (row[i - step] + up[i]) / 2U);
        break;
      case 4:
        for (std::size_t i = 0; i < std::min(step, size); ++i) add(row[i], up[i]);
        for (std::size_t i = step; i < size; ++i) {
          const int left = row[i - step];
          const int above = up[i];
          const int corner = up[i - step];
          const int from_left = std::abs(above - corner);
          const int from_above = std::abs(left - corner);
          const int from_corner = std::abs(left + above - 2 * corner);
          const bool is_left = from_left <= from_above && from_left <= from_corner;
          const int nearest = from_above <= from_corner ? above : corner;
          add(row[i], static_cast<std::uint32_t>(is_left ? left : nearest));
        }
        break;
      default: fail_png("a row has no such filter");
    }
  }

  static constexpr std::size_t kPiece = std::size_t{1} << 20;
  PngData& data_;
  std::size_t pixel_bytes_;
  z_stream stream_{};
  std::span<const std::byte> rest_;
  std::vector<std::uint8_t> row_;  ///< its filter, then its bytes
  std::vector<std::uint8_t> above_;
};

/// Samples of a row -> RGB over the background; samples of 16 bits keep the high byte.
class PngColouring {
 public:
  PngColouring(const PngHeader& header, const PngColourTables& tables, const Colour& background)
      : header_(header), tables_(tables), background_(background) {}

  void colour(const std::uint8_t* row, std::size_t count, std::uint8_t* rgb) {
    const std::uint32_t samples = header_.samples();
    const bool is_plain =
        header_.depth == 8 && !tables_.key && header_.colours != PngColours::palette;
    if (is_plain) {
      to_rgb8(row, {.channels = static_cast<int>(samples)}, background_, rgb, count);
      return;
    }
    const bool is_palette = header_.colours == PngColours::palette;
    const bool is_keyed = tables_.key.has_value();
    const std::size_t colours = is_palette ? 3 : samples - (samples + 1) % 2;
    const bool has_alpha = tables_.has_alpha || is_keyed || samples % 2 == 0;
    const std::size_t channels = colours + (has_alpha ? 1 : 0);
    bytes_.resize(count * channels);
    std::uint8_t* out = bytes_.data();
    const std::uint32_t most = (1U << header_.depth) - 1;
    for (std::size_t i = 0; i < count; ++i) {
      if (is_palette) {
        const std::size_t index = sample(row, i);
        out = std::copy_n(tables_.palette[index].begin(), 3, out);
        if (has_alpha) *out++ = tables_.palette_alpha[index];
        continue;
      }
      bool is_key = is_keyed;
      for (std::size_t s = 0; s < samples; ++s) {
        const std::uint32_t value = sample(row, i * samples + s);
        *out++ = static_cast<std::uint8_t>(header_.depth == 16 ? value >> 8 : value * 255 / most);
        if (is_keyed) is_key = is_key && value == (*tables_.key)[s];
      }
      if (is_keyed) *out++ = is_key ? 0 : 255;
    }
    to_rgb8(bytes_.data(), {.channels = static_cast<int>(channels)}, background_, rgb, count);
  }

 private:
  [[nodiscard]] std::uint32_t sample(const std::uint8_t* row, std::size_t i) const {
    const std::uint32_t depth = header_.depth;
    if (depth == 8) return row[i];
    if (depth == 16) return static_cast<std::uint32_t>(row[2 * i] << 8 | row[2 * i + 1]);
    const std::size_t bit = i * depth;
    return row[bit / 8] >> (8 - depth - bit % 8) & ((1U << depth) - 1);
  }

  const PngHeader& header_;
  const PngColourTables& tables_;
  const Colour& background_;
  std::vector<std::uint8_t> bytes_;
};

/// One of Adam7's seven pictures: every `step` pixels from `first` on, downwards and to the right.
struct PngPass {
  std::int64_t top, left, down, right;
};
constexpr std::array<PngPass, 7> kPasses{{{0, 0, 8, 8},
                                          {0, 4, 8, 8},
                                          {4, 0, 8, 4},
                                          {0, 2, 4, 4},
                                          {2, 0, 4, 2},
                                          {0, 1, 2, 2},
                                          {1, 0, 2, 1}}};

}  // namespace

Picture decode_png(const Encoded& encoded, const Colour& background) {
  const PngHeader header = read_png_header(ByteView(encoded.bytes));
  PngData data(encoded);
  const PngColourTables tables = data.read_tables(header);
  PngRows rows(data, std::max<std::size_t>(header.samples() * header.depth / 8, 1));
  PngColouring colouring(header, tables, background);
  if (!header.is_interlaced) {
    Picture picture = reserve_picture(header.width, header.height);
    rows.begin(header.row_bytes(header.width));
    for (std::int64_t y = 0; y < header.height; ++y)
      colouring.colour(rows.next(), static_cast<std::size_t>(header.width), add_row(picture));
    return picture;
  }
  Picture picture = make_picture(header.width, header.height);
  std::vector<std::uint8_t> rgb(static_cast<std::size_t>(header.width) * 3);
  for (const PngPass& pass : kPasses) {
    const std::int64_t width = (header.width - pass.left + pass.right - 1) / pass.right;
    if (width <= 0) continue;
    rows.begin(header.row_bytes(width));
    for (std::int64_t y = pass.top; y < header.height; y += pass.down) {
      colouring.colour(rows.next(), static_cast<std::size_t>(width), rgb.data());
      std::uint8_t* out = picture.rgb.data() + (y * header.width + pass.left) * 3;
      for (std::int64_t i = 0; i < width; ++i, out += pass.right * 3)
        std::copy_n(rgb.data() + i * 3, 3, out);
    }
  }
  return picture;
}

}  // namespace hydrascope::image
