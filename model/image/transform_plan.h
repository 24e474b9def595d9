// The steps of the evaluation transform for a picture of a given size, in numbers and in words.
// Free of LibTorch. A TransformConfig says what is wanted, a TransformPlan its steps for one size.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace hydrascope::image {

enum class Interpolation { bicubic, bilinear, nearest };
/// `center_floor` is `center` as Hugging Face cuts: half a pixel goes to the right and bottom.
enum class CropMode { center, squash, border, center_floor };
/// The treatment of an input size that the patch does not divide. Users cannot choose `corner`.
enum class Fit { pad, crop, resize, corner };
/// A way to see a picture with its facts, decided here once: code asks these, not which way it is.
struct Views {
  std::string_view name;
  bool have_crop;    ///< `crop_pct` and `crop_mode` say how a view is cropped
  bool keep_size;    ///< each picture is seen at its own size
  bool keep_aspect;  ///< edges grow and shrink together
  bool
      have_parts;  ///< of a large picture parts are seen, too: an answer has a place on the picture

  static const Views whole;   ///< resized and cropped
  static const Views native;  ///< at its own size
  static const Views zoom;    ///< all of it at a bounded size, and parts of it
  friend bool operator==(const Views& one, const Views& other) { return one.name == other.name; }
};
inline constexpr Views Views::whole{"whole", true, false, false, false};
inline constexpr Views Views::native{"native", false, true, true, false};
inline constexpr Views Views::zoom{"zoom", false, false, true, true};

/// Height and width in pixels, always in this order.
struct Size {
  std::int64_t height = 0;
  std::int64_t width = 0;
  friend bool operator==(const Size&, const Size&) = default;
};

/// timm's `pretrained_cfg`, and this project's `views` and `fit`. Field names are timm's.
struct TransformConfig {
  /// Height x width fed to the model, before `fit`; with `zoom` the lesser is the picture's shorter edge.
  Size img_size{224, 224};
  double crop_pct = 0.875;  ///< in (0, 1]; resize to floor(img_size / crop_pct), then crop
  CropMode crop_mode = CropMode::center;
  Interpolation interpolation = Interpolation::bicubic;  ///< antialiased, as Pillow does it
  std::array<double, 3> mean{0.485, 0.456, 0.406};       ///< in units of [0, 1]
  std::array<double, 3> std{0.229, 0.224, 0.225};
  Views views = Views::whole;
  Fit fit = Fit::pad;
  std::int64_t patch_size = 16;  ///< the model's patch; `fit` makes sizes multiples of it
  /// 3, or 1: the picture in grey, as Pillow's `L`; then the first of `mean` and of `std` are used.
  std::int64_t in_chans = 3;

  friend bool operator==(const TransformConfig&, const TransformConfig&) = default;
};

/// The steps for one picture size: resize the whole picture to `resized`, cut (or pad, where the
/// resized picture is smaller) the centred window `cropped`, normalise, then pad with zeros (the
/// mean colour) at right and bottom to `output`. Only the window of the resized picture is computed.
///
/// `fit` changes a size that the patch does not divide:
///   pad     the window stays, `output` is the next multiple;
///   crop    the window becomes the multiple below, centred; a shorter edge than a patch is padded;
///   resize  `img_size`, or with `native` the picture, becomes the nearest multiple (half up);
///   corner  as crop, but the window keeps its top left corner, as timm's models of such a size do.
struct TransformPlan {
  Size resized;  ///< equal to the picture's size when nothing is resized
  Size cropped;
  /// The window's corner in the resized picture; negative where the picture is the smaller.
  std::int64_t window_top = 0;
  std::int64_t window_left = 0;
  Size output;  ///< the model's input; both multiples of patch_size
  Size
      fitted_from;  ///< the requested size, before `fit`: img_size; the picture's with `native` and `zoom`
};

/// With `zoom` the picture's shorter edge becomes `img_size`, or less where the picture is longer than
/// 2.2 times as wide: it has at most 2.2 times the pixels of the square. Both edges are rounded to
/// patches.
///
/// Pure arithmetic; follows torchvision's Resize/CenterCrop and timm's ResizeKeepRatio roundings.
/// Throws `Error(empty)` for a picture without pixels, `Error(too_large)` when the input would have
/// more than `max_pixels` or its resampling would take 80 MB, `Error(invalid_argument)` for a
/// config without sense (sizes below 1, crop_pct outside (0, 1], std of zero). Deviation from timm:
/// an edge that `border` would scale to nothing keeps one pixel; Pillow fails.
TransformPlan plan_transform(const TransformConfig& config, Size picture,
                             std::int64_t max_pixels = std::int64_t{1} << 29);

/// Whether the columns are the first pass of a separable resampling, which matters as bytes are
/// clipped between the passes. Pillow 13 begins with the columns when it removes more than twice as
/// many rows as columns (python-pillow/Pillow pull 9549); older versions always begin with the
/// rows.
bool resamples_columns_first(Size from, Size to);

/// One line: "resize 256 (bicubic, antialias) -> centre crop 224x224 -> mean (...) std (...)".
std::string describe(const TransformConfig& config);

/// The effect of `fit` on one picture: "" or "padded 1080x1920 to 1088x1920 (HxW)".
std::string describe_fit(const TransformConfig& config, const TransformPlan& plan);

std::string_view name(Interpolation value);
std::string_view name(CropMode value);
std::string_view name(Fit value);
inline std::string_view name(const Views& value) { return value.name; }
/// Inverse of `name`; throws `Error(invalid_argument)` that lists the accepted words.
Views parse_views(std::string_view word);
Interpolation parse_interpolation(std::string_view word);
CropMode parse_crop_mode(std::string_view word);
Fit parse_fit(std::string_view word);

}  // namespace hydrascope::image
