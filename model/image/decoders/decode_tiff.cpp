// TIFF with Pillow's meanings of samples: the directory says what samples are, not their number.
#include "kernels/error.h"
#include "model/image/decoders/decoders.h"
#include "model/image/decoders/libtiff.h"
#include "model/image/decoders/tiff_directory.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace hydrascope::image {
namespace {

enum class TiffColours { grey, rgb, palette, cmyk, ycbcr };

/// The meaning of a pixel's samples.
struct TiffForm {
  TiffColours colours = TiffColours::grey;
  std::uint32_t bits = 8;
  std::uint32_t samples = 1;  ///< in the file, dropped ones included
  bool is_inverted = false;   ///< zero is white
  bool has_alpha = false;     ///< the first sample behind the colours
  Alpha alpha = Alpha::straight;
};

constexpr std::uint32_t kUnspecified = 0;
constexpr std::uint32_t kAssociated = 1;
constexpr std::uint32_t kUnassociated = 2;
constexpr std::uint32_t kOfCorelDraw = 999;  // unassociated alpha

[[noreturn]] void refuse_tiff(const std::string& what) {
  throw Error(ErrorCode::unsupported_format, what, {}, "convert it to PNG first");
}

std::uint32_t colours_of(TiffColours colours) {
  switch (colours) {
    case TiffColours::rgb:
    case TiffColours::ycbcr: return 3;
    case TiffColours::cmyk: return 4;
    case TiffColours::grey:
    case TiffColours::palette: break;
  }
  return 1;
}

TiffColours colours_of(const TiffDirectory& directory) {
  constexpr std::uint32_t kOldJpeg = 6;
  switch (directory.compression == kOldJpeg ? 6 : directory.photometric) {
    case 0:
    case 1: return TiffColours::grey;
    case 2: return TiffColours::rgb;
    case 3: return TiffColours::palette;
    case 5: return TiffColours::cmyk;
    // A single sample is the luma alone.
    case 6: return directory.samples_per_pixel == 1 ? TiffColours::grey : TiffColours::ycbcr;
    case 8: refuse_tiff("TIFF in CIELab colours");
    default: refuse_tiff("TIFF in colours of kind " + std::to_string(directory.photometric));
  }
}

std::uint32_t bits_of(const TiffDirectory& directory) {
  const std::vector<std::uint32_t>& bits = directory.bits_per_sample;
  const bool is_uniform =
      std::ranges::all_of(bits, [&](std::uint32_t value) { return value == bits.front(); });
  const bool is_unsigned =
      std::ranges::all_of(directory.sample_format, [](std::uint32_t value) { return value == 1; });
  constexpr std::uint32_t kSigned = 2;
  // Pillow takes signed bytes of grey as they are.
  const bool is_grey_byte = bits.front() == 8 && directory.photometric == 1 &&
                            directory.samples_per_pixel == 1 &&
                            directory.sample_format.front() == kSigned;
  if (!is_uniform || (!is_unsigned && !is_grey_byte) || bits.front() > 16)
    refuse_tiff("TIFF with samples that are not unsigned integers of 1, 2, 4, 8 or 16 bits");
  return bits.front();
}

/// Follows the table of Pillow's TiffImagePlugin (OPEN_INFO); other forms are refused.
TiffForm form_of(const TiffDirectory& directory) {
  TiffForm form{.colours = colours_of(directory), .bits = bits_of(directory)};
  const std::uint32_t colours = colours_of(form.colours);
  form.samples = directory.samples_per_pixel;
  std::vector<std::uint32_t> extra = directory.extra_samples;
  const auto is_unspecified = [](std::uint32_t kind) { return kind == kUnspecified; };
  const bool are_unspecified = std::ranges::all_of(extra, is_unspecified);
  // Separate planes without a meaning are ignored.
  if (directory.planar_configuration == 2 && are_unspecified) extra.clear();
  // Pillow leaves 16 bits as they are, in one order of bytes, and refuses the other: a negative.
  form.is_inverted = directory.photometric == 0;
  // An unnamed fourth plane is associated alpha for Pillow or not, by the compression.
  const bool is_alpha_unsaid = form.colours == TiffColours::rgb && form.samples == 4 &&
                               directory.extra_samples.empty() &&
                               directory.planar_configuration != 2;
  if (is_alpha_unsaid) extra = {kUnassociated};
  const auto count = static_cast<std::uint32_t>(extra.size());
  const bool has_planes_behind =
      directory.planar_configuration == 2 && are_unspecified && !directory.extra_samples.empty();
  constexpr std::uint32_t kMostSamples = 64;
  if (form.samples < colours || form.samples > kMostSamples)
    throw Error(ErrorCode::decode_failed, "the TIFF is damaged: it has no pixels of " +
                                              std::to_string(form.samples) + " samples");
  if (form.samples != colours + (has_planes_behind ? directory.extra_samples.size() : count))
    refuse_tiff("TIFF of " + std::to_string(form.samples) + " samples a pixel, " +
                std::to_string(colours) + " of colour and " + std::to_string(count) +
                " named ones");
  if (count == 0) {
    const bool is_packed =
        form.colours == TiffColours::grey || form.colours == TiffColours::palette;
    const bool is_known =
        form.bits == 8 ||
        (is_packed && form.bits < 8 && form.bits != 0 && std::has_single_bit(form.bits)) ||
        (form.bits == 16 && form.colours != TiffColours::palette &&
         form.colours != TiffColours::ycbcr);
    if (!is_known)
      refuse_tiff("TIFF with samples of " + std::to_string(form.bits) + " bits in such colours");
    return form;
  }
  const std::uint32_t kind = extra.front();
  form.has_alpha = kind != kUnspecified;
  form.alpha = kind == kAssociated ? Alpha::premultiplied : Alpha::straight;
  const bool is_one_kind = std::all_of(extra.begin() + 1, extra.end(), is_unspecified);
  const bool is_alpha = kind == kAssociated || kind == kUnassociated;
  bool is_read = false;
  switch (form.colours) {
    case TiffColours::grey:
      is_read = count == 1 && form.bits == 8 && directory.photometric == 1 &&
                (kind == kUnspecified || is_alpha);
      break;
    case TiffColours::palette:
      is_read = count == 1 && form.bits == 8 && (kind == kUnspecified || kind == kUnassociated);
      break;
    case TiffColours::rgb:
      is_read = kind == kUnspecified || is_alpha ||
                (kind == kOfCorelDraw && form.bits == 8 && count == 1);
      is_read = is_read && (form.bits == 8 ? count <= 3 : form.bits == 16 && count == 1);
      break;
    case TiffColours::cmyk: is_read = form.bits == 8 && kind == kUnspecified && count <= 2; break;
    case TiffColours::ycbcr: break;
  }
  if (!is_read || !is_one_kind)
    refuse_tiff("TIFF with samples of kind " + std::to_string(kind) + " beside its colours");
  return form;
}

/// Rows of samples, each made a byte, in the order of the file: strips or tiles, pixels or planes.
class TiffRows {
 public:
  TiffRows(std::span<const std::byte> bytes, const TiffDirectory& directory, const TiffForm& form)
      : directory_(directory),
        form_(form),
        planes_(directory.planar_configuration == 2 ? form.samples : 1) {
    const auto width = static_cast<std::uint64_t>(directory.width);
    // Planes are read side by side, each by its own reader: going back would decode anew.
    for (std::uint32_t plane = 0; plane < std::min(planes_, used()); ++plane) {
      files_.push_back(std::make_unique<TiffFile>(bytes));
      if (directory.compression == kJpeg && form.colours == TiffColours::ycbcr)
        files_.back()->set_number(kJpegColourMode, 1);
    }
    row_bytes_ = bytes_of(width);
    if (is_tiled()) {
      const std::uint64_t tile =
          std::uint64_t{directory.tile_height} * bytes_of(directory.tile_width);
      const std::uint64_t picture =
          width * static_cast<std::uint64_t>(directory.height) * form.samples * 2;
      constexpr std::uint64_t kSmallTile = std::uint64_t{1} << 26;
      if (directory.tile_width == 0 || directory.tile_height == 0 ||
          tile > std::max(kSmallTile, picture) ||
          std::uint64_t{directory.tile_width} * form.bits % 8 != 0)
        throw Error(ErrorCode::decode_failed, "the TIFF is damaged: its tiles have no size");
      tile_.resize(tile);
    }
    raw_.resize(files_.size() * row_bytes_ * (is_tiled() ? directory.tile_height : 1));
    samples_.resize(width * form.samples);
  }

  [[nodiscard]] std::uint64_t row_bytes() const { return row_bytes_; }

  /// The samples of a row, pixel after pixel; rows are asked for in order.
  std::span<std::uint8_t> at(std::uint32_t row) {
    const std::uint32_t high = is_tiled() ? directory_.tile_height : 1;
    if (row % high == 0) read(row);
    const std::size_t count = samples_.size() / form_.samples;
    for (std::size_t plane = 0; plane < files_.size(); ++plane) {
      const std::uint8_t* raw = raw_.data() + (plane * high + row % high) * row_bytes_;
      const bool is_apart = planes_ > 1;
      to_bytes(raw, is_apart ? count : samples_.size(), samples_.data() + plane,
               is_apart ? form_.samples : 1);
    }
    return samples_;
  }

 private:
  static constexpr std::uint32_t kJpeg = 7;
  static constexpr std::uint32_t kJpegColourMode = 65538;

  [[nodiscard]] bool is_tiled() const {
    return directory_.tile_width != 0 || directory_.tile_height != 0;
  }
  [[nodiscard]] std::uint32_t used() const {
    return colours_of(form_.colours) + (form_.has_alpha ? 1 : 0);
  }
  [[nodiscard]] std::uint64_t bytes_of(std::uint64_t width) const {
    return (width * (planes_ > 1 ? 1 : form_.samples) * form_.bits + 7) / 8;
  }

  void read(std::uint32_t row) {
    for (std::size_t plane = 0; plane < files_.size(); ++plane) {
      const auto number = static_cast<std::uint32_t>(plane);
      const std::span<std::uint8_t> all(raw_);
      if (!is_tiled()) {
        files_[plane]->read_row(row, number, all.subspan(plane * row_bytes_, row_bytes_));
        continue;
      }
      const std::uint64_t tile_row = bytes_of(directory_.tile_width);
      const std::uint64_t rows = std::min<std::uint64_t>(
          directory_.tile_height, static_cast<std::uint64_t>(directory_.height) - row);
      std::uint64_t at = 0;  // tiles end on whole bytes: their widths are multiples of 16
      for (std::uint64_t x = 0; at < row_bytes_; x += directory_.tile_width, at += tile_row) {
        files_[plane]->read_tile(static_cast<std::uint32_t>(x), row, number, tile_);
        for (std::uint64_t y = 0; y < rows; ++y) {
          std::memcpy(raw_.data() + (plane * directory_.tile_height + y) * row_bytes_ + at,
                      tile_.data() + y * tile_row, std::min(tile_row, row_bytes_ - at));
        }
      }
    }
  }

  /// Makes each sample a byte: 16 bits, which libtiff gives in this machine's order, keep the high
  /// byte; fewer than 8 are spread over a byte, save numbers of colours.
  void to_bytes(const std::uint8_t* raw, std::size_t count, std::uint8_t* out,
                std::size_t step) const {
    static_assert(std::endian::native == std::endian::little);
    const std::uint32_t bits = form_.bits;
    const std::uint32_t most = (1U << std::min(bits, 8U)) - 1;
    const std::uint32_t factor = form_.colours == TiffColours::palette ? 1 : 255 / most;
    for (std::size_t i = 0; i < count; ++i, out += step) {
      if (bits >= 8) {
        *out = raw[bits == 16 ? 2 * i + 1 : i];
      } else {
        const std::size_t bit = i * bits;
        *out = static_cast<std::uint8_t>((raw[bit / 8] >> (8 - bits - bit % 8) & most) * factor);
      }
    }
  }

  const TiffDirectory& directory_;
  const TiffForm& form_;
  std::uint32_t planes_;
  std::uint64_t row_bytes_ = 0;
  std::vector<std::unique_ptr<TiffFile>> files_;
  std::vector<std::uint8_t> tile_;
  std::vector<std::uint8_t> raw_;  ///< rows of the planes that are read
  std::vector<std::uint8_t> samples_;
};

/// The place where the data of each row begin, for a file whose strips or tiles follow each other:
/// all data before it are read by then. 0 for other files.
class TiffProgress {
 public:
  TiffProgress(const TiffDirectory& directory, std::uint64_t row_bytes)
      : offsets_(directory.offsets), high_(directory.rows_per_strip), row_bytes_(row_bytes) {
    const bool is_tiled = directory.tile_width != 0;
    if (is_tiled) {
      high_ = directory.tile_height;
      across_ = (static_cast<std::uint64_t>(directory.width) + directory.tile_width - 1) /
                directory.tile_width;
    }
    is_known_ =
        directory.planar_configuration != 2 && high_ != 0 && std::ranges::is_sorted(offsets_);
    if (is_tiled || directory.compression != 1) row_bytes_ = 0;
  }
  [[nodiscard]] std::size_t before(std::uint64_t row) const {
    const std::uint64_t piece = is_known_ ? row / high_ * across_ : offsets_.size();
    return piece < offsets_.size() ? offsets_[piece] + row % high_ * row_bytes_ : 0;
  }

 private:
  const std::vector<std::uint32_t>& offsets_;
  std::uint64_t high_;
  std::uint64_t across_ = 1;
  std::uint64_t row_bytes_;
  bool is_known_ = false;
};

/// Colours of the first 256 numbers; colours outside the map are black.
std::vector<Colour> palette_of(const TiffDirectory& directory) {
  std::vector<Colour> palette(256);
  const std::size_t count = directory.colour_map.size() / 3;
  for (std::size_t i = 0; i < std::min(count, palette.size()); ++i) {
    for (std::size_t c = 0; c < 3; ++c)
      palette[i][c] = static_cast<std::uint8_t>(directory.colour_map[c * count + i] >> 8);
  }
  return palette;
}

/// Turns a row's samples, in place, into `to_rgb8`'s input; gives the samples of a pixel.
int to_colours(const TiffForm& form, const std::vector<Colour>& palette,
               std::span<std::uint8_t> samples, std::vector<std::uint8_t>& row) {
  const std::size_t count = samples.size() / form.samples;
  const std::uint32_t colours = colours_of(form.colours);
  const bool is_grey = form.colours == TiffColours::grey;
  const std::size_t channels = (is_grey ? 1 : 3) + (form.has_alpha ? 1 : 0);
  row.resize(count * channels);
  std::uint8_t* out = row.data();
  const std::uint8_t* in = samples.data();
  for (std::size_t i = 0; i < count; ++i, in += form.samples) {
    switch (form.colours) {
      case TiffColours::grey:
        *out++ = form.is_inverted ? static_cast<std::uint8_t>(255 - in[0]) : in[0];
        break;
      case TiffColours::palette: out = std::copy_n(palette[in[0]].begin(), 3, out); break;
      case TiffColours::cmyk:
        for (std::size_t c = 0; c < 3; ++c) *out++ = cmyk_to_rgb(in[c], in[3]);
        break;
      case TiffColours::rgb:
      case TiffColours::ycbcr: out = std::copy_n(in, 3, out); break;
    }
    if (form.has_alpha) *out++ = in[colours];
  }
  return static_cast<int>(channels);
}

/// Decodes YCbCr, its chroma subsampled or not, by libtiff's conversion.
Picture decode_ycbcr(std::span<const std::byte> bytes, const TiffDirectory& directory) {
  constexpr std::uint32_t kOrientation = 274;
  constexpr std::uint32_t kSubsampling = 530;
  TiffFile file(bytes);
  file.set_number(kOrientation, 1);
  // By TIFF's default two pixels along both edges share chroma; Pillow, and the programs that write
  // such files, share none.
  if (directory.compression == 1 && !directory.has_subsampling)
    file.set_numbers(kSubsampling, 1, 1);
  std::vector<std::uint32_t> pixels(static_cast<std::size_t>(directory.width * directory.height));
  file.read_rgba(static_cast<std::uint32_t>(directory.width),
                 static_cast<std::uint32_t>(directory.height), pixels);
  Picture picture = reserve_picture(directory.width, directory.height);
  const std::uint32_t* in = pixels.data();
  for (std::int64_t y = 0; y < directory.height; ++y) {
    std::uint8_t* out = add_row(picture);
    for (std::int64_t x = 0; x < directory.width; ++x, ++in) {
      for (const int shift : {0, 8, 16}) *out++ = static_cast<std::uint8_t>(*in >> shift);
    }
  }
  return picture;
}

}  // namespace

Picture decode_tiff(const Encoded& encoded, const Colour& background) {
  constexpr std::uint32_t kJpeg = 7;
  const TiffDirectory directory = read_tiff_directory(ByteView(encoded.bytes));
  const TiffForm form = form_of(directory);
  if (form.colours == TiffColours::ycbcr &&
      (directory.compression != kJpeg || directory.planar_configuration == 2))
    return decode_ycbcr(encoded.bytes, directory);
  TiffRows rows(encoded.bytes, directory, form);
  const std::vector<Colour> palette = palette_of(directory);
  Picture picture = reserve_picture(directory.width, directory.height);
  std::vector<std::uint8_t> row;
  const TiffProgress progress(directory, rows.row_bytes());
  for (std::int64_t y = 0; y < directory.height; ++y) {
    encoded.forget_before(progress.before(static_cast<std::uint64_t>(y)));
    const int channels = to_colours(form, palette, rows.at(static_cast<std::uint32_t>(y)), row);
    const SampleLayout layout{.channels = channels, .alpha = form.alpha};
    to_rgb8(row.data(), layout, background, add_row(picture),
            static_cast<std::size_t>(directory.width));
  }
  return picture;
}

}  // namespace hydrascope::image
