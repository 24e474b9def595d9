#include "app/options/requests.h"

#include "app/pictures/decoding_workers.h"
#include "app/run/assets.h"
#include "app/run/usage_error.h"
#include "kernels/error.h"
#include "kernels/number_text.h"

#include <cstdlib>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace hydrascope::app {
ModelRequest model_request(const ParsedOptions& options) {
  const OptionReader read(options);
  ModelRequest request;
  read.take("model", request.word);
  read.take("checkpoint", request.checkpoint);
  read.take("use-ema", request.use_ema);
  read.take("num-classes", request.num_classes);
  read.take("reset-head", request.reset_head);
  read.take("attn", request.attention);
  read.take("attn-opt", request.attention_options);
  read.take("rel-pos", request.rel_pos);
  read.take("rel-pos-opt", request.rel_pos_options);
  read.take("pos-embed", request.pos_embed,
            [&] { return model::find_pos_embed(options.text("pos-embed")).value(); });
  read.take("pos-interp", request.pos_interp,
            [&] { return model::find_pos_interp(options.text("pos-interp")).value(); });
  read.take("overview", request.overview, [&] { return options.text("overview") == "on"; });
  bool sees_large = read.is("views", "native") || read.is("views", "look");
  if (options.declares("native")) sees_large = sees_large || options.flag("native");
  if (sees_large && request.word.empty() && request.checkpoint.empty() && request.attention.empty())
    request.word = kLargePicturesModel;
  return request;
}

TransformRequest transform_request(const ParsedOptions& options) {
  const OptionReader read(options);
  TransformRequest request;
  const auto three_values = [&](const char* name) {
    std::array<double, 3> values{};
    read.take(name, values);
    return values;
  };
  if (options.takes_one_value("img-size"))
    read.take("img-size", request.img_size, [&] { return parse_size(options.text("img-size")); });
  read.take("crop-pct", request.crop_pct, [&] { return options.number("crop-pct"); });
  read.take("crop-mode", request.crop_mode,
            [&] { return image::parse_crop_mode(options.text("crop-mode")); });
  read.take("interpolation", request.interpolation,
            [&] { return image::parse_interpolation(options.text("interpolation")); });
  read.take("mean", request.mean, [&] { return three_values("mean"); });
  read.take("std", request.std, [&] { return three_values("std"); });
  read.take("fit", request.fit, [&] { return image::parse_fit(options.text("fit")); });
  read.take("print-transform", request.is_printed);
  bool is_native = false;
  read.take("native", is_native);
  read.take("views", request.views, [&] { return image::parse_views(options.text("views")); });
  if (is_native) {
    if (request.views && request.views->value != image::Views::native)
      throw Error(ErrorCode::invalid_argument, "two answers to what of a picture is classified",
                  options.origin("native") + " with " + options.origin("views") + " " +
                      options.text("views"));
    request.views = {image::Views::native, options.origin("native")};
  }
  const image::Views views = request.views ? request.views->value : image::Views::whole;
  read.take("look-model", request.look_model);
  if (!request.look_model.empty() && views != image::Views::look)
    throw UsageError("is the model of closer looks", options.origin("look-model"),
                     "add `views` look");
  if (views == image::Views::native && request.img_size) {
    throw Error(ErrorCode::invalid_argument, "`native` keeps the picture's own size",
                "`native` with `img_size`");
  }
  if (!image::facts_of(views).have_crop && (request.crop_pct || request.crop_mode)) {
    throw Error(ErrorCode::invalid_argument, "nothing is resized and cropped there",
                (request.crop_pct ? request.crop_pct->origin : request.crop_mode->origin) +
                    " with " + request.views->origin);
  }
  return request;
}

void look_by_default(const ParsedOptions& options, ModelRequest& model,
                     TransformRequest& transform) {
  for (const char* name : {"model",       "checkpoint", "use-ema",       "num-classes",
                           "reset-head",  "attn",       "attn-opt",      "rel-pos",
                           "rel-pos-opt", "pos-embed",  "pos-interp",    "overview",
                           "native",      "views",      "img-size",      "crop-pct",
                           "crop-mode",   "fit",        "interpolation", "mean",
                           "std",         "against",    "against-attn",  "against-attn-opt",
                           "save-input"})
    if (options.declares(name) && options.given(name)) return;
  model.word = kLargePicturesModel;
  transform.views = {image::Views::look, "the default"};
  transform.is_default = true;
}

RunRequest run_request(const ParsedOptions& options, AutoExif exif) {
  const OptionReader read(options);
  RunRequest request;
  read.take("device", request.device);
  read.take("precision", request.precision);
  if (options.takes_one_value("kernels")) request.kernels = parse_kernels(options.text("kernels"));
  read.take("calibration", request.calibration);
  read.take("seed", request.seed);
  read.take("deterministic", request.deterministic);
  read.take("threads", request.threads);
  read.take("workers", request.workers);
  // The default of training is one of its steps.
  if (read.given("batch-size")) read.take("batch-size", request.batch_size);
  read.take("max-pixels", request.decode.max_pixels);
  read.take("max-bytes", request.decode.max_bytes);
  // The pictures of `serve` come from strangers: other processes decode there.
  if (options.declares("decode-timeout"))
    request.decode.reader = &decoding_workers(options.number("decode-timeout"));
  request.fastest = exif == AutoExif::upright;
  request.decode.apply_exif =
      exif == AutoExif::upright ? !read.is("exif", "ignore") : read.is("exif", "apply");
  read.take("check-precision", request.check_precision);
  read.take("ddp-timeout", request.join_timeout);
  request.fail_fast = read.is("on-error", "fail");
  return request;
}

Console console_request(const ParsedOptions& options) {
  const OptionReader read(options);
  Console console;
  read.take("verbose", console.verbose);
  read.take("quiet", console.quiet);
  console.progress = !options.flag("no-progress") && !console.quiet;
  const char* no_color = std::getenv("NO_COLOR");  // https://no-color.org: set and not empty
  std::string output;
  read.take("output", output);
  const bool is_shown = is_standard_output(output);
  console.color = read.is("color", "always") ||
                  (read.is("color", "auto") && (no_color == nullptr || *no_color == '\0') &&
                   is_shown && isatty(STDOUT_FILENO) == 1);
  return console;
}

std::vector<std::string> input_words(const ParsedOptions& options) {
  std::vector<std::string> words = options.positionals();
  if (options.declares("input"))
    words.insert(words.end(), options.texts("input").begin(), options.texts("input").end());
  return words;
}

OutputRequest output_request(const ParsedOptions& options) {
  const std::string& file = options.text("output");
  return {file, choose_format(options.text("format"), file,
                              options.entries().at("format").option.choices)};
}

PicturesRequest pictures_request(const ParsedOptions& options, AutoExif exif) {
  PicturesRequest request{console_request(options),
                          model_request(options),
                          transform_request(options),
                          run_request(options, exif),
                          input_words(options),
                          false,
                          "",
                          output_request(options)};
  const OptionReader read(options);
  read.take("recursive", request.recursive);
  read.take("labels", request.labels);
  if (exif == AutoExif::upright) look_by_default(options, request.model, request.transform);
  return request;
}

model::Kernels parse_kernels(std::string_view word) {
  if (word == "fused") return model::Kernels::fused;
  return word == "reference" ? model::Kernels::reference : model::Kernels::automatic;
}

std::string size_text(const image::Size& size) {
  return std::to_string(size.height) + "x" + std::to_string(size.width);
}

image::Size parse_size(const std::string& text, const std::string& option) {
  const std::string_view word = text;
  const auto cross = word.find('x');
  const auto height = parse_number<std::int64_t>(word.substr(0, cross));
  const auto width =
      cross == word.npos ? height : parse_number<std::int64_t>(word.substr(cross + 1));
  constexpr std::int64_t kMost = 1 << 16;
  if (!height || !width || *height < 1 || *width < 1 || *height > kMost || *width > kMost) {
    throw Error(ErrorCode::invalid_argument,
                "expected N or HxW from 1 to " + std::to_string(kMost) + ", found '" + text + "'",
                option);
  }
  return {*height, *width};
}

}  // namespace hydrascope::app
