#include "app/options/requests.h"

#include "kernels/error.h"

#include <string_view>
#include <utility>

namespace hydrascope::app {
namespace {

/// The options that a command has of a group; what it takes as a list is its own to read.
class Reader {
 public:
  explicit Reader(const ParsedOptions& options) : options_(options) {}

  template <class Value, class Read>
  void take(const char* name, std::optional<Value>& field, const Read& read) const {
    if (options_.declares(name) && options_.given(name)) field = read();
  }
  template <class Value, class Read>
  void take(const char* name, std::optional<Asked<Value>>& field, const Read& read) const {
    if (options_.declares(name) && options_.given(name))
      field = Asked<Value>{read(), options_.origin(name)};
  }
  void take(const char* name, bool& field) const {
    if (options_.declares(name)) field = options_.flag(name);
  }
  void take(const char* name, std::string& field) const {
    if (options_.takes_one_value(name)) field = options_.text(name);
  }
  template <class Value>
  void take_integer(const char* name, Value& field) const {
    if (options_.takes_one_value(name) && !options_.text(name).empty())
      field = static_cast<Value>(options_.integer(name));
  }
  template <class Value>
  void take_integer(const char* name, std::optional<Value>& field) const {
    if (options_.takes_one_value(name) && options_.given(name))
      field = static_cast<Value>(options_.integer(name));
  }
  /// Whether `name` has that value.
  [[nodiscard]] bool is(const char* name, std::string_view value) const {
    return options_.takes_one_value(name) && options_.text(name) == value;
  }

 private:
  const ParsedOptions& options_;
};

}  // namespace

ModelRequest model_request(const ParsedOptions& options) {
  const Reader read(options);
  ModelRequest request;
  read.take("model", request.word);
  read.take("checkpoint", request.checkpoint);
  read.take("use-ema", request.use_ema);
  read.take_integer("num-classes", request.num_classes);
  read.take("reset-head", request.reset_head);
  read.take("attn", request.attention);
  request.attention_options = options.texts("attn-opt");
  read.take("rel-pos", request.rel_pos);
  request.rel_pos_options = options.texts("rel-pos-opt");
  read.take("pos-embed", request.pos_embed,
            [&] { return model::find_pos_embed(options.text("pos-embed")).value(); });
  read.take("pos-interp", request.pos_interp,
            [&] { return model::find_pos_interp(options.text("pos-interp")).value(); });
  read.take("overview", request.overview, [&] { return options.text("overview") == "on"; });
  return request;
}

TransformRequest transform_request(const ParsedOptions& options) {
  const Reader read(options);
  TransformRequest request;
  const auto three_values = [&](const char* name) {
    const std::vector<double> values = options.numbers(name);
    return std::array{values.at(0), values.at(1), values.at(2)};
  };
  read.take("input-size", request.img_size, [&] {
    const std::vector<std::string>& words = options.texts("input-size");
    request.channels = to_integer(words.at(0), "--input-size");
    return parse_size(words.at(1) + "x" + words.at(2));
  });
  if (options.takes_one_value("img-size"))
    read.take("img-size", request.img_size, [&] { return parse_size(options.text("img-size")); });
  read.take("crop-pct", request.crop_pct, [&] { return options.number("crop-pct"); });
  read.take("crop-mode", request.crop_mode,
            [&] { return image::parse_crop_mode(options.text("crop-mode")); });
  read.take("interpolation", request.interpolation,
            [&] { return image::parse_interpolation(options.text("interpolation")); });
  read.take("mean", request.mean, [&] { return three_values("mean"); });
  read.take("std", request.std, [&] { return three_values("std"); });
  request.fit = image::parse_fit(options.text("fit"));
  read.take("print-transform", request.is_printed);
  bool is_native = false;
  read.take("native", is_native);
  if (is_native) request.native = {true, options.origin("native")};
  std::string views = "whole";
  read.take("views", views);
  if (views != "whole" || (is_native && options.declares("views") && options.given("views"))) {
    if (is_native && views != "native")
      throw Error(ErrorCode::invalid_argument, "two answers to what of a picture is classified",
                  options.origin("native") + " with " + options.origin("views") + " " + views);
    if (views == "native") request.native = {true, "--native"};
    if (views == "tiles") request.views = {image::Tiling::tiles, options.origin("views")};
    if (views == "pyramid") request.views = {image::Tiling::pyramid, options.origin("views")};
  }
  if (request.native && request.img_size) {
    throw Error(ErrorCode::invalid_argument, "--native keeps the picture's own size",
                "--native with --img-size");
  }
  const bool cuts_tiles = request.views && request.views->value == image::Tiling::tiles;
  if ((request.native || cuts_tiles) && (request.crop_pct || request.crop_mode)) {
    throw Error(ErrorCode::invalid_argument, "nothing is resized and cropped there",
                (request.crop_pct ? request.crop_pct->origin : request.crop_mode->origin) +
                    " with " + (request.native ? request.native->origin : request.views->origin));
  }
  return request;
}

RunRequest run_request(const ParsedOptions& options, AutoExif exif) {
  const Reader read(options);
  RunRequest request;
  read.take("device", request.device);
  read.take("precision", request.precision);
  if (options.takes_one_value("kernels")) request.kernels = parse_kernels(options.text("kernels"));
  read.take("calibration", request.calibration);
  if (options.takes_one_value("keep-tokens"))
    read.take("keep-tokens", request.keep_tokens, [&] { return options.number("keep-tokens"); });
  read.take_integer("keep-layer", request.keep_layer);
  read.take_integer("seed", request.seed);
  read.take("deterministic", request.deterministic);
  read.take_integer("threads", request.threads);
  read.take_integer("workers", request.workers);
  // What training has by default is of its steps.
  if (options.takes_one_value("batch-size") && options.given("batch-size"))
    request.batch_size = options.integer("batch-size");
  read.take_integer("max-pixels", request.decode.max_pixels);
  request.decode.apply_exif =
      exif == AutoExif::upright ? !read.is("exif", "ignore") : read.is("exif", "apply");
  if (options.declares("ddp-timeout")) request.join_timeout = options.number("ddp-timeout");
  request.fail_fast = read.is("on-error", "fail");
  return request;
}

model::Kernels parse_kernels(std::string_view word) {
  if (word == "fused") return model::Kernels::fused;
  return word == "reference" ? model::Kernels::reference : model::Kernels::automatic;
}

image::Size parse_size(const std::string& text, const std::string& option) {
  const auto cross = text.find('x');
  image::Size size;
  size.height = to_integer(text.substr(0, cross), option);
  size.width =
      cross == std::string::npos ? size.height : to_integer(text.substr(cross + 1), option);
  constexpr std::int64_t kMost = 1 << 16;
  if (size.height < 1 || size.width < 1 || size.height > kMost || size.width > kMost) {
    throw Error(ErrorCode::invalid_argument,
                "expected N or HxW from 1 to " + std::to_string(kMost) + ", found '" + text + "'",
                option);
  }
  return size;
}

}  // namespace hydrascope::app
