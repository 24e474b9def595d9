#include "app/model_source.h"

#include "app/assets.h"
#include "kernels/error.h"
#include "model/architectures.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <sched.h>
#include <utility>

namespace hydrascope::app {
namespace {

namespace fs = std::filesystem;

bool exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

[[noreturn]] void refuse_model(const std::string& word) {
  if (word.starts_with("hf-hub:")) {
    throw Error(ErrorCode::invalid_argument, "this program downloads nothing", word,
                "fetch the repository by other means and give its folder: --model FOLDER");
  }
  const std::vector<std::string> names = bundled_models();
  const std::string near = nearest(word, names);
  if (near.empty() && model::find_architecture(word)) {
    throw Error(
        ErrorCode::invalid_argument, "an architecture has no weights of its own", word,
        "give them with --checkpoint FILE, or make random ones with `hydrascope models create`");
  }
  std::string hint = "a file, a folder, or one of: ";
  for (std::size_t i = 0; i < names.size(); ++i) hint += (i == 0 ? "" : ", ") + names[i];
  throw Error(ErrorCode::invalid_argument, "there is no model of that name, and no such file", word,
              near.empty() ? hint : "did you mean " + near + "?");
}

std::array<double, 3> three(const std::vector<double>& values, const char* option) {
  if (values.size() != 3) {
    throw Error(ErrorCode::invalid_argument,
                "expected three numbers, found " + std::to_string(values.size()), option);
  }
  return {values[0], values[1], values[2]};
}

/// Reads timm's pretrained_cfg fields out of the checkpoint's `transform` metadata.
void apply_transform_metadata(const std::string& text, const std::string& origin,
                              const std::string& subject, ResolvedTransform& result) {
  using Json = nlohmann::json;
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object())
    throw Error(ErrorCode::failed, "metadata 'transform' is no JSON object", subject);
  try {
    if (json.contains("input_size")) {
      const auto size = json.at("input_size").get<std::vector<std::int64_t>>();
      if (size.size() != 3)
        throw Error(ErrorCode::failed, "metadata 'transform': input_size needs 3 numbers", subject);
      result.config.img_size = {size[1], size[2]};
      result.origins["img_size"] = origin;
    }
    if (json.contains("crop_pct")) {
      result.config.crop_pct = json.at("crop_pct").get<double>();
      result.origins["crop_pct"] = origin;
    }
    if (json.contains("crop_mode")) {
      result.config.crop_mode = image::parse_crop_mode(json.at("crop_mode").get<std::string>());
      result.origins["crop_mode"] = origin;
    }
    if (json.contains("interpolation")) {
      result.config.interpolation =
          image::parse_interpolation(json.at("interpolation").get<std::string>());
      result.origins["interpolation"] = origin;
    }
    for (const auto& [key, target] :
         {std::pair{"mean", &result.config.mean}, {"std", &result.config.std}}) {
      if (!json.contains(key)) continue;
      *target = three(json.at(key).get<std::vector<double>>(), key);
      result.origins[key] = origin;
    }
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::failed, std::string("metadata 'transform': ") + error.what(), subject);
  }
}

void check_transform(const image::TransformConfig& config) {
  if (!(config.crop_pct > 0 && config.crop_pct <= 1)) {
    throw Error(ErrorCode::invalid_argument,
                "expected a number in (0, 1], found " + std::to_string(config.crop_pct),
                "--crop-pct");
  }
  for (const double value : config.std) {
    if (!(value > 0))
      throw Error(ErrorCode::invalid_argument,
                  "expected numbers above 0, found " + std::to_string(value), "--std");
  }
}

int available_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

int count_option(const ParsedOptions& options, const char* name) {
  if (!options.given(name)) return available_processors();
  const std::int64_t value = options.integer(name);
  constexpr std::int64_t kMost = 1024;
  if (value < 1 || value > kMost) {
    throw Error(ErrorCode::invalid_argument,
                "expected 1 to " + std::to_string(kMost) + ", found " + std::to_string(value),
                "--" + std::string(name));
  }
  return static_cast<int>(value);
}

}  // namespace

image::Size parse_size(const std::string& text) {
  const auto cross = text.find('x');
  image::Size size;
  size.height = to_integer(text.substr(0, cross), "--img-size");
  size.width =
      cross == std::string::npos ? size.height : to_integer(text.substr(cross + 1), "--img-size");
  constexpr std::int64_t kMost = 1 << 16;
  if (size.height < 1 || size.width < 1 || size.height > kMost || size.width > kMost) {
    throw Error(ErrorCode::invalid_argument,
                "expected N or HxW from 1 to " + std::to_string(kMost) + ", found '" + text + "'",
                "--img-size");
  }
  return size;
}

ModelSource open_model(const ParsedOptions& options) {
  return open_model(options, options.text("model"));
}

ModelSource open_model(const ParsedOptions& options, const std::string& word) {
  ModelSource source;
  const std::string& checkpoint_file = options.text("checkpoint");
  if (options.flag("use-ema")) {
    throw Error(ErrorCode::invalid_argument, "safetensors files hold one set of weights",
                "--use-ema");
  }
  if (!checkpoint_file.empty()) {
    if (!exists(checkpoint_file))
      throw Error(ErrorCode::invalid_argument, "no such file", "--checkpoint " + checkpoint_file);
    source.name = checkpoint_file;
    source.weights = checkpoint::Checkpoint::open(checkpoint_file);
    source.config = source.weights.deduce_config();
    if (!word.empty()) {
      const auto architecture = model::find_architecture(word);
      if (!architecture) {
        throw Error(ErrorCode::invalid_argument, "with --checkpoint, --model names an architecture",
                    word, "names have the form " + model::architecture_pattern());
      }
      const std::vector<model::AttentionSpec> attention = source.config.attention;
      source.config = architecture->config;
      if (static_cast<std::int64_t>(attention.size()) == source.config.depth)
        source.config.attention = attention;
    }
  } else {
    fs::path file;
    if (word.empty()) {
      const auto bundled = bundled_model(kDefaultModel);
      if (!bundled)
        throw Error(ErrorCode::failed,
                    "the bundled model is missing in " + assets_folder().string(),
                    std::string(kDefaultModel));
      source.name = kDefaultModel;
      file = *bundled;
    } else if (exists(word)) {
      source.name = word;
      file = word;
    } else if (const auto bundled = bundled_model(word)) {
      source.name = bundled->stem().string();
      file = *bundled;
    } else {
      refuse_model(word);
    }
    source.weights = checkpoint::Checkpoint::open(file);
    source.config = source.weights.deduce_config();
  }
  source.config.attention.resize(static_cast<std::size_t>(source.config.depth));
  const std::vector<model::AttentionSpec> trained =
      model::with_all_options(source.config.attention);
  if (const std::string& attention = options.text("attn"); !attention.empty()) {
    model::apply_attention_spec(attention, source.config.attention);
  }
  for (const std::string& option : options.texts("attn-opt")) {
    model::apply_attention_option(option, source.config.attention);
  }
  if (const auto asked = model::with_all_options(source.config.attention); asked != trained) {
    const std::string before = model::to_text(trained);
    const std::string after = model::to_text(asked);
    source.notes.push_back((before == after ? "options of " + after + " changed"
                                            : "attention changed from " + before + " to " + after) +
                           " after training: accuracy needs `hydrascope convert`");
  }
  return source;
}

std::string ResolvedTransform::describe() const {
  // Values of one origin are named together: "[img_size, mean from metadata of x; crop_pct from
  // --crop-pct]".
  std::map<std::string, std::string> fields_of;
  for (const auto& [field, origin] : origins) {
    std::string& fields = fields_of[origin];
    fields += (fields.empty() ? "" : ", ") + field;
  }
  std::string from;
  for (const auto& [origin, fields] : fields_of) {
    if (!from.empty()) from += "; ";
    from += fields_of.size() == 1 ? "from " + origin : fields + " from " + origin;
  }
  return "transform: " + image::describe(config) + " [" + from + "]";
}

ResolvedTransform resolve_transform(const ParsedOptions& options, const ModelSource& source) {
  ResolvedTransform result;
  image::TransformConfig& config = result.config;
  const auto architecture = model::find_architecture(source.config.arch);
  const std::string fallback =
      architecture ? "the defaults of " + source.config.arch : "the defaults";
  for (const char* field : {"img_size", "crop_pct", "crop_mode", "interpolation", "mean", "std"}) {
    result.origins[field] = fallback;
  }
  config.img_size = {source.config.img_height, source.config.img_width};
  config.patch_size = source.config.patch_size;
  if (architecture) {
    config.crop_pct = architecture->crop_pct;
    if (architecture->inception_mean_std) config.mean = config.std = {0.5, 0.5, 0.5};
  }
  if (const std::string text = source.weights.metadata("transform"); !text.empty()) {
    const std::string file = source.weights.file().filename().string();
    apply_transform_metadata(text, "metadata of " + file, source.weights.file().string(), result);
  }
  const auto take = [&](const char* option, const char* field, auto&& assign) {
    if (!options.given(option)) return;
    assign();
    result.origins[field] = options.origin(option);
  };
  take("input-size", "img_size", [&] {
    const std::vector<std::string>& words = options.texts("input-size");
    if (words.size() != 3)
      throw Error(ErrorCode::invalid_argument, "expected C H W", "--input-size");
    if (to_integer(words[0], "--input-size") != source.config.in_chans) {
      throw Error(ErrorCode::invalid_argument,
                  "the model takes " + std::to_string(source.config.in_chans) +
                      " channels, found " + words[0],
                  "--input-size");
    }
    config.img_size = parse_size(words[1] + "x" + words[2]);
  });
  take("img-size", "img_size", [&] { config.img_size = parse_size(options.text("img-size")); });
  take("crop-pct", "crop_pct", [&] { config.crop_pct = options.number("crop-pct"); });
  take("crop-mode", "crop_mode",
       [&] { config.crop_mode = image::parse_crop_mode(options.text("crop-mode")); });
  take("interpolation", "interpolation",
       [&] { config.interpolation = image::parse_interpolation(options.text("interpolation")); });
  take("mean", "mean", [&] { config.mean = three(options.numbers("mean"), "--mean"); });
  take("std", "std", [&] { config.std = three(options.numbers("std"), "--std"); });
  config.fit = image::parse_fit(options.text("fit"));
  if (options.flag("native")) {
    if (options.given("img-size") || options.given("input-size")) {
      throw Error(ErrorCode::invalid_argument, "--native keeps the picture's own size",
                  "--native with --img-size");
    }
    config.native = true;
    for (const char* unused : {"img_size", "crop_pct", "crop_mode", "interpolation"})
      result.origins.erase(unused);
    result.origins["size"] = options.origin("native");
  }
  check_transform(config);
  return result;
}

image::Labels resolve_labels(const ParsedOptions& options, const ModelSource& source) {
  constexpr std::int64_t kImageNetClasses = 1000;
  std::optional<fs::path> file;
  if (const std::string& given = options.text("labels"); !given.empty()) {
    file = given;
    if (!exists(given)) file = bundled_labels(given);
    if (!file) throw Error(ErrorCode::invalid_argument, "no such file", "--labels " + given);
  } else if (const std::string named = source.weights.metadata("labels"); !named.empty()) {
    file = bundled_labels(named);
  }
  if (!file && source.config.num_classes == kImageNetClasses) file = bundled_labels("imagenet1k");
  if (!file) return image::Labels::numbered(source.config.num_classes);
  image::Labels labels = image::Labels::load(*file);
  if (std::cmp_not_equal(labels.size(), source.config.num_classes)) {
    throw Error(ErrorCode::invalid_argument,
                "the file names " + std::to_string(labels.size()) + " classes, the model has " +
                    std::to_string(source.config.num_classes),
                file->string());
  }
  return labels;
}

int model_threads(const ParsedOptions& options) { return count_option(options, "threads"); }
int loader_workers(const ParsedOptions& options) { return count_option(options, "workers"); }

model::Classifier make_classifier(const ParsedOptions& options, const ModelSource& source) {
  if (source.config.in_chans != 3) {
    throw Error(
        ErrorCode::invalid_argument,
        "pictures have 3 channels, the model takes " + std::to_string(source.config.in_chans),
        source.name);
  }
  model::ClassifierOptions wanted;
  wanted.device = model::resolve_device(options.text("device"));
  wanted.precision = model::resolve_precision(options.text("precision"), wanted.device);
  const std::string& kernels = options.text("kernels");
  if (kernels == "fused") wanted.kernels = model::Kernels::fused;
  if (kernels == "reference") wanted.kernels = model::Kernels::reference;
  if (options.text("pos-interp") == "hf") wanted.pos_interp = model::PosInterp::hf;
  wanted.deterministic = options.flag("deterministic");
  at::set_num_threads(model_threads(options));
  at::manual_seed(static_cast<std::uint64_t>(options.integer("seed")));
  return model::Classifier(source.config, source.weights, wanted);
}

PipelineOptions pipeline_options(const ParsedOptions& options, const ResolvedTransform& transform,
                                 bool apply_exif) {
  PipelineOptions pipeline;
  pipeline.transform = transform.config;
  pipeline.decode.apply_exif = apply_exif;
  pipeline.decode.max_pixels = options.integer("max-pixels");
  pipeline.workers = loader_workers(options);
  if (options.given("batch-size")) {
    pipeline.batch_size = options.integer("batch-size");
    if (pipeline.batch_size < 1) {
      throw Error(ErrorCode::invalid_argument, "expected 1 or more", "--batch-size");
    }
  }
  return pipeline;
}

}  // namespace hydrascope::app
