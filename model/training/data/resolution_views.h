// A student's views when it learns other picture sizes than its teacher's: pictures enlarged to
// sizes drawn from a list, and scenes in which pictures are small parts of a large background. The
// teacher looks at every picture by itself, at its own size.
#pragma once

#include "model/image/decode.h"
#include "model/training/data/random_stream.h"
#include "model/training/data/training_set.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

namespace hydrascope::model::training {

struct ResolutionOptions {
  std::vector<image::Size> sizes = {};  ///< the student's sizes; empty: the teacher's alone
  std::vector<std::filesystem::path> backgrounds = {};  ///< scenes' backgrounds; empty: no scenes
  double scene_share = 0.4;  ///< share of the batches larger than the teacher's in both edges
  double least_part = 112;   ///< shorter edge of a picture in a scene, pixels
};

/// Throws Error(invalid_argument) for sizes below one pixel.
void check_resolutions(const ResolutionOptions& options);

/// Whether a view has room for scenes: it is larger than the teacher's picture in both
/// edges.
bool has_room(image::Size view, image::Size teacher);

/// The form of one batch, whose views all have one size.
struct ResolutionStep {
  image::Size size = {};
  std::int64_t views = 1;
  std::int64_t parts = 1;  ///< pictures in a view
  bool is_scene = false;   ///< on a background
};

/// Draws a size so that each size of the list takes about equally much computation over a run, by
/// its number of pixels. A batch holds `batch_size` views of the teacher's size, or fewer in
/// proportion to a larger size's pixels; a size of which one view costs more than that batch comes
/// more seldom. views * parts is at most `batch_size`.
ResolutionStep draw_resolution(const ResolutionOptions& options, image::Size teacher,
                               std::int64_t batch_size, RandomStream& stream);

/// Makes one view, float32 (3, size), normalised; `seen_by_teacher` receives its parts, each as (3,
/// options.size). Crops and flips are `augment`'s; colours stay. Without a background the one
/// picture fills the view; if the view's aspect ratio differs from the teacher's, the teacher sees
/// it squashed. Parts of a scene lie in equal strips of its longer edge, so that none covers
/// another; their sizes are drawn uniformly in their logarithm. A third of the parts keep hard edges;
/// the others fade into the background at a rounded rim and take up to half of its mean colour.
at::Tensor make_view(const AugmentOptions& options, const ResolutionOptions& resolutions,
                     const ResolutionStep& step,
                     const std::vector<std::shared_ptr<const image::Picture>>& pictures,
                     const image::Picture* background, RandomStream& stream,
                     float* seen_by_teacher);

/// An image (3, h, w), normalised, alone in a scene: (3, size), on the CPU. Edge and place are drawn
/// as in `make_view`.
at::Tensor scene_of(const at::Tensor& image, const AugmentOptions& options,
                    const ResolutionOptions& resolutions, const image::Picture& background,
                    image::Size size, RandomStream& stream);

}  // namespace hydrascope::model::training
