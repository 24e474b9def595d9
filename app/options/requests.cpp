#include "app/options/requests.h"

#include "app/options/option_fields.h"
#include "app/pictures/decoding_workers.h"
#include "app/run/assets.h"
#include "app/run/usage_error.h"
#include "kernels/error.h"
#include "kernels/number_text.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace hydrascope::app {

ModelRequest model_request(const ParsedOptions& options) {
  ModelRequest request;
  TransformRequest transform;
  options.fill(request, transform);
  request.is_default =
      request.word.empty() && request.checkpoint.empty() && request.attention.empty();
  choose_model(request, transform.views);
  return request;
}

TransformRequest transform_request(const ParsedOptions& options) {
  TransformRequest request;
  options.fill(request);
  const auto& [views, origin] =
      request.views.value_or(Asked<image::Views>{image::Views::whole, ""});
  if (views.keep_size && request.img_size)
    throw UsageError("native keeps the picture's own size",
                     origin + " with " + request.img_size->origin);
  if (!views.have_crop && (request.crop_pct || request.crop_mode))
    throw UsageError("nothing is resized and cropped there",
                     (request.crop_pct ? request.crop_pct->origin : request.crop_mode->origin) +
                         " with " + origin + " " + std::string(views.name));
  return request;
}

void choose_model(ModelRequest& model, const std::optional<Asked<image::Views>>& views) {
  if (!model.is_default) return;
  model.word = views && views->value.keep_size ? kLargePicturesModel : "";
}

void choose_views(const ParsedOptions& options, ModelRequest& model, TransformRequest& transform,
                  AutoExif exif, std::initializer_list<Field> others) {
  using Model = ModelRequest;
  using Transform = TransformRequest;
  static const std::vector<Field> kFields{&Model::word,
                                          &Model::checkpoint,
                                          &Model::use_ema,
                                          &Model::num_classes,
                                          &Model::reset_head,
                                          &Model::attention,
                                          &Model::attention_options,
                                          &Model::rel_pos,
                                          &Model::rel_pos_options,
                                          &Model::pos_embed,
                                          &Model::pos_interp,
                                          &Model::overview,
                                          &Model::coarse_exits,
                                          &Model::exit_rule,
                                          &Model::exit_threshold,
                                          &Model::depth_steps,
                                          &Model::classes,
                                          &Transform::views,
                                          &Transform::img_size,
                                          &Transform::crop_pct,
                                          &Transform::crop_mode,
                                          &Transform::mean,
                                          &Transform::std};
  // A file of --dump-config holds defaults, too: nobody asked for these.
  const auto is_given = [&](const Field& field) {
    const GivenOption* option = options.find(field);
    return option != nullptr && option->given() &&
           !(option->source == Source::config_file && option->is(option->option.default_value));
  };
  const bool has_default = exif == AutoExif::upright && !std::ranges::any_of(kFields, is_given) &&
                           !std::ranges::any_of(others, is_given);
  if (has_default) {
    transform.views = {image::Views::zoom, "the default"};
    transform.is_default = true;
    choose_model(model, transform.views);
  }
}

void choose_anew(ModelRequest& model, TransformRequest& transform, const std::string& named,
                 const std::string& views) {
  if (!named.empty()) {
    model = {.word = named};
    TransformRequest of_any;  // the rest is about the first model
    if (!transform.is_default) of_any.views = transform.views;
    transform = std::move(of_any);
  }
  if (!views.empty()) {
    const bool had_parts = transform.views && transform.views->value.have_parts;
    transform.views = {image::parse_views(views), "`views`"};
    transform.is_default = false;
    const image::Views& asked = transform.views->value;
    if (asked.keep_size || asked.have_parts != had_parts) transform.img_size.reset();
    if (!asked.have_crop) transform.crop_pct.reset();
    if (!asked.have_crop) transform.crop_mode.reset();
  }
  choose_model(model, transform.views);
}

RunRequest run_request(const ParsedOptions& options, AutoExif exif) {
  RunRequest request;
  options.fill(request, request.decode);
  // The default of training is one of its steps.
  if (options.given(&RunRequest::batch_size))
    take(options[&RunRequest::batch_size], request.batch_size);
  // The pictures of `serve` come from strangers: other processes decode there.
  if (const GivenOption* timeout = options.find(&image::DecodeOptions::reader))
    request.decode.reader = &decoding_workers(timeout->number());
  request.fastest = options.find(&RunRequest::precision) != nullptr;
  const Field applies = &image::DecodeOptions::apply_exif;
  request.decode.apply_exif =
      exif == AutoExif::upright ? !options.is(applies, "ignore") : options.is(applies, "apply");
  return request;
}

Console console_request(const ParsedOptions& options) {
  Console console;
  options.fill(console);
  console.progress = console.progress && !console.quiet;
  const char* no_color = std::getenv("NO_COLOR");  // https://no-color.org: set and not empty
  OutputRequest output;
  options.fill(output);
  const bool is_shown = is_standard_output(output.file);
  console.color =
      options.is(&Console::color, "always") ||
      (options.is(&Console::color, "auto") && (no_color == nullptr || *no_color == '\0') &&
       is_shown && isatty(STDOUT_FILENO) == 1);
  return console;
}

std::vector<std::string> input_words(const ParsedOptions& options) {
  std::vector<std::string> words = options.positionals();
  if (const GivenOption* more = options.find(&PicturesRequest::words))
    words.insert(words.end(), more->values.begin(), more->values.end());
  return words;
}

OutputRequest output_request(const ParsedOptions& options) {
  OutputRequest request;
  options.fill(request);
  const GivenOption& format = options[&OutputRequest::format];
  request.format = choose_format(format.text(), request.file, format.option.choices);
  return request;
}

PicturesRequest one_view_request(const ParsedOptions& options, AutoExif exif) {
  PicturesRequest request;
  options.fill(request);
  request.console = console_request(options);
  request.model = model_request(options);
  request.transform = transform_request(options);
  request.run = run_request(options, exif);
  request.words = input_words(options);
  request.output = output_request(options);
  return request;
}

PicturesRequest pictures_request(const ParsedOptions& options, AutoExif exif,
                                 std::initializer_list<Field> one_view) {
  PicturesRequest request = one_view_request(options, exif);
  choose_views(options, request.model, request.transform, exif, one_view);
  return request;
}

void check_frames(const PicturesRequest& request, double video_average) {
  const bool remembers = !request.run.memory.empty();
  if (remembers && request.run.batch_size > 1)
    throw UsageError("frames with a memory come one by one", "`memory` with `batch_size`",
                     "leave one of them out");
  const auto& views = request.transform.views;
  const bool has_parts = views && !request.transform.is_default && views->value.have_parts;
  if (has_parts && (remembers || video_average > 0))
    throw UsageError("works where a frame is one view",
                     std::string(remembers ? "`memory`" : "`video_average`") + " with `views`",
                     "leave one of them out");
}

VoteRequest vote_request(const ParsedOptions& options, const PicturesRequest& request) {
  VoteRequest vote;
  options.fill(vote);
  if (vote.store.empty()) {
    // A configuration that was dumped holds the default.
    if (vote.share || vote.k != VoteRequest{}.k)
      throw UsageError("stored pictures vote, and there are none",
                       vote.share ? "`knn_mix`" : "`knn_k`", "add `knn` STORE");
    return vote;
  }
  const auto& views = request.transform.views;
  if (views && views->value.have_parts)
    throw UsageError("a vector is of one view",
                     "`knn` with " + views->origin + " " + std::string(views->value.name),
                     "`views` whole or native");
  if (!request.model.classes.empty())
    throw UsageError("two answers to what the classes are", "`knn` with `classes`");
  return vote;
}

WeightsRequest weights_request(const ParsedOptions& options) {
  WeightsRequest request;
  options.fill(request);
  return request;
}

checkpoint::Dtype parse_dtype(const std::string& word) {
  if (word == "float32") return checkpoint::Dtype::F32;
  if (word == "float16") return checkpoint::Dtype::F16;
  if (word == "bfloat16") return checkpoint::Dtype::BF16;
  throw UsageError("no format of weights", word);
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

std::int64_t parse_layer(const std::string& text, const std::string& expected,
                         const std::string& option, const std::string& hint) {
  const auto layer = parse_number<std::int64_t>(text);
  if (!layer) throw UsageError("expected " + expected + ", found '" + text + "'", option, hint);
  return *layer;
}

}  // namespace hydrascope::app
