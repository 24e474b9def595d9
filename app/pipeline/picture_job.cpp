#include "app/pipeline/picture_job.h"

#include "app/options/requests.h"
#include "kernels/error.h"

#include <cerrno>
#include <new>
#include <span>
#include <string>
#include <sys/mman.h>
#include <system_error>
#include <time.h>
#include <unistd.h>
#include <utility>

namespace hydrascope::app {
namespace {

struct ClosedAtEnd {
  int descriptor;
  ~ClosedAtEnd() {
    if (descriptor >= 0) ::close(descriptor);
  }
};

double thread_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Where other processes decode they get the bytes as a file that is in memory alone.
image::Picture read_elsewhere(std::span<const std::byte> bytes,
                              const image::DecodeOptions& options) {
  const ClosedAtEnd file{::memfd_create("picture", MFD_CLOEXEC)};
  const auto fail = [] {
    throw Error(ErrorCode::failed,
                "no file in memory can be made: " + std::generic_category().message(errno));
  };
  if (file.descriptor < 0) fail();
  while (!bytes.empty()) {
    const ssize_t count = ::write(file.descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail();
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return options.reader->read(
      "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file.descriptor), options);
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

image::Picture picture_of(const Input& input, const image::DecodeOptions& options) {
  if (!input.memory) return image::read_picture(input.path, options);
  const PictureInMemory& memory = *input.memory;
  if (memory.pixels.rgb != nullptr) return copy_of(memory.pixels, options);
  if (std::cmp_greater(memory.encoded.size(), options.max_bytes))
    throw Error(ErrorCode::too_large,
                "the file has more than " + std::to_string(options.max_bytes) + " bytes");
  return options.reader == nullptr ? image::decode(memory.encoded, options)
                                   : read_elsewhere(memory.encoded, options);
}

/// The exception under way becomes the result's.
void fail(PipelineResult& result) {
  try {
    throw;
  } catch (const Error& error) {
    result.error = error.code();
    result.message = error.what();
  } catch (const std::bad_alloc&) {
    result.error = ErrorCode::out_of_memory;
    result.message = "not enough memory to decode the picture";
  } catch (const std::exception& error) {
    result.error = ErrorCode::internal;
    result.message = error.what();
  }
  result.tensor.reset();
  result.pixels = {};
}

}  // namespace

std::int64_t byte_size(const PipelineResult& result) {
  const auto pixels = static_cast<std::int64_t>(result.pixels.rgb.size());
  const auto bytes = [](const at::Tensor& tensor) {
    return tensor.defined() ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
  };
  return pixels + bytes(result.tensor) + bytes(result.tokens);
}

std::vector<PictureJob> cut_into_views(PictureJob job, const PipelineOptions& options,
                                       CoreSeconds& seconds) {
  std::vector<PictureJob> views;
  try {
    if (options.check_wanted) options.check_wanted(job.input);
    const double begin = thread_cpu_seconds();
    if (!job.picture)
      job.picture = std::make_shared<image::Picture>(picture_of(job.input, options.decode));
    const double decoded = thread_cpu_seconds();
    const std::shared_ptr<image::Picture> source = job.picture;
    const image::Size size{source->height, source->width};
    const std::vector<image::TransformPlan> plans =
        image::plan_views(options.transform, size, options.decode.max_pixels);
    std::optional<image::Size> scale;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      if (scale != plans[i].resized) {
        scale = plans[i].resized;
        job.picture = *scale == size ? source
                                     : std::make_shared<image::Picture>(image::resized_picture(
                                           *source, *scale, options.transform.interpolation));
      }
      job.view = PictureView{plans[i], i, plans.size(), source};
      views.push_back(job);
    }
    seconds = {decoded - begin, thread_cpu_seconds() - decoded};
  } catch (...) {
    PipelineResult failed;
    fail(failed);
    job.input.error = failed.error;
    job.input.message = failed.message;
    job.picture.reset();
    job.view.reset();
    views = {std::move(job)};
  }
  return views;
}

PipelineResult prepare(PictureJob job, const PipelineOptions& options, bool takes_bytes,
                       CoreSeconds& seconds) {
  PipelineResult result;
  result.frame = job.frame;
  result.video = job.video;
  result.input = std::move(job.input);
  if (job.view) result.view = *job.view;
  if (result.input.error) {
    result.error = result.input.error;
    result.message = result.input.message;
    return result;
  }
  const double begin = thread_cpu_seconds();
  double decoded = begin;
  try {
    if (options.check_wanted) options.check_wanted(result.input);
    if (!job.picture)
      job.picture = std::make_shared<image::Picture>(picture_of(result.input, options.decode));
    decoded = thread_cpu_seconds();
    const image::Picture& picture = job.view ? *job.view->source : *job.picture;
    result.picture = {picture.height, picture.width};
    const image::TransformPlan plan =
        job.view
            ? job.view->plan
            : image::plan_transform(options.transform, result.picture, options.decode.max_pixels);
    result.note = image::describe_fit(options.transform, plan);
    result.model_size = plan.output;
    result.tensor = image::transform_pixels(options.transform, *job.picture, plan);
    if (!takes_bytes)
      result.tensor = image::normalise(options.transform, result.tensor, plan.output);
    if (options.keep_picture && !job.view) result.pixels = std::move(*job.picture);
  } catch (...) {
    fail(result);
  }
  seconds = {decoded - begin, thread_cpu_seconds() - decoded};
  return result;
}

at::Tensor model_input(const PipelineOptions& options, const PipelineResult& result) {
  return result.tensor.scalar_type() == at::kByte
             ? image::normalise(options.transform, result.tensor, result.model_size)
             : result.tensor;
}

}  // namespace hydrascope::app
