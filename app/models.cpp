// hydrascope models: list, info, create, path, download.
#include "app/command.h"
#include "app/convert/format_only.h"
#include "app/model/assets.h"
#include "app/model/hub_download.h"
#include "app/model/mechanism_listing.h"
#include "app/model/model_metadata.h"
#include "app/model/model_source.h"
#include "app/options/option_table.h"
#include "app/results/table.h"
#include "app/run/console.h"
#include "app/run/usage_error.h"
#include "model/config/architectures.h"
#include "model/config/network_cost.h"
#include "model/device.h"
#include "model/registry/mechanisms.h"
#include "model/vision_transformer.h"

#include <ATen/core/grad_mode.h>

#include <filesystem>
#include <iostream>
#include <set>
#include <utility>

namespace hydrascope::app {
namespace {

struct ModelsRequest {
  std::string action;
  Console console;
  OutputRequest output;
  ModelRequest model = {};  ///< the argument's, where `-m` names none
  TransformRequest transform = {};
  std::uint64_t seed = 42;
  checkpoint::Dtype dtype = checkpoint::Dtype::F32;
  std::string hub = {};  ///< where `download` gets it
};

ModelsRequest models_request(const ParsedOptions& options) {
  const std::vector<std::string>& words = options.positionals();
  ModelsRequest request{words.empty() ? "list" : words.front(), console_request(options),
                        output_request(options)};
  if (words.size() > 2)
    throw UsageError("expected one model, found " + std::to_string(words.size() - 1),
                     "models " + words[0]);
  request.model = model_request(options);
  const bool creates = request.action == "create";
  if (words.size() == 2 && (!creates || request.model.word.empty())) request.model.word = words[1];
  request.transform = transform_request(options);
  OptionReader(options).take("seed", request.seed);
  OptionReader(options).take("hub", request.hub);
  request.dtype = parse_dtype(options.text("save-dtype")).value_or(request.dtype);
  return request;
}

int list(Format format, OutputFile& output) {
  if (format == Format::text) {
    output.stream() << "bundled models (-m NAME):\n";
    for (const std::string& name : bundled_models()) {
      output.stream() << "  " << name << (name == kDefaultModel ? "  (default)" : "") << '\n';
    }
    output.stream() << "architectures (models create --arch NAME; any size "
                    << model::architecture_pattern() << "):\n";
    for (const std::string& name : model::architecture_names())
      output.stream() << "  " << name << '\n';
    output.stream() << "attention mechanisms (--attn NAME):\n";
    for (const model::MechanismEntry* entry : model::mechanisms()) {
      output.stream() << "  " << entry->name << "  " << entry->summary
                      << (entry->aliases.empty()
                              ? ""
                              : "  (also " + join_words(entry->aliases, ", ", ", ") + ")")
                      << '\n';
    }
    output.stream() << "position rules (--rel-pos NAME):\n";
    for (const model::PositionEntry* entry : model::position_rules()) {
      output.stream() << "  " << entry->name << "  " << entry->summary
                      << (entry->aliases.empty()
                              ? ""
                              : "  (also " + join_words(entry->aliases, ", ", ", ") + ")")
                      << '\n';
    }
    return kExitOk;
  }
  if (is_rows(format)) {
    ResultTable table({{"kind", ""}, {"name", ""}, {"summary", ""}, {"aliases", ""}});
    for (const std::string& name : bundled_models()) table.add({"model", name, "", ""});
    for (const std::string& name : model::architecture_names())
      table.add({"architecture", name, "", ""});
    for (const model::MechanismEntry* entry : model::mechanisms())
      table.add({"mechanism", entry->name, entry->summary, join_words(entry->aliases, " ", " ")});
    for (const model::PositionEntry* entry : model::position_rules())
      table.add(
          {"position_rule", entry->name, entry->summary, join_words(entry->aliases, " ", " ")});
    table.write(format, output.stream());
    return kExitOk;
  }
  Summary report;
  report.add("models", bundled_models());
  report.add("architectures", model::architecture_names());
  report.add("mechanisms", mechanism_names());
  std::vector<std::string> rules = position_names();
  std::erase(rules, model::kNoRule);
  report.add("position_rules", std::move(rules));
  report.write(format, output.stream());
  return kExitOk;
}

std::int64_t parameter_count(const checkpoint::Checkpoint& weights) {
  std::int64_t count = 0;
  for (const checkpoint::NamedTensor& tensor : weights.named()) {
    for (const checkpoint::TensorView* part : tensor.parts) {
      if (part != nullptr)
        count += static_cast<std::int64_t>(part->data.size() / checkpoint::size_of(part->dtype));
    }
  }
  return count;
}

int info(const ModelsRequest& request, OutputFile& output) {
  const std::string& name = request.model.word;
  const Format format = request.output.format;
  std::error_code ignored;
  if (const model::MechanismEntry* mechanism = model::find_mechanism_or_null(name);
      mechanism != nullptr && !std::filesystem::exists(name, ignored)) {
    write_mechanism(*mechanism, format, output.stream());
    return kExitOk;
  }
  if (const model::PositionEntry* rule = model::find_position_rule_or_null(name);
      rule != nullptr && !std::filesystem::exists(name, ignored)) {
    write_position_rule(*rule, format, output.stream());
    return kExitOk;
  }
  Summary report;
  if (names_architecture(request.model)) {
    const model::VitConfig c = random_model(request.model).config;
    report.add("model", name);
    report.add("config", OrderedJson::parse(model::to_json(c)));
    report.add("gflops_per_image", model::gflops_per_image(c, c.training_grid()), 3);
    report.write(format, output.stream());
    return kExitOk;
  }
  const ModelSource source = open_model(request.model);
  const ResolvedTransform transform = resolve_transform(request.transform, source);
  const image::Size size = transform.config.img_size;
  const std::int64_t patch = source.config.patch_size;
  const model::TokenGrid grid =
      source.config.token_grid((size.height + patch - 1) / patch, (size.width + patch - 1) / patch);
  report.add("model", source.name);
  report.add("file", source.weights.file().string());
  report.add("arch", source.config.arch);
  report.add("parameters", parameter_count(source.weights));
  report.add("attention", model::to_text(source.config.attention));
  if (const auto values = computed_options(source.config); !values.empty())
    report.add("attention_options", values);
  report.add_size("img_size", size.height, size.width);
  report.add("tokens", grid.num_tokens());
  report.add("gflops_per_image", model::gflops_per_image(source.config, grid), 3);
  report.add("transform", transform.describe());
  report.add("license", source.weights.metadata("license"));
  report.add("config", OrderedJson::parse(model::to_json(source.config)));
  std::set<std::string> used;
  OrderedJson mechanisms = OrderedJson::array();
  for (const model::AttentionSpec& layer : source.config.attention) {
    if (!used.insert(layer.mechanism).second) continue;
    const model::MechanismEntry& entry = model::find_mechanism(layer.mechanism);
    mechanisms.push_back({{"name", entry.name},
                          {"summary", entry.summary},
                          {"citation", entry.citation},
                          {"map", entry.map_definition}});
  }
  report.add("mechanisms", std::move(mechanisms));
  if (const std::string rules = model::to_text(source.config.rel_pos); rules != model::kNoRule)
    report.add("rel_pos", rules);
  report.write(format, output.stream());
  return kExitOk;
}

int create(const ModelsRequest& request) {
  const ModelRequest& wanted = request.model;
  if (wanted.word.empty())
    throw UsageError("name an architecture", "models create", "--arch deit_tiny_patch16_224");
  const std::string& file = request.output.file;
  if (file.empty() || file == "-")
    throw UsageError("name the file to write", "models create", "-o FILE.safetensors");
  prepare_output(file, /*force=*/true);
  model::VitConfig config = random_model(wanted).config;
  if (wanted.num_classes) config.num_classes = *wanted.num_classes;
  if (const auto& size = request.transform.img_size) {
    config.img_height = size->value.height;
    config.img_width = size->value.width;
  }
  model::validate(config);
  model::seed_generators(request.seed);
  const model::VisionTransformer model(config);
  checkpoint::save_checkpoint(
      file, *model, request.dtype,
      {{"created_by", "hydrascope models create, seed " + std::to_string(request.seed)}});
  request.console.note("wrote " + file + ": " + wanted.word + " with random weights, attention " +
                       model::to_text(config.attention));
  return kExitOk;
}

int path(std::string name, OutputFile& output) {
  if (name.empty()) name = kDefaultModel;
  auto file = named_model(name);
  // A folder of the cache, as `-m` takes it; throws where the prefix is there and the model is not.
  if (!file) file = hub_folder(name);
  if (!file)
    throw UsageError("there is no bundled model of that name", name,
                     "bundled: " + join_words(bundled_models(), ", ", ", "));
  output.stream() << file->string() << '\n';
  return kExitOk;
}

int download(const ModelsRequest& request, OutputFile& output) {
  const std::string& word = request.model.word;
  const bool is_timms = !word.empty() && word.substr(0, word.find('@')).find('/') == word.npos;
  const auto name = parse_hub_name(is_timms ? "timm/" + word : word);
  if (!name || bundled_model(word))
    throw UsageError(
        name ? "the model is bundled" : "name a model of the hub", word,
        "hydrascope models download ORGANISATION/NAME[@REVISION]; NAME alone is timm/NAME");
  const auto folder = download_model(*name, hub_address(request.hub), request.console);
  request.console.note("`-m " + name->repository +
                       (name->revision.empty() ? "" : "@" + name->revision) + "` opens it");
  output.stream() << folder.string() << '\n';
  return kExitOk;
}

}  // namespace

int run_models(const ParsedOptions& options) {
  const ModelsRequest request = models_request(options);
  if (request.action == "create") return create(request);
  OutputFile output(request.output.file);
  const int code = request.action == "info"       ? info(request, output)
                   : request.action == "path"     ? path(request.model.word, output)
                   : request.action == "download" ? download(request, output)
                                                  : list(request.output.format, output);
  output.close();
  return code;
}

}  // namespace hydrascope::app
