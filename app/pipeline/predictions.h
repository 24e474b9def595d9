// From the results of the pipeline to the classes that records name.
#pragma once

#include "app/pipeline/pipeline.h"
#include "app/results/classify_record.h"
#include "model/image/labels.h"
#include "model/image/transform_plan.h"
#include "viz/heat/placement.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace hydrascope::app {

/// A result whose logits are not all finite becomes a failure.
void require_finite_logits(PipelineResult& result);

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
  void take(PipelineResult& view, PipelineResult& picture);

  const PipelineOptions& options_;
  const std::function<bool(PipelineResult&)>& done_;
  std::optional<PipelineResult> picture_;  // in the making
  std::int64_t classified_ = 0;
};

/// The `count` best classes of a result without an error; all where there are fewer. Of a picture
/// in several views each has the probability, the logit and the box of its best view.
std::vector<Prediction> top_classes(const PipelineResult& result, std::int64_t count,
                                    const image::Labels& labels);
/// Those of `indices`, in their order, with their ranks among all.
std::vector<Prediction> chosen_classes(const PipelineResult& result,
                                       std::span<const std::int64_t> indices,
                                       const image::Labels& labels);

// From what the evaluation transform does to where its result lies on the picture.

/// Where the patches (`patch_size` pixels square) of the model's input lie on a picture of size
/// `picture`, after EXIF orientation, that `plan` was made for.
viz::Placement placement_of(const image::TransformPlan& plan, image::Size picture,
                            std::int64_t patch_size);

/// The part of the picture that the model saw.
Box box_of(const image::TransformPlan& plan, image::Size picture);

}  // namespace hydrascope::app
