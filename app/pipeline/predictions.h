// From the results of the pipeline to the classes that records name.
#pragma once

#include "app/pipeline/pipeline.h"
#include "app/results/classify_record.h"
#include "model/image/labels.h"
#include "model/image/transform_plan.h"
#include "viz/heat/placement.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
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
  /// The mean takes the place of the logits of a frame in one view; results come in their order. Others
  /// stay as they are.
  void add(PipelineResult& result);

 private:
  double share_;
  FollowedFrames frames_;
  at::Tensor mean_;  ///< (num_classes)
  double weight_ = 0;
};

// From the results of a picture's views, one after the other, to the picture's.

class ViewCombiner {
 public:
  /// Both must outlive it.
  ViewCombiner(const PipelineOptions& options, const std::function<bool(PipelineResult&)>& done)
      : options_(options), done_(done) {}

  /// The result of the next view, in order, which it takes apart; `done` gets the picture's after
  /// the last, and says whether to go on. A picture fails as its first view that does.
  bool add(PipelineResult& view);
  /// Pictures that did not fail.
  [[nodiscard]] std::int64_t classified() const noexcept { return classified_; }

 private:
  /// `view` may be `picture` itself, the first.
  void take(PipelineResult& view, PipelineResult& picture);
  /// Values of one view of several go, values of all views come in their place.
  void become_one(PipelineResult& picture);

  const PipelineOptions& options_;
  const std::function<bool(PipelineResult&)>& done_;
  std::optional<PipelineResult> picture_;  // in the making
  std::int64_t classified_ = 0;
  /// Whose tokens are kept: the views that the explained classes are best in, and those that may be, or are,
  /// places where views agree.
  [[nodiscard]] std::set<std::size_t> explained_views(const PipelineResult& picture);

  std::vector<std::vector<float>> probabilities_;  // by view, where they are several
  std::vector<bool> agree_;                        // with a neighbour: views of rows that are over
};

/// Fills in what became of one input: its name, sizes, views and looks, its error.
void add_result(InputRecord& record, const PipelineResult& result, const image::Labels& labels);

/// The answer to a result without an error, the surest first: its `count` best classes, or all where there are
/// fewer; of tiles the classes that they agree on, `count` at most, or else the best one alone. Each has the
/// probability and the logit of its best view, and of several views the box.
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
