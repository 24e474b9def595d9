#include "app/session/zoom.h"

#include "app/pipeline/predictions.h"
#include "model/image/resample.h"
#include "model/inference/overlap.h"
#include "model/transform.h"
#include "model/zoom/gate.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

namespace hydrascope::app {
namespace {

/// A box of a picture that has `whole` units along an edge of `pixels` pixels: at least one pixel along each edge.
std::pair<std::int64_t, std::int64_t> on_edge(double begin, double length, std::int64_t whole,
                                              std::int64_t pixels) {
  const double scale = static_cast<double>(pixels) / static_cast<double>(whole);
  const std::int64_t first = std::clamp<std::int64_t>(std::llround(begin * scale), 0, pixels - 1);
  const std::int64_t end =
      std::clamp<std::int64_t>(std::llround((begin + length) * scale), first + 1, pixels);
  return {first, end - first};
}

/// A picture, its half, its quarter and so on, which parts are cut out of: a large part is then resized from few
/// pixels.
class Halves {
 public:
  /// Parts become `edge` pixels square; none has more than `most` along its shorter edge.
  Halves(const image::Picture& picture, std::int64_t edge, std::int64_t most)
      : picture_(picture), least_(edge + edge / 2) {
    halves_.reserve(kMostHalves);
    while (is_enough(most, halves_.size() + 1))
      halves_.push_back(image::halved(at(halves_.size())));
  }
  Halves(const Halves&) = delete;
  Halves& operator=(const Halves&) = delete;

  [[nodiscard]] image::Picture cut_out(const Box& box) const {
    std::size_t level = 0;
    while (is_enough(std::min(box.width, box.height), level + 1)) ++level;
    const image::Picture& whole = at(level);
    const std::int64_t left = box.left >> level;
    const std::int64_t top = box.top >> level;
    const std::int64_t right = std::min<std::int64_t>((box.left + box.width) >> level, whole.width);
    const std::int64_t end = std::min<std::int64_t>((box.top + box.height) >> level, whole.height);
    image::Picture part{static_cast<int>(right - left), static_cast<int>(end - top), {}};
    const std::int64_t row = 3 * (right - left);
    part.rgb.reserve(static_cast<std::size_t>(row * (end - top)));
    for (std::int64_t y = top; y < end; ++y) {
      const auto begin = whole.rgb.begin() + 3 * (y * whole.width + left);
      part.rgb.insert(part.rgb.end(), begin, begin + row);
    }
    return part;
  }

 private:
  static constexpr std::size_t kMostHalves = 16;

  [[nodiscard]] bool is_enough(std::int64_t shorter, std::size_t level) const {
    return level <= kMostHalves && shorter >> level >= least_;
  }
  [[nodiscard]] const image::Picture& at(std::size_t level) const {
    return level == 0 ? picture_ : halves_.at(level - 1);
  }

  const image::Picture& picture_;
  std::int64_t least_;  // pixels of a part, along its shorter edge
  std::vector<image::Picture> halves_;
};

/// Sees parts of a picture.
class Viewer {
 public:
  /// All must outlive it.
  Viewer(const image::Picture& picture, model::inference::Engine& engine,
         const image::TransformConfig& of_parts, const image::TransformConfig& of_whole)
      : picture_(picture),
        engine_(engine),
        of_parts_(of_parts),
        of_whole_(of_whole),
        halves_(picture, of_parts.img_size.height, std::min(picture.height, picture.width)) {}

  /// Plans a view of each box, and fills in its tokens. Adds their logits (num_classes).
  void see(std::span<SeenView> views, std::vector<at::Tensor>& logits) const {
    std::vector<at::Tensor> images(views.size());
    const bool as_bytes = takes_bytes(engine_) && of_parts_.in_chans == 3;
    // Each takes a millisecond on one thread.
    at::parallel_for(0, std::ssize(views), 1, [&](std::int64_t first, std::int64_t end) {
      for (std::int64_t i = first; i < end; ++i) {
        SeenView& view = views[static_cast<std::size_t>(i)];
        const bool is_whole = view.box == Box{0, 0, picture_.width, picture_.height};
        const image::TransformConfig& transform = is_whole ? of_whole_ : of_parts_;
        const image::Picture part = halves_.cut_out(view.box);
        view.plan = image::plan_transform(transform, {part.height, part.width});
        const at::Tensor image = image::transform_pixels(transform, part, view.plan);
        images[static_cast<std::size_t>(i)] =
            as_bytes ? image : image::normalise(transform, image, view.plan.output);
      }
    });
    for (std::size_t first = 0; first < views.size();) {
      const image::Size size = views[first].plan.output;
      const auto at_once = static_cast<std::size_t>(std::max<std::int64_t>(
          engine_.enough_tokens() / engine_.num_tokens(size.height, size.width), 1));
      std::size_t end = first + 1;
      while (end < views.size() && end - first < at_once && views[end].plan.output == size) ++end;
      const auto outputs = engine_.compute(
          {std::vector<at::Tensor>(images.begin() + static_cast<std::ptrdiff_t>(first),
                                   images.begin() + static_cast<std::ptrdiff_t>(end)),
           {},
           size.height,
           size.width,
           of_parts_.mean,
           of_parts_.std});
      for (std::size_t i = first; i < end; ++i) {
        const auto row = static_cast<std::int64_t>(i - first);
        logits.push_back(outputs.logits.select(0, row).contiguous());
        if (outputs.tokens.defined()) views[i].tokens = outputs.tokens.select(0, row);
      }
      first = end;
    }
  }

 private:
  const image::Picture& picture_;
  model::inference::Engine& engine_;
  const image::TransformConfig& of_parts_;
  const image::TransformConfig& of_whole_;
  Halves halves_;
};

// From pixels of the finder's pass to those that views are planned in.
constexpr std::int64_t kScale = 2;

// The first views, and the probability of a class to which others add nothing.
constexpr std::size_t kFirstViews = 8;
constexpr double kClear = 0.5;

}  // namespace

std::int64_t zoom(PipelineResult& result, zoom::AttentionMap map, model::inference::Engine& engine,
                  const image::TransformConfig& of_parts, const image::TransformConfig& of_whole) {
  map.patch_size *= kScale;
  const std::int64_t width = kScale * result.plan.resized.width;
  const std::int64_t height = kScale * result.plan.resized.height;
  std::vector<zoom::View> planned = zoom::find_views(map, width, height);
  // Most pictures are clear after some views.
  zoom::bring_forward(map, width, height, planned, kFirstViews);
  const Viewer viewer(result.pixels, engine, of_parts, of_whole);
  std::vector<at::Tensor> tensors;  // logits of views
  zoom::Mixture mixture;
  const auto see_first = [&](std::size_t count) {
    const std::size_t before = result.views.size();
    for (std::size_t i = before; i < count; ++i) {
      const zoom::Area& area = planned[i].area;
      const auto [left, box_width] = on_edge(area.left, area.width, width, result.picture.width);
      const auto [top, box_height] = on_edge(area.top, area.height, height, result.picture.height);
      result.views.push_back({.box = {left, top, box_width, box_height}});
    }
    viewer.see(std::span(result.views).subspan(before), tensors);
    std::vector<std::span<const float>> logits;
    for (const at::Tensor& each : tensors) logits.push_back(values_of(each));
    mixture = zoom::mix(map, width, height, std::span(planned).first(count), logits);
  };
  see_first(std::min(kFirstViews, planned.size()));
  if (!(std::ranges::max(mixture.probabilities) >= kClear)) see_first(planned.size());

  for (std::size_t i = 0; i < result.views.size(); ++i) {
    result.views[i].weight = mixture.weights[i];
    result.views[i].probabilities = std::move(mixture.distributions[i]);
  }
  result.scores = ClassScores::of_mixture(mixture.probabilities);
  result.logits = at::empty({std::ssize(mixture.probabilities)});
  float* values = result.logits.mutable_data_ptr<float>();
  for (const ClassScores::Score& one : result.scores.classes())
    *values++ = static_cast<float>(one.logit);
  return std::ssize(result.views);
}

}  // namespace hydrascope::app
