// hydrascope models: list, info, create, path.
#include "app/command.h"
#include "app/convert/format_only.h"
#include "app/model/assets.h"
#include "app/model/hub_cache.h"
#include "app/model/mechanism_listing.h"
#include "app/model/model_metadata.h"
#include "app/model/model_source.h"
#include "app/options/option_table.h"
#include "app/results/table.h"
#include "app/run/console.h"
#include "app/run/output_file.h"
#include "kernels/error.h"
#include "model/config/architectures.h"
#include "model/config/network_cost.h"
#include "model/registry/mechanisms.h"
#include "model/vision_transformer.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <filesystem>
#include <iostream>
#include <set>
#include <utility>

namespace hydrascope::app {
namespace {

const std::string& only_name(const ParsedOptions& options) {
  const std::vector<std::string>& words = options.positionals();
  if (words.size() > 2)
    throw Error(ErrorCode::invalid_argument,
                "expected one model, found " + std::to_string(words.size() - 1),
                "models " + words[0]);
  if (words.size() == 2) return words[1];
  return options.text("model");
}

int list(const ParsedOptions& options, OutputFile& output) {
  const Format format = choose_format(options.text("format"), options.text("output"));
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
    return kExitOk;
  }
  Summary report;
  report.add("models", bundled_models());
  report.add("architectures", model::architecture_names());
  report.add("mechanisms", mechanism_names());
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

int info(const ParsedOptions& options, OutputFile& output) {
  const std::string& name = only_name(options);
  const Format format = choose_format(options.text("format"), options.text("output"));
  std::error_code ignored;
  if (const model::MechanismEntry* mechanism = model::find_mechanism_or_null(name);
      mechanism != nullptr && !std::filesystem::exists(name, ignored)) {
    write_mechanism(*mechanism, format, output.stream());
    return kExitOk;
  }
  Summary report;
  ModelRequest request = model_request(options);
  request.word = name;
  if (names_architecture(request)) {
    const model::VitConfig c = random_model(request).config;
    report.add("model", name);
    report.add("config", OrderedJson::parse(model::to_json(c)));
    report.add("gflops_per_image", model::gflops_per_image(c, c.training_grid()), 3);
    report.write(format, output.stream());
    return kExitOk;
  }
  const ModelSource source = open_model(request);
  const ResolvedTransform transform = resolve_transform(transform_request(options), source);
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
  report.write(format, output.stream());
  return kExitOk;
}

int create(const ParsedOptions& options) {
  ModelRequest request = model_request(options);
  if (request.word.empty()) request.word = only_name(options);
  if (request.word.empty())
    throw Error(ErrorCode::invalid_argument, "name an architecture", "models create",
                "--arch deit_tiny_patch16_224");
  const std::string& file = options.text("output");
  if (file.empty() || file == "-")
    throw Error(ErrorCode::invalid_argument, "name the file to write", "models create",
                "-o FILE.safetensors");
  model::VitConfig config = random_model(request).config;
  if (request.num_classes) config.num_classes = *request.num_classes;
  if (options.given("img-size")) {
    const image::Size size = parse_size(options.text("img-size"));
    config.img_height = size.height;
    config.img_width = size.width;
  }
  model::validate(config);
  at::manual_seed(static_cast<std::uint64_t>(options.integer("seed")));
  const model::VisionTransformer model(config);
  checkpoint::save_checkpoint(file, *model, weights_dtype(options).value_or(checkpoint::Dtype::F32),
                              {{"created_by", "hydrascope models create, seed " +
                                                  std::to_string(options.integer("seed"))}});
  Console(options).note("wrote " + file + ": " + request.word + " with random weights, attention " +
                        model::to_text(config.attention));
  return kExitOk;
}

int path(const ParsedOptions& options, OutputFile& output) {
  std::string name = only_name(options);
  if (name.empty()) name = kDefaultModel;
  auto file = named_model(name);
  // A folder of the cache, as `-m` takes it; throws where the prefix is there and the model is not.
  if (!file) file = hub_folder(name);
  if (!file)
    throw Error(ErrorCode::invalid_argument, "there is no bundled model of that name", name,
                "bundled: " + join_words(bundled_models(), ", ", ", "));
  output.stream() << file->string() << '\n';
  return kExitOk;
}

}  // namespace

int run_models(const ParsedOptions& options) {
  const std::vector<std::string>& words = options.positionals();
  const std::string action = words.empty() ? "list" : words.front();
  if (action == "create") return create(options);
  OutputFile output(options.text("output"));
  const int code = action == "info"   ? info(options, output)
                   : action == "path" ? path(options, output)
                                      : list(options, output);
  output.close();
  return code;
}

}  // namespace hydrascope::app
