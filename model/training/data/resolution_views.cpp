#include "model/training/data/resolution_views.h"

#include "kernels/error.h"
#include "model/training/data/augment.h"
#include "model/training/data/crop.h"
#include "model/training/data/rand_augment.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace hydrascope::model::training {
namespace {

double pixels_of(image::Size size) {
  return static_cast<double>(size.height) * static_cast<double>(size.width);
}

/// The border of a picture in a scene. Pasted edges are in no photograph, and a student that saw no
/// others learns to find them.
struct Border {
  double exponent;  ///< of the superellipse that is kept: 2 an ellipse; 0: all, with hard edges
  double softness;  ///< width of the fading rim over the superellipse's radius
  double tint;      ///< the share of the background's mean colour in the picture's
};

Border draw_border(RandomStream& stream) {
  constexpr std::uint64_t kForms = 3;
  const std::uint64_t form = stream.below(kForms);
  if (form == 0) return {0, 0, 0};
  constexpr double kAlmostSquare = 6;
  return {form == 1 ? kAlmostSquare : 2, stream.uniform(0.1, 0.4), stream.uniform(0, 0.5)};
}

/// How much of a picture shows, (edge, edge): 1 inside, 0 outside of the superellipse.
at::Tensor mask_of(const Border& border, std::int64_t edge) {
  const at::Tensor across =
      (at::arange(edge, at::kDouble) + 0.5) * (2.0 / static_cast<double>(edge)) - 1;
  const at::Tensor powers = across.abs().pow(border.exponent);
  const at::Tensor radius = (powers.unsqueeze(0) + powers.unsqueeze(1)).pow(1 / border.exponent);
  const at::Tensor inside = ((1 - radius) / border.softness).clamp(0, 1);
  return (inside * inside * (3 - 2 * inside)).to(at::kFloat);
}

/// Puts `part`, (3, edge, edge), into `scene`, (3, H, W), both normalised.
void paste(at::Tensor part, std::int64_t top, std::int64_t left, RandomStream& stream,
           at::Tensor& scene) {
  const Border border = draw_border(stream);
  const std::int64_t edge = part.size(1);
  at::Tensor place = scene.narrow(1, top, edge).narrow(2, left, edge);
  if (border.exponent > 0) {
    constexpr std::array<std::int64_t, 2> kPixels{1, 2};
    const at::Tensor difference = place.mean(kPixels, true) - part.mean(kPixels, true);
    part = place + mask_of(border, edge) * (part + border.tint * difference - place);
  }
  place.copy_(part);
}

/// A random part of the background, at least the smallest that covers the view without being
/// enlarged; a background that is too small is enlarged.
image::Picture canvas_of(const image::Picture& background, image::Size size, RandomStream& stream) {
  const double width_of_height = static_cast<double>(size.width) / static_cast<double>(size.height);
  const auto largest = static_cast<std::int64_t>(
      std::min<double>(background.height, std::floor(background.width / width_of_height)));
  const std::int64_t least = std::min(largest, size.height);
  const std::int64_t height = least + static_cast<std::int64_t>(stream.below(largest - least + 1));
  const std::int64_t width = std::clamp<std::int64_t>(
      std::llround(static_cast<double>(height) * width_of_height), 1, background.width);
  const CropBox box{static_cast<std::int64_t>(stream.below(background.height - height + 1)),
                    static_cast<std::int64_t>(stream.below(background.width - width + 1)), height,
                    width};
  image::Picture canvas = resize_crop(background, box, size, image::Interpolation::bicubic);
  if (stream.chance(0.5)) flip_horizontally(canvas);
  return canvas;
}

/// Edge in pixels of a picture in a scene, `most` at most; uniform in its logarithm.
std::int64_t draw_edge(const ResolutionOptions& resolutions, std::int64_t most,
                       RandomStream& stream) {
  const auto largest = static_cast<double>(most);
  const double least = std::min(resolutions.least_part, largest);
  return static_cast<std::int64_t>(std::exp(stream.uniform(std::log(least), std::log(largest))));
}

}  // namespace

bool has_room(image::Size view, image::Size teacher) {
  return view.height > teacher.height && view.width > teacher.width;
}

void check_resolutions(const ResolutionOptions& options) {
  for (const image::Size size : options.sizes) {
    if (size.height < 1 || size.width < 1)
      throw Error(ErrorCode::invalid_argument, "a size to learn needs at least one pixel");
  }
}

ResolutionStep draw_resolution(const ResolutionOptions& options, image::Size teacher,
                               std::int64_t batch_size, RandomStream& stream) {
  const auto views_of = [&](image::Size size) {
    return static_cast<double>(batch_size) * pixels_of(teacher) / pixels_of(size);
  };
  double sum = 0;
  for (const image::Size size : options.sizes) sum += std::min(1.0, views_of(size));
  double drawn = stream.uniform(0, sum);
  std::size_t chosen = 0;
  while (chosen + 1 < options.sizes.size() &&
         drawn >= std::min(1.0, views_of(options.sizes[chosen])))
    drawn -= std::min(1.0, views_of(options.sizes[chosen++]));

  ResolutionStep step{.size = options.sizes[chosen]};
  step.is_scene = has_room(step.size, teacher) && !options.backgrounds.empty() &&
                  stream.chance(options.scene_share);
  constexpr double kTwoParts = 0.25;
  if (step.is_scene && batch_size > 1 && stream.chance(kTwoParts)) step.parts = 2;
  step.views =
      std::clamp<std::int64_t>(std::llround(views_of(step.size)), 1, batch_size / step.parts);
  return step;
}

at::Tensor make_view(const AugmentOptions& options, const ResolutionOptions& resolutions,
                     const ResolutionStep& step,
                     const std::vector<std::shared_ptr<const image::Picture>>& pictures,
                     const image::Picture* background, RandomStream& stream,
                     float* seen_by_teacher) {
  const auto cut = [&](const image::Picture& picture, image::Size size, double aspect) {
    const std::array<double, 2> ratio{options.ratio[0] * aspect, options.ratio[1] * aspect};
    const CropBox box =
        random_resized_crop({picture.height, picture.width}, options.scale, ratio, stream);
    const image::Interpolation interpolation = draw_interpolation(stream);
    image::Picture large = resize_crop(picture, box, size, interpolation);
    image::Picture small = resize_crop(picture, box, options.size, interpolation);
    if (stream.chance(options.hflip)) {
      flip_horizontally(large);
      flip_horizontally(small);
    }
    const at::Tensor seen = normalise(options, small);
    seen_by_teacher = std::copy_n(seen.const_data_ptr<float>(), seen.numel(), seen_by_teacher);
    return large;
  };
  if (!step.is_scene) {
    // As large a part for the whole view as for the teacher, whose aspect ratio differs.
    const auto width_of_height = [](image::Size of) {
      return static_cast<double>(of.width) / static_cast<double>(of.height);
    };
    image::Picture view = cut(*pictures.front(), step.size,
                              width_of_height(step.size) / width_of_height(options.size));
    return normalise(options, view);
  }
  image::Picture canvas = canvas_of(*background, step.size, stream);
  at::Tensor scene = normalise(options, canvas);
  const bool is_wide = step.size.width >= step.size.height;
  const std::int64_t longer = is_wide ? step.size.width : step.size.height;
  const std::int64_t shorter = is_wide ? step.size.height : step.size.width;
  const std::int64_t strip = longer / step.parts;
  for (std::int64_t i = 0; i < step.parts; ++i) {
    const std::int64_t edge = draw_edge(resolutions, std::min(strip, shorter), stream);
    const std::int64_t along =
        i * strip + static_cast<std::int64_t>(stream.below(strip - edge + 1));
    const auto across = static_cast<std::int64_t>(stream.below(shorter - edge + 1));
    image::Picture part = cut(*pictures[static_cast<std::size_t>(i)], {edge, edge}, 1);
    paste(normalise(options, part), is_wide ? across : along, is_wide ? along : across, stream,
          scene);
  }
  return scene;
}

at::Tensor scene_of(const at::Tensor& image, const AugmentOptions& options,
                    const ResolutionOptions& resolutions, const image::Picture& background,
                    image::Size size, RandomStream& stream) {
  image::Picture canvas = canvas_of(background, size, stream);
  at::Tensor scene = normalise(options, canvas);
  const std::int64_t edge = draw_edge(resolutions, std::min(size.height, size.width), stream);
  const at::Tensor part = at::_upsample_bicubic2d_aa(image.unsqueeze(0).cpu(), {edge, edge},
                                                     /*align_corners=*/false);
  const auto top = static_cast<std::int64_t>(stream.below(size.height - edge + 1));
  const auto left = static_cast<std::int64_t>(stream.below(size.width - edge + 1));
  paste(part.squeeze(0), top, left, stream, scene);
  return scene;
}

}  // namespace hydrascope::model::training
