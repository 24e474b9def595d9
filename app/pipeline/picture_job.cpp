#include "app/pipeline/picture_job.h"

#include "kernels/error.h"

#include <new>
#include <time.h>
#include <utility>

namespace hydrascope::app {
namespace {

double thread_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
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
    const double begin = thread_cpu_seconds();
    if (!job.picture)
      job.picture =
          std::make_shared<image::Picture>(image::read_picture(job.input.path, options.decode));
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
    if (!job.picture)
      job.picture =
          std::make_shared<image::Picture>(image::read_picture(result.input.path, options.decode));
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

}  // namespace hydrascope::app
