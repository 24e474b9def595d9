// stb_image_write, https://github.com/nothings/stb (public domain). The implementation is compiled
// here, with internal linkage so that another copy in the process cannot clash with it.
#include "kernels/error.h"
#include "viz/picture/encoders.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory_resource>

namespace hydrascope::viz {
namespace {

/// The memory that stb_image_write takes on this thread. It writes into what it is given without a look
/// whether there is any, so a failure is an exception here; then all that it has taken is freed.
thread_local std::pmr::memory_resource* g_encoder_memory = nullptr;

void* resized(void* old, std::size_t old_size, std::size_t size) {
  void* const memory = g_encoder_memory->allocate(size);
  if (old == nullptr) return memory;
  std::memcpy(memory, old, std::min(old_size, size));
  g_encoder_memory->deallocate(old, old_size);
  return memory;
}

}  // namespace
}  // namespace hydrascope::viz

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#endif
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#define STBIW_MALLOC(size) hydrascope::viz::g_encoder_memory->allocate(size)
#define STBIW_REALLOC_SIZED(old, old_size, size) hydrascope::viz::resized(old, old_size, size)
#define STBIW_FREE(memory) static_cast<void>(memory)  // at the end of the encoding
#include <stb/stb_image_write.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#include <exception>
#include <utility>

namespace hydrascope::viz {
namespace {

struct Sink {
  std::vector<std::byte> bytes;
  std::exception_ptr failure;  ///< must not travel through C
};

void append(void* context, void* data, int size) {
  auto& sink = *static_cast<Sink*>(context);
  try {
    const auto* from = static_cast<const std::byte*>(data);
    sink.bytes.insert(sink.bytes.end(), from, from + size);
  } catch (...) {
    sink.failure = std::current_exception();
  }
}

}  // namespace

std::vector<std::byte> encode_with_stb(const Canvas& canvas, ImageFormat format, int quality) {
  // It counts bytes in int.
  if (canvas.rgb.size() + static_cast<std::size_t>(canvas.height) > std::size_t{1} << 30)
    throw Error(ErrorCode::too_large, "stb_image_write encodes pictures of up to 2^30 bytes", {},
                "OpenCV encodes larger ones");
  std::pmr::unsynchronized_pool_resource memory;
  g_encoder_memory = &memory;
  Sink sink;
  const int written = format == ImageFormat::png
                          ? stbi_write_png_to_func(append, &sink, canvas.width, canvas.height, 3,
                                                   canvas.rgb.data(), 3 * canvas.width)
                          : stbi_write_jpg_to_func(append, &sink, canvas.width, canvas.height, 3,
                                                   canvas.rgb.data(), quality);
  if (sink.failure) std::rethrow_exception(sink.failure);
  if (written == 0)
    throw Error(ErrorCode::out_of_memory, "stb_image_write has no memory to encode a picture");
  return std::move(sink.bytes);
}

}  // namespace hydrascope::viz
