#include "kernels/error.h"
#include "model/image/decoders/decoders.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#ifdef HYDRASCOPE_WITH_JPEG
#include <csetjmp>
#include <cstdio>
#include <jpeglib.h>  // after <cstdio>, which it needs and does not include
#endif

namespace hydrascope::image {

#ifdef HYDRASCOPE_WITH_JPEG
namespace {

struct JpegFailure {
  jpeg_error_mgr manager;  // first: libjpeg's pointer to it is one to this
  std::jmp_buf back;
  bool is_error;  ///< its message is of an error: libjpeg has other messages too
};

[[noreturn]] void leave_jpeg(j_common_ptr codec) {
  auto* failure = reinterpret_cast<JpegFailure*>(codec->err);
  failure->is_error = true;
  std::longjmp(failure->back, 1);
}

void say_nothing(j_common_ptr, int) {}

/// libjpeg's own source puts an end behind cut data and grey into missing rows; this one leaves the
/// rows undecoded, as Pillow's does.
boolean have_no_more(j_decompress_ptr) { return FALSE; }

void skip_jpeg_bytes(j_decompress_ptr codec, long count) {
  jpeg_source_mgr& source = *codec->src;
  const auto skipped =
      std::min(static_cast<std::size_t>(std::max(count, 0L)), source.bytes_in_buffer);
  source.next_input_byte += skipped;
  source.bytes_in_buffer -= skipped;
}

/// A JPEG that is decoded row by row, in the colours of the file: grey, RGB or inverted CMYK.
/// Functions return false and `why` gives the reason; libjpeg leaves them by longjmp, so that
/// nothing in them has a destructor.
class JpegRows {
 public:
  explicit JpegRows(std::span<const std::byte> bytes) {
    codec_.err = jpeg_std_error(&failure_.manager);
    failure_.manager.error_exit = leave_jpeg;
    failure_.manager.emit_message = say_nothing;
    source_.init_source = [](j_decompress_ptr) {};
    source_.fill_input_buffer = have_no_more;
    source_.skip_input_data = skip_jpeg_bytes;
    source_.resync_to_restart = jpeg_resync_to_restart;
    source_.term_source = [](j_decompress_ptr) {};
    source_.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
    source_.bytes_in_buffer = bytes.size();
  }
  JpegRows(const JpegRows&) = delete;
  JpegRows& operator=(const JpegRows&) = delete;
  ~JpegRows() { jpeg_destroy_decompress(&codec_); }

  bool begin() {
    if (setjmp(failure_.back) != 0) return false;
    jpeg_create_decompress(&codec_);
    codec_.src = &source_;
    codec_.client_data = this;
    access_ = codec_.mem->access_virt_barray;
    codec_.mem->access_virt_barray = access_and_forget;
    if (jpeg_read_header(&codec_, TRUE) == JPEG_SUSPENDED) return false;
    channels_ = codec_.num_components;
    if (channels_ == 3) codec_.out_color_space = JCS_RGB;
    if (channels_ == 4) codec_.out_color_space = JCS_CMYK;
    return jpeg_start_decompress(&codec_) == TRUE;
  }
  bool read(std::uint8_t* row) {
    if (setjmp(failure_.back) != 0) return false;
    JSAMPROW rows = row;
    return jpeg_read_scanlines(&codec_, &rows, 1) == 1;
  }
  /// Columns first .. end alone are decoded from here on, and some beside them whose chroma may be
  /// smoothed otherwise: the first one that `read` gives. Before the first row.
  bool crop(std::int64_t first, std::int64_t end, std::int64_t& begin) {
#ifdef LIBJPEG_TURBO_VERSION_NUMBER
    if (setjmp(failure_.back) != 0) return false;
    constexpr std::int64_t kBeside = 2 * MAX_SAMP_FACTOR * DCTSIZE;
    auto offset = static_cast<JDIMENSION>(std::max<std::int64_t>(0, first - kBeside));
    auto count = static_cast<JDIMENSION>(std::min(width(), end + kBeside)) - offset;
    jpeg_crop_scanline(&codec_, &offset, &count);
    begin = offset;
#else
    begin = 0;
#endif
    return true;
  }
  /// Columns that `read` gives.
  [[nodiscard]] std::int64_t read_width() const { return codec_.output_width; }
  [[nodiscard]] std::int64_t width() const { return codec_.image_width; }
  [[nodiscard]] std::int64_t height() const { return codec_.image_height; }
  [[nodiscard]] int channels() const { return channels_; }
  [[nodiscard]] std::size_t num_unread() const { return source_.bytes_in_buffer; }
  /// libjpeg's words, or "" if the data ended.
  [[nodiscard]] std::string why() {
    if (!failure_.is_error) return "";
    std::array<char, JMSG_LENGTH_MAX> text{};
    failure_.manager.format_message(reinterpret_cast<j_common_ptr>(&codec_), text.data());
    return text.data();
  }

 private:
  /// Several scans need all coefficients in memory, two bytes each, before the first row. The
  /// coefficients of finished rows go back to the system.
  static JBLOCKARRAY access_and_forget(j_common_ptr codec, jvirt_barray_ptr array, JDIMENSION begin,
                                       JDIMENSION count, boolean is_writable) {
    constexpr JDIMENSION kStillRead = 8;  // rows that smoothing looks back at
    auto& jpeg = *static_cast<JpegRows*>(codec->client_data);
    if (is_writable == FALSE && begin > kStillRead) {
      JDIMENSION& forgotten = jpeg.forgotten_of(array);
      while (forgotten + 1 < begin - kStillRead) {
        // A row reaches to the next one, unless the next one was allocated elsewhere.
        const JBLOCKROW row = *jpeg.access_(codec, array, forgotten, 1, FALSE);
        const JBLOCKROW next = *jpeg.access_(codec, array, ++forgotten, 1, FALSE);
        const auto blocks = static_cast<std::size_t>(next > row ? next - row : 0);
        if (blocks <= jpeg.codec_.image_width / DCTSIZE + 2 * MAX_SAMP_FACTOR)
          forget_pages(row, blocks * sizeof(JBLOCK));
      }
    }
    return jpeg.access_(codec, array, begin, count, is_writable);
  }
  JDIMENSION& forgotten_of(jvirt_barray_ptr array) {
    std::size_t i = 0;
    while (i + 1 < arrays_.size() && arrays_[i] != array && arrays_[i] != nullptr) ++i;
    arrays_[i] = array;
    return forgotten_[i];
  }

  jpeg_decompress_struct codec_{};
  JpegFailure failure_{};
  jpeg_source_mgr source_{};
  int channels_ = 0;
  decltype(jpeg_memory_mgr::access_virt_barray) access_ = nullptr;
  std::array<jvirt_barray_ptr, MAX_COMPONENTS> arrays_{};  ///< one each component
  std::array<JDIMENSION, MAX_COMPONENTS> forgotten_{};     ///< their first rows
};

}  // namespace

constinit const bool has_libjpeg = true;

Picture decode_with_libjpeg(const Encoded& encoded, const Header& header, const PixelBox& needed) {
  JpegRows jpeg(encoded.bytes);
  const auto fail = [&] {
    const std::string why = jpeg.why();
    throw Error(ErrorCode::decode_failed, why.empty()
                                              ? "the file is truncated inside the picture's data"
                                              : "the JPEG is damaged: " + why);
  };
  if (!jpeg.begin()) fail();
  const int channels = jpeg.channels();
  if ((channels != 1 && channels != 3 && channels != 4) || jpeg.width() != header.width ||
      jpeg.height() != header.height)
    throw Error(ErrorCode::decode_failed, "the JPEG is damaged: its headers contradict each other");
  std::int64_t first = 0;
  if (needed.width < header.width && !jpeg.crop(needed.left, needed.left + needed.width, first))
    fail();
  const std::int64_t width = jpeg.read_width();
  Picture picture = reserve_picture(header.width, header.height);
  std::vector<std::uint8_t> row(
      channels == 3 ? 0 : static_cast<std::size_t>(width) * static_cast<std::size_t>(channels));
  for (std::int64_t y = 0; y < header.height; ++y) {
    std::uint8_t* rgb = add_row(picture) + 3 * first;
    if (!jpeg.read(channels == 3 ? rgb : row.data())) fail();
    encoded.forget_before(encoded.bytes.size() - jpeg.num_unread());
    for (std::int64_t x = 0; channels != 3 && x < width; ++x) {
      const std::uint8_t* pixel = row.data() + x * channels;
      for (int c = 0; c < 3; ++c, ++rgb) {
        // Adobe's programs, which write such files, invert them.
        const auto ink = [](std::uint8_t value) { return static_cast<std::uint8_t>(255 - value); };
        *rgb = channels == 1 ? *pixel : cmyk_to_rgb(ink(pixel[c]), ink(pixel[3]));
      }
    }
  }
  return picture;
}

#else

constinit const bool has_libjpeg = false;

Picture decode_with_libjpeg(const Encoded&, const Header&, const PixelBox&) {
  throw Error(ErrorCode::unsupported_format, "this build has no libjpeg");
}

#endif

}  // namespace hydrascope::image
