#include "app/pipeline/picture_job.h"

#include "app/options/requests.h"
#include "app/pictures/decoding_workers.h"
#include "app/run/console.h"
#include "app/run/usage_error.h"
#include "kernels/error.h"
#include "model/image/needed_pixels.h"
#include "model/image/several_pictures.h"
#include "model/inference/overlap.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <istream>
#include <span>
#include <streambuf>
#include <string>
#include <system_error>
#include <time.h>
#include <utility>

namespace hydrascope::app {
namespace {

double thread_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

image::Picture copy_of(const PixelRows& rows, const image::DecodeOptions& options) {
  const auto& [rgb, height, width, row_stride] = rows;
  if (width > options.max_pixels / height)
    throw Error(ErrorCode::too_large, size_text({height, width}) +
                                          " pixels (HxW), above the limit of " +
                                          std::to_string(options.max_pixels) + " pixels");
  image::Picture picture{static_cast<int>(width), static_cast<int>(height), {}};
  const auto row = static_cast<std::size_t>(3 * width);
  picture.rgb.reserve(row * static_cast<std::size_t>(height));
  for (std::int64_t y = 0; y < height; ++y) {
    const std::uint8_t* begin = rgb + y * row_stride;
    picture.rgb.insert(picture.rgb.end(), begin, begin + row);
  }
  return picture;
}

/// Bytes that stay where they are.
class MemoryBuffer final : public std::streambuf {
 public:
  explicit MemoryBuffer(std::span<const std::byte> bytes) {
    char* begin = reinterpret_cast<char*>(const_cast<std::byte*>(bytes.data()));  // never written
    setg(begin, begin, begin + bytes.size());
  }

 private:
  pos_type seekoff(off_type offset, std::ios::seekdir from, std::ios::openmode which) override {
    const off_type base = from == std::ios::beg   ? 0
                          : from == std::ios::cur ? gptr() - eback()
                                                  : egptr() - eback();
    return seekpos(base + offset, which);
  }
  pos_type seekpos(pos_type place, std::ios::openmode /*which*/) override {
    if (place < 0 || place > egptr() - eback()) return pos_type(off_type(-1));
    setg(eback(), eback() + place, egptr());
    return place;
  }
};

/// A note on pictures in a file that are not looked at. A pipe is read once only.
std::string remark_on(const Input& input) {
  bool is_first = false;
  std::error_code ignored;
  if (input.memory && !input.memory->encoded.empty()) {
    MemoryBuffer buffer(input.memory->encoded);
    std::istream stream(&buffer);
    is_first = image::holds_several_pictures(stream);
  } else if (!input.memory && std::filesystem::is_regular_file(input.path, ignored)) {
    std::ifstream stream(input.path, std::ios::binary);
    is_first = image::holds_several_pictures(stream);
  }
  return is_first ? "the first of several pictures in the file" : "";
}

}  // namespace

void check_pixels(const PixelRows& rows) {
  constexpr std::int64_t kMostAlongAnEdge = std::int64_t{1} << 24;
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 47;  // of a process
  if (rows.rgb == nullptr) return;
  if (rows.height < 1 || rows.height > kMostAlongAnEdge || rows.width < 1 ||
      rows.width > kMostAlongAnEdge)
    throw UsageError("expected pixels with a height and a width, found " +
                     size_text({rows.height, rows.width}));
  const std::int64_t most = kMostBytes / rows.height;
  if (rows.row_stride > most || rows.row_stride < -most)
    throw UsageError("expected rows in memory, found them " + std::to_string(rows.row_stride) +
                     " bytes apart");
}

image::Picture picture_of(const Input& input, const image::DecodeOptions& options) {
  if (!input.memory) return image::read_picture(input.path, options);
  const PictureInMemory& memory = *input.memory;
  if (memory.pixels.rgb != nullptr) return copy_of(memory.pixels, options);
  if (std::cmp_greater(memory.encoded.size(), options.max_bytes))
    throw Error(ErrorCode::too_large,
                "the file has more than " + std::to_string(options.max_bytes) + " bytes");
  return decode_bytes(memory.encoded, options);
}

std::int64_t byte_size(const PipelineResult& result) {
  const auto pixels = static_cast<std::int64_t>(result.pixels.rgb.size());
  const auto bytes = [](const at::Tensor& tensor) {
    return tensor.defined() ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
  };
  return pixels + bytes(result.tensor) + bytes(result.tokens);
}

bool PipelineOptions::has_parts(const image::Size& picture, bool is_frame) const {
  if (!finder || (is_frame && finder->leaves_frames)) return false;
  constexpr std::int64_t kLong = 2;  // times as long as wide
  const auto [shorter, longer] = std::minmax(picture.height, picture.width);
  const std::int64_t edge = std::min(transform.img_size.height, transform.img_size.width);
  return shorter >= 2 * edge || longer >= std::max(kLong * shorter, 2 * edge);
}

namespace {

/// A picture that only the transform reads is decoded as far as it does.
image::NeededPixels needed_by(const PipelineOptions& options) {
  if (options.keep_picture || options.finder) return {};
  return [&options](std::int64_t height, std::int64_t width) -> image::PixelBox {
    try {
      const image::Size size{height, width};
      return image::needed_pixels(
          options.transform, size,
          image::plan_transform(options.transform, size, options.decode.max_pixels));
    } catch (const Error&) {  // it is thrown again behind the decoder
      return {0, 0, height, width};
    }
  };
}

}  // namespace

PipelineResult prepare(PictureJob job, const PipelineOptions& options,
                       model::inference::Engine& model, CoreSeconds& seconds) {
  PipelineResult result;
  result.frame = job.frame;
  result.time = job.time;
  result.video = job.video;
  result.input = std::move(job.input);
  if (result.input.error) {
    result.error = result.input.error;
    result.message = result.input.message;
    return result;
  }
  const double begin = thread_cpu_seconds();
  double decoded = begin;
  try {
    if (options.check_wanted) options.check_wanted(result.input);
    if (!job.picture) {
      // In memory the whole picture is decoded, or has been.
      const bool is_file = !result.input.memory && options.decode.reader == nullptr;
      job.picture = std::make_shared<image::Picture>(
          is_file ? image::read_picture(result.input.path, options.decode, needed_by(options))
                  : picture_of(result.input, options.decode));
      job.note = remark_on(result.input);
    }
    decoded = thread_cpu_seconds();
    result.picture = {job.picture->height, job.picture->width};
    const auto& finder = options.finder;
    const bool has_parts = options.has_parts(result.picture, result.frame.has_value());
    result.seer = has_parts ? Seer{finder->engine, &finder->transform, has_parts}
                            : Seer{&model, &options.transform};
    const image::TransformConfig& transform = *result.seer.transform;
    const image::TransformPlan& plan = result.plan =
        image::plan_transform(transform, result.picture, options.decode.max_pixels);
    result.note = image::describe_fit(transform, plan);
    if (!job.note.empty()) result.note += (result.note.empty() ? "" : "; ") + job.note;
    result.model_size = plan.output;
    result.tensor = image::transform_pixels(transform, *job.picture, plan);
    if (!takes_bytes(*result.seer.engine) || transform.in_chans != 3)
      result.tensor = image::normalise(transform, result.tensor, plan.output);
    if (options.keep_picture || has_parts) result.pixels = std::move(*job.picture);
  } catch (...) {
    const Error error = as_error(std::current_exception());
    result.error = error.code();
    result.message = spelled(error.what());
    result.tensor.reset();
    result.pixels = {};
  }
  seconds = {decoded - begin, thread_cpu_seconds() - decoded};
  return result;
}

at::Tensor model_input(const PipelineResult& result) {
  if (result.tensor.scalar_type() != at::kByte) return result.tensor;
  return image::normalise(*result.seer.transform, result.tensor, result.model_size);
}

}  // namespace hydrascope::app
