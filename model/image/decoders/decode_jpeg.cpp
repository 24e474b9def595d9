#include "model/image/decoders/decoders.h"

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
};

[[noreturn]] void leave_jpeg(j_common_ptr codec) {
  std::longjmp(reinterpret_cast<JpegFailure*>(codec->err)->back, 1);
}

void say_nothing(j_common_ptr, int) {}

/// Nothing here has a destructor: libjpeg leaves by longjmp.
bool decode_rows(const unsigned char* file, unsigned long size, int width, int height,
                 std::uint8_t* rgb) {
  jpeg_decompress_struct codec{};
  JpegFailure failure{};
  codec.err = jpeg_std_error(&failure.manager);
  failure.manager.error_exit = leave_jpeg;
  failure.manager.emit_message = say_nothing;
  if (setjmp(failure.back) != 0) {
    jpeg_destroy_decompress(&codec);
    return false;
  }
  jpeg_create_decompress(&codec);
  jpeg_mem_src(&codec, file, size);
  jpeg_read_header(&codec, TRUE);
  const bool is_taken = (codec.num_components == 1 || codec.num_components == 3) &&
                        static_cast<int>(codec.image_width) == width &&
                        static_cast<int>(codec.image_height) == height;
  if (is_taken) {
    codec.out_color_space = JCS_RGB;
    jpeg_start_decompress(&codec);
    while (codec.output_scanline < codec.output_height) {
      JSAMPROW row = rgb + std::size_t{3} * codec.output_scanline * codec.output_width;
      jpeg_read_scanlines(&codec, &row, 1);
    }
    jpeg_finish_decompress(&codec);
  }
  jpeg_destroy_decompress(&codec);
  return is_taken;
}

}  // namespace

std::optional<Picture> decode_with_libjpeg(std::span<const std::byte> bytes, const Header& header) {
  Picture picture = make_picture(header.width, header.height);
  if (!decode_rows(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                   picture.width, picture.height, picture.rgb.data()))
    return std::nullopt;
  return picture;
}

bool has_libjpeg() { return true; }

#else

std::optional<Picture> decode_with_libjpeg(std::span<const std::byte>, const Header&) {
  return std::nullopt;
}

bool has_libjpeg() { return false; }

#endif

}  // namespace hydrascope::image
