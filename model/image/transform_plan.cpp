#include "model/image/transform_plan.h"

#include "kernels/error.h"
#include "model/image/resample.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace hydrascope::image {
namespace {

/// Bytes that a resampling may hold beside the picture: three million pixels of an edge need them.
constexpr double kMostResampleBytes = 80e6;

std::string size_text(Size size) {
  return std::to_string(size.height) + "x" + std::to_string(size.width);
}

std::string number(double value) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.6g", value);
  return digits;
}

std::string triple(const std::array<double, 3>& values, std::int64_t count = 3) {
  if (count == 1) return "(" + number(values[0]) + ")";
  return "(" + number(values[0]) + ", " + number(values[1]) + ", " + number(values[2]) + ")";
}

template <class Function>
Size for_each_edge(Size size, Function function) {
  return {function(size.height), function(size.width)};
}

Size round_up(Size size, std::int64_t patch) {
  return for_each_edge(size, [&](std::int64_t n) { return (n + patch - 1) / patch * patch; });
}

/// Rounds down, but to one patch at least, which may be more than `size`.
Size round_down(Size size, std::int64_t patch) {
  return for_each_edge(
      size, [&](std::int64_t n) { return std::max(n / patch, std::int64_t{1}) * patch; });
}

/// Rounds to nearest; half a patch rounds up.
Size round_to_nearest(Size size, std::int64_t patch) {
  return for_each_edge(size, [&](std::int64_t n) {
    return std::max((n + patch / 2) / patch, std::int64_t{1}) * patch;
  });
}

/// The size of the resize before the crop: timm's `math.floor(x / crop_pct)`.
Size scale_size(Size img_size, double crop_pct) {
  return for_each_edge(img_size, [&](std::int64_t n) {
    return static_cast<std::int64_t>(std::floor(static_cast<double>(n) / crop_pct));
  });
}

/// torchvision's Resize(int): the shorter edge becomes `edge`, the longer `int(edge * long /
/// short)`.
Size resize_shorter_edge(Size picture, std::int64_t edge) {
  const std::int64_t shorter = std::min(picture.height, picture.width);
  const auto scaled = [&](std::int64_t n) {
    return static_cast<std::int64_t>(static_cast<double>(edge * n) / static_cast<double>(shorter));
  };
  return picture.width <= picture.height ? Size{scaled(picture.height), edge}
                                         : Size{edge, scaled(picture.width)};
}

/// timm's ResizeKeepRatio: `longest` 0 covers the target, 1 fits inside. Python rounds half to
/// even, as nearbyint does in the default rounding mode.
Size resize_keep_ratio(Size picture, Size target, double longest) {
  const double ratio_h = static_cast<double>(picture.height) / static_cast<double>(target.height);
  const double ratio_w = static_cast<double>(picture.width) / static_cast<double>(target.width);
  const double ratio =
      std::max(ratio_h, ratio_w) * longest + std::min(ratio_h, ratio_w) * (1.0 - longest);
  return for_each_edge(picture, [&](std::int64_t n) {
    const double scaled = std::nearbyint(static_cast<double>(n) / ratio);
    return std::max(static_cast<std::int64_t>(scaled), std::int64_t{1});
  });
}

Size resized_size(const TransformConfig& config, Size img_size, Size picture) {
  const Size scale = scale_size(img_size, config.crop_pct);
  switch (config.crop_mode) {
    case CropMode::squash: return scale;
    case CropMode::border: return resize_keep_ratio(picture, scale, 1.0);
    case CropMode::center:
    case CropMode::center_floor: break;
  }
  return scale.height == scale.width ? resize_shorter_edge(picture, scale.height)
                                     : resize_keep_ratio(picture, scale, 0.0);
}

void check_config(const TransformConfig& config) {
  constexpr std::int64_t kMaxEdge = std::int64_t{1} << 24;
  const auto is_edge = [](std::int64_t n) { return n >= 1 && n <= kMaxEdge; };
  if (!is_edge(config.img_size.height) || !is_edge(config.img_size.width)) {
    throw Error(ErrorCode::invalid_argument, "image size " + size_text(config.img_size) +
                                                 ": both edges must be between 1 and 16777216");
  }
  if (!is_edge(config.patch_size)) {
    throw Error(ErrorCode::invalid_argument,
                "patch size " + std::to_string(config.patch_size) + ": must be 1 or more");
  }
  if (!(config.crop_pct > 0.0 && config.crop_pct <= 1.0)) {
    throw Error(ErrorCode::invalid_argument,
                "crop_pct " + number(config.crop_pct) + ": must be above 0 and at most 1");
  }
  for (const double value : config.std) {
    if (!(value > 0.0 && std::isfinite(value))) {
      throw Error(ErrorCode::invalid_argument, "std " + triple(config.std) + ": must be above 0");
    }
  }
}

/// The size at which `zoom` sees all of a picture.
Size size_of_zoom(const TransformConfig& config, Size picture) {
  constexpr double kMostAspect = 2.2;  // of what has all of the shorter edge
  const auto edge = static_cast<double>(std::min(config.img_size.height, config.img_size.width));
  const auto height = static_cast<double>(picture.height);
  const auto width = static_cast<double>(picture.width);
  const double scale =
      std::min(edge / std::min(height, width), edge * std::sqrt(kMostAspect / height / width));
  const Size scaled = for_each_edge(picture, [&](std::int64_t n) {
    return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(n) * scale));
  });
  // The shorter edge of a very thin picture is rounded up a lot.
  const Size rounded = round_to_nearest(scaled, config.patch_size);
  const auto at_most = [&](std::int64_t n, std::int64_t other) {
    const auto most = static_cast<std::int64_t>(kMostAspect * edge * edge) / other;
    return std::min(n, std::max(most / config.patch_size, std::int64_t{1}) * config.patch_size);
  };
  return rounded.height < rounded.width
             ? Size{rounded.height, at_most(rounded.width, rounded.height)}
             : Size{at_most(rounded.height, rounded.width), rounded.width};
}

/// Most bytes that `resample` allocates.
double resample_bytes(Size picture, Size size, const Window& window) {
  const auto most = [](std::int64_t from, std::int64_t to) {
    return 4 * std::max(static_cast<double>(from) / static_cast<double>(to), 1.0) + 4;
  };
  const double rows = picture.height != size.height ? most(picture.height, size.height) : 0;
  const double columns = picture.width != size.width ? most(picture.width, size.width) : 0;
  const auto height = static_cast<double>(window.height);
  const auto width = static_cast<double>(window.width);
  constexpr double kWeight = sizeof(std::int16_t);
  const double pixels =
      columns > 0 ? std::min(columns * (width + 2), static_cast<double>(picture.width)) : 0;
  // Weights, a part of a source row, the rows between the passes and where they are.
  return kWeight * (rows * height + columns * width) + 16 * (height + width) + 3 * pixels +
         (columns > 0 ? 3 * rows * width : 0) + 8 * rows;
}

/// Refuses plans that take more memory than a picture of `max_pixels`, and resamplings of edges of
/// millions of pixels.
void check_memory(const TransformPlan& plan, Size picture, std::int64_t max_pixels) {
  const Window window{0, 0, std::min(plan.cropped.height, plan.resized.height),
                      std::min(plan.cropped.width, plan.resized.width)};
  if (resample_bytes(picture, plan.resized, window) > kMostResampleBytes) {
    throw Error(ErrorCode::too_large,
                size_text(picture) + " pixels (HxW) are too many along one edge to be resized to " +
                    size_text(plan.resized) + "; `native` with `fit`=pad takes them as they are");
  }
  if (plan.output.width > max_pixels / plan.output.height) {
    throw Error(ErrorCode::too_large, "an input of " + size_text(plan.output) +
                                          " is above the limit of " + std::to_string(max_pixels) +
                                          " pixels");
  }
}

template <class Enum, std::size_t N>
Enum parse(std::string_view what, const std::array<Enum, N>& values, std::string_view word) {
  std::string accepted;
  for (const Enum value : values) {
    if (name(value) == word) return value;
    accepted += (accepted.empty() ? "" : ", ") + std::string(name(value));
  }
  throw Error(ErrorCode::invalid_argument, std::string(what) + " '" + std::string(word) +
                                               "' is unknown: " + accepted + " are accepted");
}

/// torchvision's center_crop and timm's center_crop_or_pad: the smaller half of a padding goes
/// first, a cut begins at `int(round(rest / 2.0))`, half to even; transformers' at `rest // 2`.
std::int64_t window_start(std::int64_t picture, std::int64_t window, CropMode mode) {
  if (window > picture) return -((window - picture) / 2);
  if (mode == CropMode::center_floor) return (picture - window) / 2;
  return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(picture - window) / 2.0));
}

}  // namespace

TransformPlan plan_transform(const TransformConfig& config, Size picture, std::int64_t max_pixels) {
  check_config(config);
  if (picture.height < 1 || picture.width < 1) {
    throw Error(ErrorCode::empty, size_text(picture) + " pixels (HxW): nothing to classify");
  }
  const std::int64_t patch = config.patch_size;
  TransformPlan plan;
  const Views& views = config.views;
  plan.fitted_from = views.keep_size     ? picture
                     : views.keep_aspect ? size_of_zoom(config, picture)
                                         : config.img_size;
  const Size wanted =
      config.fit == Fit::resize ? round_to_nearest(plan.fitted_from, patch) : plan.fitted_from;
  plan.resized = views.keep_aspect ? wanted : resized_size(config, wanted, picture);
  const bool cuts = config.fit == Fit::crop || config.fit == Fit::corner;
  plan.cropped = cuts ? round_down(wanted, patch) : wanted;
  plan.output = round_up(plan.cropped, patch);
  const Size window = config.fit == Fit::corner ? wanted : plan.cropped;
  plan.window_top = window_start(plan.resized.height, window.height, config.crop_mode);
  plan.window_left = window_start(plan.resized.width, window.width, config.crop_mode);
  check_memory(plan, picture, max_pixels);
  return plan;
}

bool resamples_columns_first(Size from, Size to) {
  return to.height < from.height && from.height - to.height > 2 * (from.width - to.width);
}

std::string describe(const TransformConfig& config) {
  const std::string_view antialias =
      config.interpolation == Interpolation::nearest ? "" : ", antialias";
  const std::string how =
      " (" + std::string(name(config.interpolation)) + std::string(antialias) + ")";
  const Size img_size = config.fit == Fit::resize
                            ? round_to_nearest(config.img_size, config.patch_size)
                            : config.img_size;
  const Size scale = scale_size(img_size, config.crop_pct);
  std::string line;
  if (config.views.have_parts) {
    line = "shorter edge " + std::to_string(std::min(img_size.height, img_size.width)) + how +
           ", and zoom at parts of large pictures";
  } else if (config.views == Views::native) {
    line = "native size";
    if (config.fit == Fit::resize) {
      line += " resized to multiples of " + std::to_string(config.patch_size) + how;
    }
  } else if (config.crop_mode == CropMode::squash) {
    line = "squash to " + size_text(scale) + how + " -> centre crop " + size_text(img_size);
  } else if (config.crop_mode == CropMode::border) {
    line =
        "resize into " + size_text(scale) + how + " -> centre crop or pad " + size_text(img_size);
  } else {
    const bool is_square = scale.height == scale.width;
    line = "resize " + (is_square ? std::to_string(scale.height) : "to cover " + size_text(scale)) +
           how + " -> centre crop " + size_text(img_size);
  }
  const bool may_change =
      config.views.keep_aspect || round_up(img_size, config.patch_size) != img_size;
  if (may_change && config.fit != Fit::resize) {
    line += " -> " + std::string(name(config.fit)) + " to multiples of " +
            std::to_string(config.patch_size);
  }
  return line + (config.in_chans == 1 ? " -> grey" : "") + " -> mean " +
         triple(config.mean, config.in_chans) + " std " + triple(config.std, config.in_chans);
}

std::string describe_fit(const TransformConfig& config, const TransformPlan& plan) {
  if (plan.output == plan.fitted_from) return "";
  std::string_view done;
  switch (config.fit) {
    case Fit::pad: done = "padded "; break;
    case Fit::crop: done = "cropped "; break;
    case Fit::resize: done = "resized "; break;
    case Fit::corner: done = "cut at the right and bottom from "; break;
  }
  return std::string(done) + size_text(plan.fitted_from) + " to " + size_text(plan.output) +
         " (HxW)";
}

std::string_view name(Interpolation value) {
  switch (value) {
    case Interpolation::bicubic: return "bicubic";
    case Interpolation::bilinear: return "bilinear";
    case Interpolation::nearest: return "nearest";
  }
  return "";
}

std::string_view name(CropMode value) {
  switch (value) {
    case CropMode::center: return "center";
    case CropMode::squash: return "squash";
    case CropMode::border: return "border";
    case CropMode::center_floor: return "center_floor";
  }
  return "";
}

std::string_view name(Fit value) {
  switch (value) {
    case Fit::pad: return "pad";
    case Fit::crop: return "crop";
    case Fit::resize: return "resize";
    case Fit::corner: return "cut at the right and bottom";
  }
  return "";
}

Views parse_views(std::string_view word) {
  constexpr std::array kValues{Views::whole, Views::native, Views::zoom};
  return parse("views", kValues, word);
}

Interpolation parse_interpolation(std::string_view word) {
  constexpr std::array kValues{Interpolation::bicubic, Interpolation::bilinear,
                               Interpolation::nearest};
  return parse("interpolation", kValues, word);
}

CropMode parse_crop_mode(std::string_view word) {
  constexpr std::array kValues{CropMode::center, CropMode::squash, CropMode::border,
                               CropMode::center_floor};
  return parse("crop mode", kValues, word);
}

Fit parse_fit(std::string_view word) {
  constexpr std::array kValues{Fit::pad, Fit::crop, Fit::resize};
  return parse("fit", kValues, word);
}

}  // namespace hydrascope::image
