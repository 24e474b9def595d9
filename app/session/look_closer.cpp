#include "app/session/look_closer.h"

#include "app/pipeline/predictions.h"
#include "model/image/resample.h"
#include "model/inference/overlap.h"
#include "model/look/gate.h"
#include "model/transform.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace hydrascope::app {
namespace {

/// Pixels of a pass -> pixels of its picture, at least one along each edge.
Box on_picture(const look::Area& area, const image::TransformPlan& pass, image::Size picture) {
  const auto edge = [](double begin, double length, std::int64_t window, std::int64_t resized,
                       std::int64_t whole) {
    const double scale = static_cast<double>(whole) / static_cast<double>(resized);
    const auto place = [&](double pixel) {
      return std::llround((pixel + static_cast<double>(window)) * scale);
    };
    const std::int64_t first = std::clamp<std::int64_t>(place(begin), 0, whole - 1);
    const std::int64_t end = std::clamp<std::int64_t>(place(begin + length), first + 1, whole);
    return std::pair{first, end - first};
  };
  const auto [left, width] =
      edge(area.left, area.width, pass.window_left, pass.resized.width, picture.width);
  const auto [top, height] =
      edge(area.top, area.height, pass.window_top, pass.resized.height, picture.height);
  return {left, top, width, height};
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

/// Looks at parts of a picture.
class Looker {
 public:
  /// All must outlive it.
  Looker(const image::Picture& picture, model::inference::Engine& engine,
         const image::TransformConfig& transform)
      : engine_(engine),
        transform_(transform),
        size_(image::plan_transform(transform, {picture.height, picture.width}).output),
        halves_(picture, std::max(size_.height, size_.width),
                std::min(picture.height, picture.width)) {}

  /// Adds the logits (num_classes) of each part.
  void look_at(std::span<const Box> boxes, std::vector<at::Tensor>& logits) const {
    const bool as_bytes = takes_bytes(engine_) && transform_.in_chans == 3;
    const std::int64_t at_once = std::max<std::int64_t>(
        engine_.enough_tokens() / engine_.num_tokens(size_.height, size_.width), 1);
    std::vector<at::Tensor> images(boxes.size());
    // Each takes a millisecond on one thread.
    at::parallel_for(0, std::ssize(boxes), 1, [&](std::int64_t first, std::int64_t end) {
      for (std::int64_t i = first; i < end; ++i) {
        const auto index = static_cast<std::size_t>(i);
        const at::Tensor image = image::transform_pixels(transform_, halves_.cut_out(boxes[index]));
        images[index] = as_bytes ? image : image::normalise(transform_, image, size_);
      }
    });
    for (auto first = images.begin(); first != images.end();) {
      const auto end = first + std::min<std::ptrdiff_t>(at_once, images.end() - first);
      const at::Tensor rows = engine_
                                  .compute({std::vector<at::Tensor>(first, end),
                                            {},
                                            size_.height,
                                            size_.width,
                                            transform_.mean,
                                            transform_.std})
                                  .logits;
      for (const at::Tensor& row : rows.unbind()) logits.push_back(row.contiguous());
      first = end;
    }
  }

 private:
  model::inference::Engine& engine_;
  const image::TransformConfig& transform_;
  image::Size size_;  // of the engine's input
  Halves halves_;
};

CloserLooks::Place place_of(const Box& box, double weight, std::span<const double> probabilities) {
  const auto best = std::ranges::max_element(probabilities);
  return {box, weight, best - probabilities.begin(), *best};
}

bool is_all_of(const Box& box, image::Size picture) {
  constexpr double kNearly = 0.95;
  return static_cast<double>(box.width) * static_cast<double>(box.height) >=
         kNearly * static_cast<double>(picture.width) * static_cast<double>(picture.height);
}

/// The looks that see a thing; where there are none, the one that overlaps it most.
std::vector<std::size_t> looks_at(const look::Area& thing, std::span<const look::Look> looks) {
  std::vector<std::size_t> seen;
  const auto share = [&](std::size_t i) { return look::overlap(looks[i].area, thing); };
  std::size_t most = 0;
  for (std::size_t i = 0; i < looks.size(); ++i) {
    if (share(i) > look::kSees) seen.push_back(i);
    if (share(i) > share(most)) most = i;
  }
  if (seen.empty()) seen.push_back(most);
  return seen;
}

// A thing that is not the answer counts where the looks at it give a class that probability.
constexpr double kSure = 0.6;

// The first looks, and the probability of an answer to which more of them add nothing.
constexpr std::size_t kFirstLooks = 8;
constexpr double kClear = 0.5;

}  // namespace

std::int64_t look_closer(PipelineResult& result, const look::AttentionMap& map,
                         model::inference::Engine& engine,
                         const image::TransformConfig& transform) {
  const image::TransformPlan& pass = result.plan;
  const std::int64_t width = std::min(pass.cropped.width, pass.resized.width);
  const std::int64_t height = std::min(pass.cropped.height, pass.resized.height);
  look::Places places = look::find_places(map, width, height);
  const Looker looker(result.pixels, engine, transform);
  std::vector<at::Tensor> tensors;  // logits of looks
  const auto answer_of = [&] {
    std::vector<std::span<const float>> logits;
    for (const at::Tensor& each : tensors) logits.push_back(values_of(each));
    return look::mix(map, width, height, std::span(places.looks).first(logits.size()), logits,
                     values_of(result.logits));
  };
  // Most pictures are clear after some looks.
  look::bring_forward(map, width, height, places.looks, kFirstLooks);
  std::vector<Box> boxes;
  for (const look::Look& each : places.looks)
    boxes.push_back(on_picture(each.area, pass, result.picture));
  const std::size_t at_first = std::min(kFirstLooks, boxes.size());
  looker.look_at(std::span(boxes).first(at_first), tensors);
  look::Mixture mixture = answer_of();
  if (at_first < boxes.size() && !(std::ranges::max(mixture.probabilities) >= kClear)) {
    looker.look_at(std::span(boxes).subspan(at_first), tensors);
    mixture = answer_of();
  }
  mixture.probabilities = look::heard_with(values_of(result.logits), mixture.probabilities);
  const std::size_t num_looks = tensors.size();
  places.looks.resize(num_looks);
  boxes.resize(num_looks);

  std::vector<std::size_t> best_looks;  // by class
  for (std::size_t index = 0; index < mixture.probabilities.size(); ++index) {
    std::size_t best = 0;
    const auto said = [&](std::size_t i) {
      return mixture.weights[i] * mixture.distributions[i][index];
    };
    for (std::size_t i = 1; i < num_looks; ++i)
      if (said(i) > said(best)) best = i;
    best_looks.push_back(best);
  }
  const auto answer =
      std::ranges::max_element(mixture.probabilities) - mixture.probabilities.begin();
  const std::size_t look_of_answer = best_looks[static_cast<std::size_t>(answer)];

  CloserLooks closer;
  if (places.thing) {
    const CloserLooks::Place thing = place_of(on_picture(*places.thing, pass, result.picture), 1,
                                              mixture.of(looks_at(*places.thing, places.looks)));
    const bool is_of_answer =
        thing.index == answer && look::is_at(places.looks[look_of_answer].area, *places.thing);
    if (is_of_answer || thing.probability >= kSure) closer.thing = thing;
  }
  for (std::size_t i = 0; i < num_looks; ++i) {
    closer.looks.push_back(place_of(boxes[i], mixture.weights[i], mixture.distributions[i]));
    std::optional<Box>& place = closer.found_in.emplace_back();
    if (!is_all_of(boxes[i], result.picture)) place = boxes[i];
    // The answer is in no thing of another class.
    if (closer.thing && look::is_at(places.looks[i].area, *places.thing) &&
        (i != look_of_answer || closer.thing->index == answer))
      place = closer.thing->box;
  }
  result.scores = ClassScores::of_mixture(mixture.probabilities, best_looks);
  result.closer = std::move(closer);
  result.logits = at::empty({std::ssize(mixture.probabilities)});
  float* values = result.logits.mutable_data_ptr<float>();
  for (const ClassScores::Score& one : result.scores.classes())
    *values++ = static_cast<float>(one.logit);
  return std::ssize(boxes);
}

}  // namespace hydrascope::app
