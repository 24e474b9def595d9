// From the results of the pipeline to the classes that records name.
#pragma once

#include "app/pipeline/pipeline.h"
#include "app/results/classify_record.h"
#include "model/image/labels.h"
#include "model/image/transform_plan.h"
#include "viz/heat/placement.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::app {

/// The numbers of a float32 tensor on the CPU that lie one behind the other.
inline std::span<const float> values_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

/// A result whose logits are not all finite becomes a failure.
void require_finite_logits(PipelineResult& result);

// From the frames of a video to answers that take earlier frames into account.

/// Whether a result is of the frame behind the last one that was asked about, of the same video.
class FollowedFrames {
 public:
  bool follows(const PipelineResult& result);

 private:
  std::string input_;
  std::optional<std::int64_t> frame_;
};

/// The exponential mean of the logits of a video's frames: (l_t + s w_(t-1) m_(t-1)) / w_t with w_t = 1 +
/// s w_(t-1), so that the first frames weigh as much as later ones.
class FrameAverage {
 public:
  explicit FrameAverage(double share) : share_(share) {}
  /// The mean takes the place of the logits of a frame; results come in their order. Pictures stay as they are.
  void add(PipelineResult& result);

 private:
  double share_;
  FollowedFrames frames_;
  at::Tensor mean_;  ///< (num_classes)
  double weight_ = 0;
};

/// After the model: the scores of the logits. Those of a failure go, and its tokens.
void finish_result(PipelineResult& result);

/// The answer to a result without an error, the surest first: its `count` best classes, or all where there are
/// fewer. In a picture of several views each has its place, where that is known.
std::vector<Prediction> top_classes(const PipelineResult& result, std::int64_t count,
                                    const image::Labels& labels);
/// Those of `indices`, in their order, with their ranks among all.
std::vector<Prediction> chosen_classes(const PipelineResult& result,
                                       std::span<const std::int64_t> indices,
                                       const image::Labels& labels);

// From what the evaluation transform does to where its result lies on the picture.

/// The place of the patches (`patch_size` pixels square) of the model's input on a picture of size
/// `picture`, after EXIF orientation, that `plan` was made for.
viz::Placement placement_of(const image::TransformPlan& plan, image::Size picture,
                            std::int64_t patch_size);

/// The part of the picture that the model saw.
Box box_of(const image::TransformPlan& plan, image::Size picture);

}  // namespace hydrascope::app
