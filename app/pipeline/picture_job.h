// One picture on its way to the model: read, cut into views, transformed. The work of the pipeline's
// threads on it; none of them knows the others here.
#pragma once

#include "app/pipeline/pipeline.h"

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::app {

/// A picture or one of its views. Video frames arrive decoded: their reader is sequential. So do
/// views, which share a picture.
struct PictureJob {
  std::int64_t sequence = 0;
  Input input;
  std::optional<std::int64_t> frame = {};
  std::optional<double> time = {};
  image::VideoFacts video = {};
  std::string note = {};  ///< what the record says of the frame
  std::shared_ptr<image::Picture> picture = {};
  std::optional<PictureView> view = {};
};

/// Processor time of the calling thread: unlike wall time, it does not grow when threads share a
/// core.
struct CoreSeconds {
  double decode = 0;
  double transform = 0;
};

/// Throws Error(invalid_argument) for pixels without a size of a picture, or that no memory holds.
void check_pixels(const PixelRows& rows);

/// The input's picture, upright as `options` say. Throws what reading and decoding throw.
image::Picture picture_of(const Input& input, const image::DecodeOptions& options);

/// A job per view, the picture read; one that has failed where it cannot be.
std::vector<PictureJob> cut_into_views(PictureJob job, const PipelineOptions& options,
                                       CoreSeconds& seconds);

/// The bytes of pixels and tensors.
std::int64_t byte_size(const PipelineResult& result);

/// All of the result that comes before the model: `tensor` as bytes where its engine takes bytes, or why
/// there is none.
PipelineResult prepare(PictureJob job, const PipelineOptions& options,
                       model::inference::Engine& model, CoreSeconds& seconds);

}  // namespace hydrascope::app
