#include "app/model/model_source.h"

#include "app/options/mechanism_listing.h"
#include "app/options/option_table.h"
#include "app/options/options.h"
#include "app/run/assets.h"
#include "app/run/console.h"
#include "app/run/usage_error.h"
#include "kernels/error.h"
#include "model/checkpoint/formats/safetensors.h"
#include "model/checkpoint/peft_adapter.h"
#include "model/checkpoint/scalar_type.h"
#include "model/config/architectures.h"
#include "model/config/timm_models.h"
#include "model/registry/mechanisms.h"
#include "model/vision_transformer.h"

#include <ATen/ops/matmul.h>
#include <nlohmann/json.hpp>
#include <torch/nn/functional/normalization.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

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
  std::string near = nearest(word, names);
  for (const std::string& name : names)  // by what tells the bundled ones apart
    if (near.empty() && name.ends_with("." + word)) near = name;
  if (near.empty() && model::find_architecture(word)) {
    throw Error(
        ErrorCode::invalid_argument, "an architecture has no weights of its own", word,
        "give them with `checkpoint` FILE, or make random ones with `hydrascope models create`");
  }
  std::string hint = "a file, a folder, or one of: ";
  for (std::size_t i = 0; i < names.size(); ++i) hint += (i == 0 ? "" : ", ") + names[i];
  if (const auto hub = parse_hub_name(word); hub && fs::path(word).extension() != ".safetensors")
    hint = "if it is a model on Hugging Face, `" + download_command(*hub) + "` fetches it";
  throw NotFound("there is no model of that name, and no such file", word,
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
                  "unknown attention mechanism '" + std::string(word) + "'", "`attn`",
                  "did you mean " + near + "?");
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
  if (!request.coarse_exits.empty()) {
    config.exits = request.coarse_exits;
    config.coarse_exits = true;
    config.exit_rule = model::ExitRule::margin;
    config.exit_threshold = 1;
  }
  if (config.exits.empty() && (request.exit_rule || request.exit_threshold))
    throw Error(ErrorCode::invalid_argument, "the model has no exits",
                request.exit_threshold ? "`exit_threshold`" : "`exit_rule`",
                "`coarse_exits` needs no learning, `hydrascope convert --exits auto` learns some");
  if (request.exit_rule) config.exit_rule = *request.exit_rule;
  if (request.exit_threshold) config.exit_threshold = *request.exit_threshold;
  if (request.residual) config.residual = *request.residual;
  if (request.share_blocks) config.share_blocks = *request.share_blocks;
  if (request.step_embed) config.step_embed = *request.step_embed;
  if (request.halting) config.halting = *request.halting;
  if (!config.halting && (request.gate_scale || request.gate_center))
    throw Error(ErrorCode::invalid_argument, "no token leaves this model",
                request.gate_scale ? "`set` model.gate-scale" : "`set` model.gate-center",
                "`set` model.halting=on");
  if (request.gate_scale) config.gate_scale = *request.gate_scale;
  if (request.gate_center) config.gate_center = *request.gate_center;
}

/// Weights belong to one way of joining and sharing; tokens of any may begin to halt.
void refuse_other_layers(const ModelRequest& request, const std::string& name) {
  for (const auto& [is_set, setting] : {std::pair(request.residual.has_value(), "residual"),
                                        {request.share_blocks.has_value(), "share_blocks"},
                                        {request.step_embed.has_value(), "step_embed"}})
    if (is_set)
      throw Error(ErrorCode::invalid_argument,
                  name + " has weights, and such layers begin with random ones",
                  "`set` model." + std::string(setting),
                  "`model` deit_tiny_patch16_224, an architecture's name, begins anew");
}

/// The advice names, if the model knows the same classes, the bundled one that learned large sizes.
std::optional<TrainedSize> trained_size_of(const ModelSource& source) {
  for (const char* of : {"recipe", "training"}) {  // of convert, of train
    const auto recipe = nlohmann::json::parse(source.weights.metadata(of), nullptr, false);
    if (recipe.is_object() && recipe.contains("sizes") && !recipe["sizes"].empty()) return {};
  }
  constexpr std::int64_t kItsClasses = 1000;
  std::string advice;
  if (source.config.num_classes == kItsClasses && named_model(kLargePicturesModel))
    advice = "; " + std::string(kLargePicturesModel) + " is made for large pictures";
  return TrainedSize{source.name, {source.config.img_height, source.config.img_width}, advice};
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

/// Exits are of the weights and the classifier that they were learned or calibrated for.
void keep_exits_to_weights(const ModelRequest& request, ModelSource& source) {
  model::VitConfig& config = source.config;
  if (!config.branch_exits().empty() && (request.num_classes || request.reset_head)) {
    leave_out_exits(config);
    source.notes.emplace_back("the exits belong to the classifier before and are left out");
  }
  if (!request.adapter.empty() && config.leaves_early()) {
    config.exit_threshold = 1;
    source.notes.emplace_back(
        "the exits belong to the weights before the adapter: no picture leaves by them");
  }
}

double number_of(const checkpoint::Metadata& metadata, const std::string& key, double fallback,
                 const std::string& subject) {
  const auto entry = metadata.find(key);
  return entry == metadata.end() ? fallback : to_number(entry->second, subject + " " + key);
}

/// The classifier's weight (classes, D), float32.
at::Tensor projection_of(const ModelSource& source) {
  model::VisionTransformerImpl modules(source.config, model::Initialisation::for_loading);
  const checkpoint::Loading loading = source.weights.start_loading(modules, source.head);
  return loading.weights().get("head.weight").to(at::kFloat);
}

// Class vectors in the place of a classifier: a tower of pictures names classes whose vectors a tower of
// texts made (CLIP, Radford et al. 2021, arXiv 2103.00020; SigLIP, Zhai et al. 2023, arXiv 2303.15343).

/// `--classes`: a safetensors file with `vectors` float32 (classes, D) and, in its metadata, `names`, a JSON
/// array of the classes' names, and perhaps `logit_scale` and `logit_bias`, numbers (1 and 0). A logit is
/// logit_scale * cosine + logit_bias; D is the width of the features, or else of the projection behind them
/// (CLIP). Throws Error(invalid_argument) for another D.
void use_class_vectors(const std::string& file, ModelSource& source) {
  const std::string subject = "`classes` " + file;
  const checkpoint::SafetensorsFile contents = checkpoint::SafetensorsFile::open(file);
  const checkpoint::TensorView* vectors = contents.find("vectors");
  if (vectors == nullptr || vectors->dtype != checkpoint::Dtype::F32 || vectors->shape.size() != 2)
    throw UsageError("expected a tensor vectors, float32 (classes, D)", subject);
  const std::int64_t dim = source.config.embed_dim;
  const std::int64_t width = vectors->shape[1];
  const bool of_projection =
      width == source.config.num_classes && (width != dim || source.weights.has_projection());
  if (!of_projection && width != dim) {
    const std::string of_outputs =
        source.weights.has_projection()
            ? ", its projection gives " + std::to_string(source.config.num_classes)
            : "";
    throw UsageError("has vectors of " + std::to_string(width) + " numbers, the features of " +
                         source.name + " have " + std::to_string(dim) + of_outputs,
                     subject);
  }
  const checkpoint::Metadata& metadata = contents.metadata();
  const auto names = metadata.find("names");
  if (names == metadata.end())
    throw UsageError("its metadata have no names, a JSON array", subject);
  std::vector<std::string> lines;
  const auto listed = nlohmann::json::parse(names->second, nullptr, /*allow_exceptions=*/false);
  if (!listed.is_array() || !std::ranges::all_of(listed, &nlohmann::json::is_string))
    throw UsageError("its names are no JSON array of texts", subject);
  for (const nlohmann::json& name : listed) {
    lines.push_back(name.get<std::string>());
    image::require_class_name(lines.back(), subject);
  }
  if (std::cmp_not_equal(lines.size(), vectors->shape[0]) || lines.empty())
    throw UsageError("has " + std::to_string(lines.size()) + " names for " +
                         std::to_string(vectors->shape[0]) + " vectors",
                     subject);
  at::Tensor unit = checkpoint::copy_of(*vectors);
  if (!unit.isfinite().all().item<bool>())
    throw UsageError("has values that are no numbers", subject);
  const at::Tensor norms = unit.to(at::kDouble).norm(2, 1, /*keepdim=*/true);
  if (const std::int64_t zero = norms.argmin().item<std::int64_t>();
      norms[zero].item<double>() == 0)
    throw UsageError("the vector of " + lines[static_cast<std::size_t>(zero)] + " is zero",
                     subject);
  unit = (unit.to(at::kDouble) / norms).to(at::kFloat);
  const double scale = number_of(metadata, "logit_scale", 1, subject);
  if (!(scale > 0)) throw UsageError("its logit_scale is no positive number", subject);
  const double bias = number_of(metadata, "logit_bias", 0, subject);

  source.class_vectors = unit * scale;
  if (of_projection) source.class_vectors = at::matmul(source.class_vectors, projection_of(source));
  source.answer = model::FeatureAnswer{
      .model = source.config,
      .features = of_projection ? model::Features::projected : model::Features::pooled,
      .answer = [unit, scale, bias](const at::Tensor& features, const at::Tensor&) {
        return at::matmul(torch::nn::functional::normalize(features), unit.t()) * scale + bias;
      }};
  source.classes.clear();
  for (const std::string& line : lines) source.classes.push_back({"", line, line});
  leave_out_exits(source.config);
  source.config.num_classes = vectors->shape[0];
  source.head = {.num_classes = source.config.num_classes, .reset = true};
}

}  // namespace

ModelSource open_model(const ModelRequest& request) {
  const std::string& word = request.word;
  if (const std::string& file = request.checkpoint; !file.empty()) {
    if (!exists(file)) throw NotFound("no such file", "`checkpoint` " + file);
    return open_weights(request, file, file, word);
  }
  if (word.empty()) {
    const auto bundled = named_model(kDefaultModel);
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
  const auto weights = checkpoint::WeightFile::open(file, {request.use_ema});
  source.weights = checkpoint::Checkpoint(
      request.adapter.empty() ? weights : checkpoint::with_adapter(weights, request.adapter));
  if (architecture_name.empty()) {
    source.config = source.weights.deduce_config(source.head);
  } else {
    const auto architecture = model::find_architecture(architecture_name);
    if (!architecture) refuse_architecture("there is no such architecture", architecture_name);
    source.config = architecture->config;
    source.weights.complete(source.config, source.head);
  }
  source.notes = spelled(source.weights.notes());
  keep_exits_to_weights(request, source);
  source.config.attention.resize(static_cast<std::size_t>(source.config.depth));
  const model::TokenGrid training_grid = source.config.training_grid();
  source.trained = source.config;
  source.trained.attention = model::with_all_options(source.config.attention, training_grid);
  const std::vector<model::AttentionSpec>& trained = source.trained.attention;
  refuse_other_layers(request, name);
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
  if (request.depth_steps) {
    model::set_steps(source.config, *request.depth_steps);
    if (source.config.depth != source.trained.depth)
      source.notes.push_back("the blocks were trained for " + std::to_string(source.trained.depth) +
                             " layers, and compute " + std::to_string(source.config.depth));
  }
  source.trained_size = trained_size_of(source);
  if (!request.classes.empty()) use_class_vectors(request.classes, source);
  if (!request.may_lack_classes && !request.may_be_random) require_classes(source);
  return source;
}

void require_classes(const ModelSource& source) {
  if (source.config.num_classes > 0) return;
  throw Error(ErrorCode::invalid_argument, "has no classifier", source.name,
              "`hydrascope embed` stores its features, `classes` FILE names classes by vectors, "
              "`hydrascope train` learns a classifier");
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

}  // namespace hydrascope::app
