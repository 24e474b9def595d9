#include "app/model/model_source.h"

#include "app/model/assets.h"
#include "app/model/auto_precision.h"
#include "app/model/mechanism_listing.h"
#include "app/options/option_builders.h"
#include "app/run/console.h"
#include "kernels/device/processors.h"
#include "kernels/error.h"
#include "kernels/number_text.h"
#include "model/config/architectures.h"
#include "model/config/timm_models.h"
#include "model/device.h"
#include "model/registry/mechanisms.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <utility>

namespace hydrascope::app {

namespace {

namespace fs = std::filesystem;

/// A link to nothing is there, too: what opens it says so.
bool exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) || fs::is_symlink(path, ignored);
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

/// The origin of values that nothing says.
constexpr std::string_view kNoArchitecture = "the defaults";

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

/// The attention and the positions asked for, on what `config` says.
void apply_request(const ModelRequest& request, model::VitConfig& config) {
  config.attention.resize(static_cast<std::size_t>(config.depth));
  if (!request.attention.empty()) {
    suggest_mechanisms(request.attention);
    model::apply_attention_spec(request.attention, config.attention);
  }
  for (const std::string& option : request.attention_options)
    model::apply_attention_option(option, config.attention);
  config.rel_pos.resize(static_cast<std::size_t>(config.depth));
  if (!request.rel_pos.empty()) model::apply_position_spec(request.rel_pos, config.rel_pos);
  for (const std::string& option : request.rel_pos_options)
    model::apply_position_option(option, config.rel_pos);
  if (request.pos_embed) config.pos_embed = *request.pos_embed;
  if (request.pos_interp) config.pos_interp = *request.pos_interp;
  if (request.overview) config.overview = *request.overview;
}

/// A model of a size that its patches do not divide has a table of whole patches, and timm and Hugging Face leave out
/// the pixels at the right and bottom.
bool keeps_corner(const image::TransformConfig& transform, const model::VitConfig& config) {
  const auto whole = [&](std::int64_t edge) { return edge - edge % config.patch_size; };
  const image::Size& size = transform.img_size;
  const image::Size own{config.img_height, config.img_width};
  return !transform.native && size != own &&
         image::Size{whole(size.height), whole(size.width)} == own;
}

/// `--model NAME` that is none of ours, or `models create NAME`.
[[noreturn]] void refuse_architecture(const std::string& what, const std::string& name) {
  if (const std::string why = model::why_not_computed(name); !why.empty())
    throw Error(ErrorCode::unsupported_format, "the architecture " + why, name);
  if (model::find_timm_model(name) != nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "is known from timm's config.json alone, which says its transform", name,
                "put that file beside the weights and name their folder");
  }
  throw Error(ErrorCode::invalid_argument, what, name,
              "names have the form " + model::architecture_pattern() +
                  "; `hydrascope models list` shows some");
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

ModelSource open_model(const ModelRequest& request) {
  const std::string& word = request.word;
  if (const std::string& file = request.checkpoint; !file.empty()) {
    if (!exists(file))
      throw Error(ErrorCode::invalid_argument, "no such file", "--checkpoint " + file);
    return open_weights(request, file, file, word);
  }
  if (word.empty()) {
    const auto bundled = bundled_model(kDefaultModel);
    if (!bundled)
      throw Error(ErrorCode::failed, "the bundled model is missing in " + assets_folder().string(),
                  std::string(kDefaultModel));
    return open_weights(request, std::string(kDefaultModel), *bundled, "");
  }
  if (exists(word)) return open_weights(request, word, word, "");
  if (const auto bundled = named_model(word))
    return open_weights(request, bundled->stem().string(), *bundled, "");
  if (const auto folder = hub_folder(word)) return open_weights(request, word, *folder, "");
  refuse_model(word);
}

ModelSource open_weights(const ModelRequest& request, const std::string& name,
                         const std::string& file, const std::string& architecture_name) {
  ModelSource source;
  source.name = name;
  source.head.num_classes = request.num_classes;
  source.head.reset = request.reset_head;
  source.head.may_be_random = request.may_be_random;
  source.weights = checkpoint::Checkpoint::open(file, {request.use_ema});
  if (architecture_name.empty()) {
    source.config = source.weights.deduce_config(source.head);
  } else {
    const auto architecture = model::find_architecture(architecture_name);
    if (!architecture)
      refuse_architecture("with --checkpoint, --model names an architecture", architecture_name);
    source.config = architecture->config;
    source.weights.complete(source.config, source.head);
  }
  source.notes = with_flags(source.weights.notes());
  source.config.attention.resize(static_cast<std::size_t>(source.config.depth));
  const model::TokenGrid training_grid = source.config.training_grid();
  source.trained = source.config;
  source.trained.attention = model::with_all_options(source.config.attention, training_grid);
  const std::vector<model::AttentionSpec>& trained = source.trained.attention;
  apply_request(request, source.config);
  model::check_stored_options(trained, source.config.attention);
  if (const auto asked = model::with_all_options(source.config.attention, training_grid);
      asked != trained) {
    const std::string before = model::to_text(trained);
    const std::string after = model::to_text(asked);
    source.notes.push_back((before == after ? "options of " + after + " changed"
                                            : "attention changed from " + before + " to " + after) +
                           " after training: accuracy needs `hydrascope convert`");
  }
  source.trained.rel_pos.resize(static_cast<std::size_t>(source.config.depth));
  if (model::with_all_options(source.trained.rel_pos) !=
          model::with_all_options(source.config.rel_pos) ||
      source.trained.pos_embed != source.config.pos_embed)
    source.notes.push_back("positions changed after training: accuracy needs `hydrascope train`");
  return source;
}

bool names_architecture(const ModelRequest& request) {
  const std::string& word = request.word;
  return request.checkpoint.empty() && model::find_architecture(word) && !exists(word) &&
         !named_model(word);
}

ModelSource random_model(const ModelRequest& request) {
  const std::string& name = request.word;
  const auto architecture = model::find_architecture(name);
  if (!architecture) refuse_architecture("unknown architecture", name);
  ModelSource source;
  source.name = name;
  source.random_weights = true;
  source.config = architecture->config;
  apply_request(request, source.config);
  return source;
}

void ResolvedTransform::say_assumed(const Console& console, const std::string& of) const {
  std::string fields;
  std::string flags;
  for (const auto& [field, flag] : {std::pair{"mean", "--mean"},
                                    {"std", "--std"},
                                    {"crop_pct", "--crop-pct"},
                                    {"interpolation", "--interpolation"}}) {
    const auto origin = origins.find(field);
    if (origin == origins.end() || origin->second != kNoArchitecture) continue;
    fields += (fields.empty() ? "" : ", ") + std::string(field);
    flags += (flags.empty() ? "" : ", ") + std::string(flag);
  }
  if (fields.empty()) return;
  console.note("note: " + of + "nothing says how its pictures are prepared (" + fields +
               "): " + image::describe(config) + " is assumed; " + flags + " say otherwise");
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

ResolvedTransform resolve_transform(const TransformRequest& request, const ModelSource& source) {
  ResolvedTransform result;
  image::TransformConfig& config = result.config;
  const auto architecture = model::find_architecture(source.config.arch);
  const std::string fallback =
      architecture ? "the defaults of " + source.config.arch : std::string(kNoArchitecture);
  for (const char* field : {"img_size", "crop_pct", "crop_mode", "interpolation", "mean", "std"}) {
    result.origins[field] = fallback;
  }
  if (architecture) config = architecture->transform;
  config.img_size = {source.config.img_height, source.config.img_width};
  config.patch_size = source.config.patch_size;
  if (source.config.in_chans == 1) config.in_chans = 1;
  source.weights.hub().transform.apply_to(config, result.origins);
  // The Python package also saves models of timm that are no configuration of this program's.
  const bool is_ours =
      source.weights.is_own() || source.weights.metadata("created_by") == "hydrascope.nn";
  if (const std::string text = source.weights.metadata("transform"); !text.empty() && is_ours) {
    const fs::path& file = source.weights.file();
    checkpoint::parse_timm_transform(text, "metadata of " + file.filename().string(),
                                     file.string() + ": metadata 'transform'")
        .apply_to(config, result.origins);
    config.native = false;
  }
  if (request.img_size) config.native = false;
  if (request.channels && *request.channels != source.config.in_chans) {
    throw Error(ErrorCode::invalid_argument,
                "the model takes " + std::to_string(source.config.in_chans) + " channels, found " +
                    std::to_string(*request.channels),
                "--input-size");
  }
  const auto take = [&](const auto& asked, const char* field, auto& value) {
    if (!asked) return;
    value = asked->value;
    result.origins[field] = asked->origin;
  };
  take(request.img_size, "img_size", config.img_size);
  take(request.crop_pct, "crop_pct", config.crop_pct);
  take(request.crop_mode, "crop_mode", config.crop_mode);
  take(request.interpolation, "interpolation", config.interpolation);
  take(request.mean, "mean", config.mean);
  take(request.std, "std", config.std);
  take(request.native, "size", config.native);
  config.fit = request.fit.value_or(keeps_corner(config, source.config) ? image::Fit::corner
                                                                        : image::Fit::pad);
  // As timm does where a model takes another number of channels than the values are for.
  if (config.in_chans == 1) {
    config.mean.fill((config.mean[0] + config.mean[1] + config.mean[2]) / 3);
    config.std.fill((config.std[0] + config.std[1] + config.std[2]) / 3);
  }
  if (config.native) {
    for (const char* unused : {"img_size", "crop_pct", "crop_mode", "interpolation"})
      result.origins.erase(unused);
  } else {
    result.origins.erase("size");
  }
  check_transform(config);
  take(request.views, "views", config.tiling);
  if (config.tiling == image::Tiling::tiles) {
    for (const char* unused : {"crop_pct", "crop_mode"}) result.origins.erase(unused);
  }
  return result;
}

void OpenedModel::announce(const Console& console, bool shows_transform) const {
  for (const std::string& note : source.notes) console.note("note: " + note);
  transform.say_assumed(console);
  // Beside records it is no result, so it goes where notes go.
  if (shows_transform || console.verbose) console.note(transform.describe());
}

std::optional<OpenedModel> open_for_pictures(const PicturesRequest& request) {
  ModelSource source = open_model(request.model);
  ResolvedTransform transform = resolve_transform(request.transform, source);
  if (request.transform.is_printed && request.words.empty()) {
    std::cout << transform.describe() << '\n';
    return std::nullopt;
  }
  return OpenedModel{std::move(source), std::move(transform)};
}

c10::Device choose_device(const RunRequest& request) {
  const std::string& word = request.device;
  const model::training::LaunchEnvironment& launch = request.launch;
  const c10::Device device = model::resolve_device(word);
  const bool is_numbered = word.find(':') != std::string::npos;
  if (!launch.has_others() || !device.is_cuda() || is_numbered) return device;
  return model::resolve_device("cuda:" + std::to_string(launch.local_rank));
}

namespace {

int of_processors(const std::optional<int>& count, const RunRequest& request) {
  if (count) return *count;
  return std::max(1, kernels::device::available_processors() / request.launch.local_world_size);
}

}  // namespace

int model_threads(const RunRequest& request) { return of_processors(request.threads, request); }
int loader_workers(const RunRequest& request) { return of_processors(request.workers, request); }

model::Classifier make_classifier(const RunRequest& request, const ModelSource& source,
                                  const image::TransformConfig& transform, const Console& console,
                                  std::vector<std::int64_t> trace_layers) {
  if (source.config.in_chans != 3 && source.config.in_chans != 1) {
    throw Error(
        ErrorCode::invalid_argument,
        "pictures have 3 channels, the model takes " + std::to_string(source.config.in_chans),
        source.name);
  }
  model::inference::InferenceOptions wanted;
  wanted.device = choose_device(request);
  wanted.precision = model::resolve_precision(request.precision, wanted.device);
  wanted.kernels = request.kernels;
  if (!request.calibration.empty() && !wanted.precision.int8)
    throw Error(ErrorCode::invalid_argument, "only int8 is calibrated",
                "--calibration with --precision " + std::string(wanted.precision.name()),
                "add --precision int8");
  wanted.deterministic = request.deterministic;
  // Explanations of the classifier's answers have to keep to it, too.
  if (wanted.deterministic)
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  wanted.trace_layers = std::move(trace_layers);
  // Setting the number begins a pool of threads that spin, see one_torch_thread.cpp.
  if (const int threads = model_threads(request); threads != at::get_num_threads())
    at::set_num_threads(threads);
  model::seed_generators(request.seed);
  if (source.random_weights) return {source.config, wanted};
  if (wanted.precision.int8) {
    wanted.calibration = calibration_images(request.calibration, source, transform, console);
    wanted.calibration_source = request.calibration.empty() ? "bundled" : request.calibration;
  }
  model::Classifier classifier(source.config, source.weights, wanted, source.head);
  for (const std::string& note : describe(classifier.load_report())) console.note("note: " + note);
  return classifier;
}

model::explain::Explainer make_explainer(std::uint64_t seed, const ModelSource& source,
                                         std::span<const model::explain::Request> requests,
                                         c10::Device device) {
  const auto fill = [&](model::VisionTransformerImpl& modules,
                        std::span<const std::int64_t> layers) {
    const checkpoint::Loading loading = source.weights.start_loading(modules, source.head);
    for (const std::int64_t layer : layers)
      model::fill(modules.block(layer), loading.weights(), model::block_prefix(layer));
    model::fill(modules, loading.weights(), "", model::is_outside_blocks);
  };
  model::seed_generators(seed);
  return {source.config, requests, fill, {device}};
}

PipelineOptions pipeline_options(const RunRequest& request,
                                 const image::TransformConfig& transform) {
  PipelineOptions pipeline;
  pipeline.transform = transform;
  pipeline.decode = request.decode;
  pipeline.workers = loader_workers(request);
  pipeline.batch_size = request.batch_size;
  return pipeline;
}

std::function<std::string(const image::Size&)> remark_on_large_sizes(const ModelSource& source) {
  for (const char* of : {"recipe", "training"}) {  // of convert, of train
    const auto recipe = nlohmann::json::parse(source.weights.metadata(of), nullptr, false);
    if (recipe.is_object() && recipe.contains("sizes") && !recipe["sizes"].empty()) return {};
  }
  constexpr std::string_view kMadeForThem = "deit_tiny_patch16_224.window";
  constexpr std::int64_t kItsClasses = 1000;
  std::string advice;
  if (source.config.num_classes == kItsClasses && bundled_model(kMadeForThem))
    advice = "; " + std::string(kMadeForThem) + " is made for large pictures";
  const image::Size trained{source.config.img_height, source.config.img_width};
  return [trained, advice, name = source.name](const image::Size& size) {
    constexpr double kFar = 2.5;  // times the edge
    const auto area = [](const image::Size& s) { return static_cast<double>(s.height * s.width); };
    if (area(size) <= kFar * kFar * area(trained)) return std::string();
    return name + " was trained at " + size_text(trained) + " (HxW); answers at " +
           size_text(size) + " are less accurate" + advice;
  };
}

}  // namespace hydrascope::app
