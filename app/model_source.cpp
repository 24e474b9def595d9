#include "app/model_source.h"

#include "app/assets.h"
#include "app/calibration.h"
#include "app/console.h"
#include "app/hub_cache.h"
#include "app/mechanism_listing.h"
#include "app/option_builders.h"
#include "app/training_options.h"
#include "kernels/error.h"
#include "kernels/shortest_number.h"
#include "model/attention/registry.h"
#include "model/config/architectures.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <sched.h>
#include <utility>

namespace hydrascope::app {

using model::training::LaunchEnvironment;

namespace {

namespace fs = std::filesystem;

bool exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

[[noreturn]] void refuse_model(const std::string& word) {
  const std::vector<std::string> names = bundled_models();
  const std::string near = nearest(word, names);
  if (near.empty() && model::find_architecture(word)) {
    throw Error(
        ErrorCode::invalid_argument, "an architecture has no weights of its own", word,
        "give them with --checkpoint FILE, or make random ones with `hydrascope models create`");
  }
  std::string hint = "a file, a folder, or one of: ";
  for (std::size_t i = 0; i < names.size(); ++i) hint += (i == 0 ? "" : ", ") + names[i];
  if (const auto hub = parse_hub_name(word); hub && fs::path(word).extension() != ".safetensors")
    hint = "if it is a model on Hugging Face, `" + download_command(*hub) + "` fetches it";
  throw Error(ErrorCode::invalid_argument, "there is no model of that name, and no such file", word,
              near.empty() ? hint : "did you mean " + near + "?");
}

/// Refuses a name that is nearly a mechanism's; the registry refuses the others.
void suggest_mechanisms(std::string_view spec) {
  while (!spec.empty()) {
    const std::string_view part = spec.substr(0, spec.find(','));
    spec.remove_prefix(std::min(spec.size(), part.size() + 1));
    const std::string_view word = part.substr(0, part.find(':'));
    if (word.empty() || model::find_mechanism_or_null(word) != nullptr) continue;
    if (const std::string near = nearest(word, mechanism_names()); !near.empty())
      throw Error(ErrorCode::invalid_argument,
                  "unknown attention mechanism '" + std::string(word) + "'", "--attn",
                  "did you mean " + near + "?");
  }
}

std::array<double, 3> three_values(const ParsedOptions& options, const char* name) {
  const std::vector<double> values = options.numbers(name);
  return {values.at(0), values.at(1), values.at(2)};
}

void check_transform(const image::TransformConfig& config) {
  if (!(config.crop_pct > 0 && config.crop_pct <= 1)) {
    throw Error(ErrorCode::invalid_argument,
                "expected a number in (0, 1], found " + shortest_number(config.crop_pct),
                "--crop-pct");
  }
  for (const double value : config.std) {
    if (!(value > 0))
      throw Error(ErrorCode::invalid_argument,
                  "expected numbers above 0, found " + shortest_number(value), "--std");
  }
}

int count_option(const ParsedOptions& options, const char* name, const LaunchEnvironment& launch) {
  if (!options.given(name)) return std::max(1, available_processors() / launch.local_world_size);
  const std::int64_t value = options.integer(name);
  constexpr std::int64_t kMost = 1024;
  if (value < 1 || value > kMost) {
    throw Error(ErrorCode::invalid_argument,
                "expected 1 to " + std::to_string(kMost) + ", found " + std::to_string(value),
                "--" + std::string(name));
  }
  return static_cast<int>(value);
}

/// Are nine of ten short names equal? Lists of one data set differ in spellings.
bool mean_the_same(const image::Labels& a, const image::Labels& b) {
  if (a.size() != b.size()) return false;
  std::size_t equal = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    if (a.at(index).short_name == b.at(index).short_name) ++equal;
  }
  return equal * 10 >= a.size() * 9;
}

}  // namespace

std::vector<std::string> describe(const checkpoint::LoadReport& report) {
  const auto listed = [](const char* what, const std::vector<std::string>& names) {
    constexpr std::size_t kShown = 4;
    std::string text = what;
    for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i)
      text += (i == 0 ? ": " : ", ") + names[i];
    if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
    return text;
  };
  std::vector<std::string> notes;
  if (!report.initialised.empty())
    notes.push_back(listed("newly initialised, not from the file", report.initialised));
  if (!report.unused.empty()) notes.push_back(listed("in the file, but not used", report.unused));
  return notes;
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

ModelSource open_model(const ParsedOptions& options) {
  return open_model(options, options.text("model"));
}

ModelSource open_model(const ParsedOptions& options, const std::string& word) {
  if (const std::string& file = options.text("checkpoint"); !file.empty()) {
    if (!exists(file))
      throw Error(ErrorCode::invalid_argument, "no such file", "--checkpoint " + file);
    return open_weights(options, file, file, word);
  }
  if (word.empty()) {
    const auto bundled = bundled_model(kDefaultModel);
    if (!bundled)
      throw Error(ErrorCode::failed, "the bundled model is missing in " + assets_folder().string(),
                  std::string(kDefaultModel));
    return open_weights(options, std::string(kDefaultModel), *bundled, "");
  }
  if (exists(word)) return open_weights(options, word, word, "");
  if (const auto bundled = named_model(word))
    return open_weights(options, bundled->stem().string(), *bundled, "");
  if (const auto folder = hub_folder(word)) return open_weights(options, word, *folder, "");
  refuse_model(word);
}

ModelSource open_weights(const ParsedOptions& options, const std::string& name,
                         const std::string& file, const std::string& architecture_name) {
  ModelSource source;
  source.name = name;
  if (options.given("num-classes")) source.head.num_classes = options.integer("num-classes");
  source.head.reset = options.flag("reset-head");
  source.weights = checkpoint::Checkpoint::open(file, {options.flag("use-ema")});
  if (architecture_name.empty()) {
    source.config = source.weights.deduce_config(source.head);
  } else {
    const auto architecture = model::find_architecture(architecture_name);
    if (!architecture) {
      throw Error(ErrorCode::invalid_argument, "with --checkpoint, --model names an architecture",
                  architecture_name, "names have the form " + model::architecture_pattern());
    }
    source.config = architecture->config;
    source.weights.complete(source.config, source.head);
  }
  source.notes = with_flags(source.weights.notes());
  source.config.attention.resize(static_cast<std::size_t>(source.config.depth));
  const model::TokenGrid training_grid = source.config.training_grid();
  source.trained = source.config;
  source.trained.attention = model::with_all_options(source.config.attention, training_grid);
  const std::vector<model::AttentionSpec>& trained = source.trained.attention;
  apply_model_options(options, source.config);
  model::check_stored_options(trained, source.config.attention);
  if (const auto asked = model::with_all_options(source.config.attention, training_grid);
      asked != trained) {
    const std::string before = model::to_text(trained);
    const std::string after = model::to_text(asked);
    source.notes.push_back((before == after ? "options of " + after + " changed"
                                            : "attention changed from " + before + " to " + after) +
                           " after training: accuracy needs `hydrascope convert`");
  }
  return source;
}

ModelSource random_model(const ParsedOptions& options, const std::string& name) {
  const auto architecture = model::find_architecture(name);
  if (!architecture) {
    throw Error(ErrorCode::invalid_argument, "unknown architecture", name,
                "names have the form " + model::architecture_pattern() +
                    "; `hydrascope models list` shows some");
  }
  ModelSource source;
  source.name = name;
  source.random_weights = true;
  source.config = architecture->config;
  apply_model_options(options, source.config);
  return source;
}

void apply_model_options(const ParsedOptions& options, model::VitConfig& config) {
  config.attention.resize(static_cast<std::size_t>(config.depth));
  if (const std::string& attention = options.text("attn"); !attention.empty()) {
    suggest_mechanisms(attention);
    model::apply_attention_spec(attention, config.attention);
  }
  for (const std::string& option : options.texts("attn-opt"))
    model::apply_attention_option(option, config.attention);
  if (options.given("pos-interp"))
    config.pos_interp = model::find_pos_interp(options.text("pos-interp")).value();
  if (options.given("overview")) config.overview = options.text("overview") == "on";
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
  if (architecture) config = architecture->transform;
  config.img_size = {source.config.img_height, source.config.img_width};
  config.patch_size = source.config.patch_size;
  source.weights.hub().transform.apply_to(config, result.origins);
  if (const std::string text = source.weights.metadata("transform");
      !text.empty() && source.weights.is_own()) {
    const fs::path& file = source.weights.file();
    checkpoint::parse_timm_transform(text, "metadata of " + file.filename().string(),
                                     file.string() + ": metadata 'transform'")
        .apply_to(config, result.origins);
    config.native = false;
  }
  if (options.given("img-size") || options.given("input-size")) config.native = false;
  const auto take = [&](const char* option, const char* field, auto&& assign) {
    if (!options.given(option)) return;
    assign();
    result.origins[field] = options.origin(option);
  };
  take("input-size", "img_size", [&] {
    const std::vector<std::string>& words = options.texts("input-size");
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
  take("mean", "mean", [&] { config.mean = three_values(options, "mean"); });
  take("std", "std", [&] { config.std = three_values(options, "std"); });
  config.fit = image::parse_fit(options.text("fit"));
  if (options.flag("native")) {
    if (options.given("img-size") || options.given("input-size")) {
      throw Error(ErrorCode::invalid_argument, "--native keeps the picture's own size",
                  "--native with --img-size");
    }
    config.native = true;
    result.origins["size"] = options.origin("native");
  }
  if (config.native) {
    for (const char* unused : {"img_size", "crop_pct", "crop_mode", "interpolation"})
      result.origins.erase(unused);
  } else {
    result.origins.erase("size");
  }
  check_transform(config);
  return result;
}

ResolvedTransform resolve_transform_of_views(const ParsedOptions& options,
                                             const ModelSource& source) {
  const std::string& views = options.text("views");
  if (options.flag("native") && options.given("views") && views != "native")
    throw Error(ErrorCode::invalid_argument, "two answers to what of a picture is classified",
                options.origin("native") + " with " + options.origin("views") + " " + views);
  ResolvedTransform result =
      resolve_transform(views == "native" ? options.with("native", {"true"}) : options, source);
  if (!has_several_views(options)) return result;
  result.config.tiling = views == "tiles" ? image::Tiling::tiles : image::Tiling::pyramid;
  result.origins["views"] = options.origin("views");
  if (result.config.tiling == image::Tiling::tiles) {
    for (const char* unused : {"crop_pct", "crop_mode"}) result.origins.erase(unused);
  }
  return result;
}

std::optional<fs::path> labels_file(const ParsedOptions& options) {
  const std::string& given = options.text("labels");
  if (given.empty()) return std::nullopt;
  if (exists(given)) return given;
  const std::optional<fs::path> bundled = bundled_labels(given);
  if (!bundled) throw Error(ErrorCode::invalid_argument, "no such file", "--labels " + given);
  return bundled;
}

ResolvedLabels resolve_named_labels(const ParsedOptions& options, const ModelSource& source) {
  const std::int64_t classes = source.config.num_classes;
  const auto checked = [&](image::Labels labels, const std::string& subject) {
    if (std::cmp_not_equal(labels.size(), classes)) {
      throw Error(ErrorCode::invalid_argument,
                  "names " + std::to_string(labels.size()) + " classes, the model has " +
                      std::to_string(classes),
                  subject);
    }
    return labels;
  };
  if (const auto file = labels_file(options))
    return {checked(image::Labels::load(*file), file->string()), LabelOrigin::names, ""};
  constexpr std::int64_t kImageNetClasses = 1000;
  const checkpoint::Checkpoint& weights = source.weights;
  // The names of the file's classes say nothing of those of a new classifier.
  if (!source.head.reset) {
    const std::string bundled = weights.is_own() ? weights.metadata("labels") : "";
    const std::string lines = weights.label_lines();
    ResolvedLabels stored;
    std::string subject = weights.file().string();
    if (const auto file = bundled_labels(bundled)) {
      stored = {image::Labels::load(*file), LabelOrigin::bundled, bundled};
    } else if (!lines.empty()) {
      if (!weights.hub().labels.empty()) subject = weights.hub().file.string();
      stored = {image::Labels::parse(lines, subject), LabelOrigin::names, ""};
      // Hugging Face's configurations spell ImageNet's classes out, without the synset ids.
      if (const auto imagenet = bundled_labels("imagenet1k");
          imagenet && mean_the_same(stored.labels, image::Labels::load(*imagenet)))
        stored = {image::Labels::load(*imagenet), LabelOrigin::bundled, "imagenet1k"};
    } else if (const auto usual = bundled_labels("imagenet1k");
               usual && classes == kImageNetClasses) {
      return {checked(image::Labels::load(*usual), usual->string()), LabelOrigin::bundled,
              "imagenet1k"};
    }
    const bool of_another_head =
        source.head.num_classes && std::cmp_not_equal(stored.labels.size(), classes);
    if (stored.origin != LabelOrigin::numbers && !of_another_head) {
      stored.labels = checked(std::move(stored.labels), subject);
      return stored;
    }
  }
  return {image::Labels::numbered(classes), LabelOrigin::numbers, ""};
}

image::Labels resolve_labels(const ParsedOptions& options, const ModelSource& source) {
  return resolve_named_labels(options, source).labels;
}

c10::Device choose_device(const ParsedOptions& options, const LaunchEnvironment& launch) {
  const std::string& word = options.text("device");
  const c10::Device device = model::resolve_device(word);
  const bool is_numbered = word.find(':') != std::string::npos;
  if (!launch.has_others() || !device.is_cuda() || is_numbered) return device;
  return model::resolve_device("cuda:" + std::to_string(launch.local_rank));
}

int available_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

int model_threads(const ParsedOptions& options, const LaunchEnvironment& launch) {
  return count_option(options, "threads", launch);
}
int loader_workers(const ParsedOptions& options, const LaunchEnvironment& launch) {
  return count_option(options, "workers", launch);
}

model::Classifier make_classifier(const ParsedOptions& options, const ModelSource& source,
                                  std::vector<std::int64_t> trace_layers,
                                  const LaunchEnvironment& launch) {
  if (source.config.in_chans != 3) {
    throw Error(
        ErrorCode::invalid_argument,
        "pictures have 3 channels, the model takes " + std::to_string(source.config.in_chans),
        source.name);
  }
  model::inference::InferenceOptions wanted;
  wanted.device = choose_device(options, launch);
  wanted.precision = model::resolve_precision(options.text("precision"), wanted.device);
  const std::string& kernels = options.text("kernels");
  if (kernels == "fused") wanted.kernels = model::Kernels::fused;
  if (kernels == "reference") wanted.kernels = model::Kernels::reference;
  if (options.given("calibration") && !wanted.precision.int8)
    throw Error(ErrorCode::invalid_argument, "only int8 is calibrated",
                "--calibration with --precision " + std::string(wanted.precision.name()),
                "add --precision int8");
  wanted.deterministic = options.flag("deterministic");
  // What explains the classifier's answers has to keep to it, too.
  if (wanted.deterministic)
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  if (options.given("keep-tokens")) wanted.keep_tokens = options.number("keep-tokens");
  if (options.given("keep-layer")) {
    if (!options.given("keep-tokens"))
      throw Error(ErrorCode::invalid_argument,
                  "the layer where tokens are dropped is given, but not how many stay",
                  "--keep-layer without --keep-tokens", "add --keep-tokens 0.7, for example");
    wanted.keep_layer = options.integer("keep-layer");
  }
  wanted.trace_layers = std::move(trace_layers);
  // Setting the number begins a pool of threads that spin, see one_torch_thread.cpp.
  if (const int threads = model_threads(options, launch); threads != at::get_num_threads())
    at::set_num_threads(threads);
  at::manual_seed(static_cast<std::uint64_t>(options.integer("seed")));
  if (source.random_weights) return {source.config, wanted};
  if (wanted.precision.int8) {
    wanted.calibration = calibration_images(options, source);
    const std::string& named = options.text("calibration");
    wanted.calibration_source = named.empty() ? "bundled" : named;
  }
  model::Classifier classifier(source.config, source.weights, wanted, source.head);
  const Console console(options);
  for (const std::string& note : describe(classifier.load_report())) console.note("note: " + note);
  return classifier;
}

model::explain::Explainer make_explainer(const ParsedOptions& options, const ModelSource& source,
                                         std::span<const model::explain::Request> requests,
                                         c10::Device device) {
  const auto fill = [&](model::VisionTransformerImpl& modules,
                        std::span<const std::int64_t> layers) {
    const checkpoint::Loading loading = source.weights.start_loading(modules, source.head);
    for (const std::int64_t layer : layers) loading.copy_block(layer);
    loading.copy_rest();
  };
  at::manual_seed(static_cast<std::uint64_t>(options.integer("seed")));
  return {source.config, requests, fill, {device}};
}

bool apply_exif(const ParsedOptions& options) { return options.text("exif") != "ignore"; }

bool apply_exif_if_asked(const ParsedOptions& options) { return options.text("exif") == "apply"; }

PipelineOptions pipeline_options(const ParsedOptions& options, const ResolvedTransform& transform,
                                 bool apply_exif, const LaunchEnvironment& launch) {
  PipelineOptions pipeline;
  pipeline.transform = transform.config;
  pipeline.decode.apply_exif = apply_exif;
  pipeline.decode.max_pixels = options.integer("max-pixels");
  pipeline.workers = loader_workers(options, launch);
  if (options.given("batch-size")) pipeline.batch_size = options.integer("batch-size");
  return pipeline;
}

std::function<std::string(const image::Size&)> note_on_large_sizes(const ModelSource& source) {
  for (const char* of : {"recipe", "training"}) {  // of convert, of train
    const auto recipe = nlohmann::json::parse(source.weights.metadata(of), nullptr, false);
    if (recipe.is_object() && recipe.contains("sizes") && !recipe["sizes"].empty()) return {};
  }
  const image::Size trained{source.config.img_height, source.config.img_width};
  return [trained, name = source.name, is_said = false](const image::Size& size) mutable {
    constexpr double kFar = 2.5;  // times the edge
    const auto area = [](const image::Size& s) { return static_cast<double>(s.height * s.width); };
    if (is_said || area(size) <= kFar * kFar * area(trained)) return std::string();
    is_said = true;
    return "note: " + name + " was trained at " + size_text(trained) + " (HxW); answers at " +
           size_text(size) + " are less accurate";
  };
}

}  // namespace hydrascope::app
