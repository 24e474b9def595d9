#include "app/session/look_closer.h"

#include "app/pipeline/predictions.h"
#include "model/inference/overlap.h"
#include "model/look/gate.h"
#include "model/transform.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
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

image::Picture cut_out(const image::Picture& picture, const Box& box) {
  image::Picture part{static_cast<int>(box.width), static_cast<int>(box.height), {}};
  const auto row = static_cast<std::ptrdiff_t>(3 * box.width);
  part.rgb.reserve(static_cast<std::size_t>(row * box.height));
  for (std::int64_t y = box.top; y < box.top + box.height; ++y) {
    const auto begin = picture.rgb.begin() + 3 * (y * picture.width + box.left);
    part.rgb.insert(part.rgb.end(), begin, begin + row);
  }
  return part;
}

/// The logits (num_classes) of each part of the picture.
std::vector<at::Tensor> logits_of_parts(const image::Picture& picture, std::span<const Box> boxes,
                                        model::inference::Engine& engine,
                                        const image::TransformConfig& transform) {
  const bool as_bytes = takes_bytes(engine) && transform.in_chans == 3;
  const image::Size size = image::plan_transform(transform, {picture.height, picture.width}).output;
  const std::int64_t at_once = std::max<std::int64_t>(
      engine.enough_tokens() / engine.num_tokens(size.height, size.width), 1);
  std::vector<at::Tensor> images(boxes.size());
  // Each takes milliseconds on one thread, most of them of large boxes.
  at::parallel_for(0, std::ssize(boxes), 1, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t i = first; i < end; ++i) {
      const auto index = static_cast<std::size_t>(i);
      const at::Tensor image = image::transform_pixels(transform, cut_out(picture, boxes[index]));
      images[index] = as_bytes ? image : image::normalise(transform, image, size);
    }
  });
  std::vector<at::Tensor> logits;
  for (auto first = images.begin(); first != images.end();) {
    const auto end = first + std::min<std::ptrdiff_t>(at_once, images.end() - first);
    const at::Tensor rows = engine
                                .compute({std::vector<at::Tensor>(first, end),
                                          {},
                                          size.height,
                                          size.width,
                                          transform.mean,
                                          transform.std})
                                .logits;
    for (const at::Tensor& row : rows.unbind()) logits.push_back(row.contiguous());
    first = end;
  }
  return logits;
}

CloserLooks::Place place_of(const Box& box, double weight, std::span<const double> probabilities) {
  const auto best = std::ranges::max_element(probabilities);
  return {box, weight, best - probabilities.begin(), *best};
}

/// The looks that see a thing; where there are none, the one that overlaps it most.
std::vector<std::size_t> looks_at(const look::Area& thing, std::span<const look::Look> looks) {
  constexpr double kSees = 0.3;
  std::vector<std::size_t> seen;
  const auto share = [&](std::size_t i) { return look::overlap(looks[i].area, thing); };
  std::size_t most = 0;
  for (std::size_t i = 0; i < looks.size(); ++i) {
    if (share(i) > kSees) seen.push_back(i);
    if (share(i) > share(most)) most = i;
  }
  if (seen.empty()) seen.push_back(most);
  return seen;
}

// The map of a picture with one thing has faint regions, too, and a look at water is sure of a jellyfish.
// A second thing counts where a look of its own gives a class that probability,
constexpr double kSure = 0.5;
// the answer of all looks gives the class this one,
constexpr double kLikely = 0.01;
// and its look shows no more of the first thing than that share.
constexpr double kApart = 0.5;

}  // namespace

std::int64_t look_closer(PipelineResult& result, const look::AttentionMap& map,
                         model::inference::Engine& engine,
                         const image::TransformConfig& transform) {
  const image::TransformPlan& pass = result.views.plans.front();
  const std::int64_t width = std::min(pass.cropped.width, pass.resized.width);
  const std::int64_t height = std::min(pass.cropped.height, pass.resized.height);
  const look::Places places = look::find_places(map, width, height);
  std::vector<Box> boxes;
  for (const look::Look& each : places.looks)
    boxes.push_back(on_picture(each.area, pass, result.picture));
  // The looks follow the peak, hence other things have one of their own.
  for (std::size_t i = 1; i < places.things.size(); ++i)
    boxes.push_back(
        on_picture(look::square_of(places.things[i], width, height), pass, result.picture));
  const std::vector<at::Tensor> tensors = logits_of_parts(result.pixels, boxes, engine, transform);
  std::vector<std::span<const float>> logits;
  for (const at::Tensor& each : tensors) logits.push_back(values_of(each));
  const std::size_t num_looks = places.looks.size();
  const look::Mixture mixture =
      look::mix(map, width, height, places.looks, std::span(logits).first(num_looks),
                values_of(result.logits));

  CloserLooks closer;
  std::vector<look::Area> things;
  for (std::size_t i = 0; i < places.things.size(); ++i) {
    const look::Area& thing = places.things[i];
    const Box box = on_picture(thing, pass, result.picture);
    const CloserLooks::Place place =
        i == 0 ? place_of(box, 1, mixture.of(looks_at(thing, places.looks)))
               : place_of(box, 0, look::distribution_of(logits[num_looks + i - 1]));
    const auto is_of_its_own = [&] {
      const look::Area& first = places.things.front();
      return place.probability >= kSure &&
             mixture.probabilities[static_cast<std::size_t>(place.index)] >= kLikely &&
             look::shared_pixels(first, look::square_of(thing, width, height)) <=
                 kApart * first.width * first.height;
    };
    if (i > 0 && !is_of_its_own()) continue;
    things.push_back(thing);
    closer.things.push_back(place);
  }
  for (std::size_t i = 0; i < num_looks; ++i) {
    closer.looks.push_back(place_of(boxes[i], mixture.weights[i], mixture.distributions[i]));
    const auto share = [&](const look::Area& thing) {
      return look::overlap(places.looks[i].area, thing);
    };
    auto thing = std::ranges::max_element(things, {}, share);
    // A wide look at the first thing may overlap a faint one more.
    if (!things.empty() && closer.looks.back().index == closer.things.front().index &&
        share(things.front()) > 0)
      thing = things.begin();
    const bool is_seen = thing != things.end() && share(*thing) > 0;
    closer.found_in.push_back(is_seen ? on_picture(*thing, pass, result.picture) : boxes[i]);
  }
  std::vector<std::size_t> best_looks;
  for (std::size_t index = 0; index < mixture.probabilities.size(); ++index) {
    std::size_t best = 0;
    const auto said = [&](std::size_t i) {
      return mixture.weights[i] * mixture.distributions[i][index];
    };
    for (std::size_t i = 1; i < num_looks; ++i)
      if (said(i) > said(best)) best = i;
    best_looks.push_back(best);
  }
  PictureViews& views = result.views;
  views.best = BestViews::of_mixture(mixture.probabilities, best_looks);
  views.kind = "look";
  views.closer = std::move(closer);
  result.logits = at::empty({std::ssize(mixture.probabilities)});
  float* values = result.logits.mutable_data_ptr<float>();
  for (const BestViews::Best& one : views.best.classes()) *values++ = static_cast<float>(one.logit);
  return std::ssize(boxes);
}

}  // namespace hydrascope::app
