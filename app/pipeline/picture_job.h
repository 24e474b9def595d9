// One picture on its way to the model: read, transformed. The work of the pipeline's
// threads on it; none of them knows the others here.
#pragma once

#include "app/pipeline/pipeline.h"

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>

namespace hydrascope::app {

/// A picture. Video frames arrive decoded: their reader is sequential.
struct PictureJob {
  std::int64_t sequence = 0;
  Input input;
  std::optional<std::int64_t> frame = {};
  std::optional<double> time = {};
  image::VideoFacts video = {};
  std::string note = {};  ///< what the record says of the frame
  std::shared_ptr<image::Picture> picture = {};
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

/// The bytes of pixels and tensors.
std::int64_t byte_size(const PipelineResult& result);

/// All of the result that comes before the model: `tensor` as bytes where its engine takes bytes, or why
/// there is none.
PipelineResult prepare(PictureJob job, const PipelineOptions& options,
                       model::inference::Engine& model, CoreSeconds& seconds);

}  // namespace hydrascope::app
