// hydrascope models: list, info, classes, create, path.
#include "app/command.h"
#include "app/model/inspection.h"
#include "app/model/model_metadata.h"
#include "app/model/model_source.h"
#include "app/model/resolve_labels.h"
#include "app/options/mechanism_listing.h"
#include "app/options/option_fields.h"
#include "app/options/option_table.h"
#include "app/results/report.h"
#include "app/run/assets.h"
#include "app/run/console.h"
#include "app/run/output_file.h"
#include "app/run/terminal_text.h"
#include "app/run/usage_error.h"
#include "app/scores/class_groups.h"
#include "app/specs/requests.h"
#include "app/specs/specs.h"
#include "app/tasks/format_only.h"
#include "kernels/number_text.h"
#include "model/config/architectures.h"
#include "model/config/network_cost.h"
#include "model/device.h"
#include "model/registry/mechanisms.h"
#include "model/registry/memories.h"
#include "model/vision_transformer.h"

#include <ATen/core/grad_mode.h>

#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace hydrascope::app {

using namespace std::string_literals;

namespace {

struct ModelsRequest {
  std::string action;
  Console console;
  OutputRequest output;
  ModelRequest model = {};  ///< the argument's, where `-m` names none
  TransformRequest transform = {};
  bool verify = false;
  std::uint64_t seed = 42;
  checkpoint::Dtype dtype = checkpoint::Dtype::F32;
};

ModelsRequest models_request(const ParsedOptions& options) {
  const std::vector<std::string>& words = options.positionals();
  ModelsRequest request{words.empty() ? "list" : words.front(), console_request(options),
                        output_request(options)};
  if (words.size() > 2)
    throw UsageError("expected one model, found " + std::to_string(words.size() - 1),
                     "models " + words[0]);
  request.model = model_request(options);
  request.model.may_lack_classes = request.action != "classes";
  if (const GivenOption& named = options[&ModelRequest::word]; words.size() == 2) {
    if (named.given() && !named.is(words[1]))
      throw UsageError("two answers to which model",
                       named.origin + " " + named.text() + " with " + words[1]);
    request.model.word = words[1];
  }
  request.transform = transform_request(options);
  request.verify = options[&ModelInfoRequest::verify].flag();
  take(options[&RunRequest::seed], request.seed);
  request.dtype = weights_request(options).dtype.value_or(request.dtype);
  return request;
}

Report listing() {
  Report report("hydrascope models");
  ResultTable table(
      {{"kind", "kind"}, {"name", "name"}, {"summary", "summary"}, {"aliases", "also"}});
  for (const std::string& name : bundled_models())
    table.add({"model", name, name == kDefaultModel ? "(default)" : "", ""});
  for (const std::string& name : model::architecture_names())
    table.add({"architecture", name, "", ""});
  const auto add_all = [&](const char* kind, const auto& entries) {
    for (const auto* entry : entries)
      table.add({kind, entry->name, entry->summary, join_words(entry->aliases, " ", " ")});
  };
  add_all("mechanism", model::mechanisms());
  add_all("position_rule", model::position_rules());
  add_all("memory", model::memories());
  report.add_table("", "", std::move(table), kForPeople | kInRows);
  std::vector<std::string> rules = position_names();
  std::erase(rules, model::kNoRule);
  std::vector<std::string> memories = memory_names();
  std::erase(memories, model::kNoMemory);
  for (const auto& [key, names] : {std::pair{"models", bundled_models()},
                                   {"architectures", model::architecture_names()},
                                   {"mechanisms", mechanism_names()},
                                   {"position_rules", rules},
                                   {"memories", memories}})
    report.summary.add(key, names, 0, kInJson);
  report.remarks = {"-m takes a model; models create --arch an architecture, in any size " +
                        model::architecture_pattern(),
                    "--attn takes mechanisms, --set rel-pos= position rules, --memory memories"};
  return report;
}

/// "on|off", "N, at least 1".
std::string values_of(const Option& option) {
  if (option.kind == ValueKind::flag) return "on|off";
  std::string text =
      option.choices.empty() ? option.placeholder : join_words(option.choices, "|", "|");
  if (option.minimum) text += ", at least " + shortest_number(*option.minimum);
  if (option.maximum) text += ", at most " + shortest_number(*option.maximum);
  return text;
}

/// The keys of `--set`.
Report settings_report() {
  struct Setting {
    const Option* option;
    std::vector<std::string> commands;
  };
  // By key and default, which commands may have of their own.
  std::map<std::pair<std::string, std::string>, Setting> settings;
  const auto default_of = [](const Option& option) {
    if (option.kind == ValueKind::flag) return option.default_value == "true" ? "on"s : "off"s;
    return option.default_value.empty() ? option.default_note : option.default_value;
  };
  for (const CommandSpec& command : command_specs())
    for (const Option& option : command.options)
      if (!option.key.empty())
        settings.try_emplace({option.key, default_of(option)}, Setting{&option, {}})
            .first->second.commands.push_back(command.name);
  Report report("hydrascope models info");
  ResultTable table({{"key", "key"},
                     {"values", "values"},
                     {"default", "default"},
                     {"meaning", "meaning"},
                     {"commands", "commands"}});
  for (const auto& [place, setting] : settings) {
    const Option& option = *setting.option;
    table.add({place.first, values_of(option), place.second, option.help,
               join_words(setting.commands, " ", " ")});
  }
  report.add_table("settings", "settings", std::move(table), kMain);
  report.remarks = {"--set KEY=VALUE; a key's end behind its dot will do where it is the only one"};
  return report;
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

void add_config(const model::VitConfig& config, Report& report) {
  const OrderedJson settings = OrderedJson::parse(model::to_json(config));
  report.summary.add("config", settings, 0, kInJson);
  report.add_table("", "configuration", ResultTable::of_settings(settings), kForPeople);
}

/// A model that can be computed.
struct OpenedModel {
  explicit OpenedModel(const ModelsRequest& request)
      : source(open_model(request.model)),
        transform(resolve_transform(request.transform, source)) {}
  ModelSource source;
  ResolvedTransform transform;
};

/// `has_header`: `report` has the facts of `add_header`.
void add_model(const OpenedModel& opened, bool has_header, Report& report) {
  const auto& [source, transform] = opened;
  const image::Size size = transform.config.img_size;
  const std::int64_t patch = source.config.patch_size;
  const model::TokenGrid grid =
      source.config.token_grid((size.height + patch - 1) / patch, (size.width + patch - 1) / patch);
  report.add("model", source.name);
  report.add("file", source.weights.file().string());
  if (!has_header) report.add("arch", source.config.arch);
  report.add("parameters", parameter_count(source.weights));
  if (!has_header) report.add("attention", model::to_text(source.config.attention));
  if (const auto values = computed_options(source.config); !values.empty())
    report.add("attention_options", values);
  report.summary.add_size("img_size", size.height, size.width);
  report.add("tokens", grid.num_tokens());
  report.add("gflops_per_image", model::gflops_per_image(source.config, grid), 3);
  report.add("transform", transform.describe());
  report.add("license", source.weights.metadata("license"));
  if (const std::string rules = model::to_text(source.config.rel_pos); rules != model::kNoRule)
    report.add("rel_pos", rules);
  std::set<std::string> used;
  ResultTable mechanisms(
      {{"name", "mechanism"}, {"summary", "summary"}, {"citation", "citation"}, {"map", "map"}});
  for (const model::AttentionSpec& layer : source.config.attention) {
    if (!used.insert(layer.mechanism).second) continue;
    const model::MechanismEntry& entry = model::find_mechanism(layer.mechanism);
    mechanisms.add({entry.name, entry.summary, entry.citation, entry.map_definition});
  }
  report.add_table("mechanisms", "", std::move(mechanisms));
  add_config(source.config, report);
}

/// The weights whose header is described: those of `models info FILE`, and with `--verify` a bundled model's.
std::optional<std::filesystem::path> inspected_file(const ModelsRequest& request) {
  const std::string& name = request.model.word;
  if (!request.model.checkpoint.empty()) return std::nullopt;
  if (std::error_code ignored; std::filesystem::exists(name, ignored)) return name;
  if (const auto bundled = named_model(name.empty() ? kDefaultModel : name))
    return request.verify ? bundled : std::nullopt;
  return hub_folder(name);
}

/// Returns whether all numbers are finite, where that was asked for.
bool add_file(const std::filesystem::path& file, const ModelsRequest& request, Report& report) {
  const checkpoint::WeightFile weights =
      checkpoint::WeightFile::open(file, {request.model.use_ema});
  Findings findings = look_at(weights);
  std::optional<OpenedModel> opened;
  try {
    if (findings.problem.empty()) opened.emplace(request);
  } catch (const Error& error) {
    // The request is wrong, or the header is all that can be said of the file.
    if (error.code() == ErrorCode::invalid_argument) throw;
    findings.notes.push_back(spelled(error.about() + ": " + error.what()));
  }
  if (opened) findings.attention = model::to_text(opened->source.config.attention);
  add_header(weights, findings, report);
  if (opened) add_model(*opened, /*has_header=*/true, report);
  return !request.verify || add_not_finite(weights, report);
}

/// The description of a name that no file has; nothing for a model's name.
std::optional<Report> described_name(const ModelsRequest& request) {
  const std::string& name = request.model.word;
  if (name == "set") return settings_report();
  if (std::error_code ignored; std::filesystem::exists(name, ignored)) return std::nullopt;
  if (const auto* mechanism = model::find_mechanism_or_null(name))
    return mechanism_report(*mechanism);
  if (const auto* memory = model::find_memory_or_null(name)) return memory_report(*memory);
  if (const auto* rule = model::find_position_rule_or_null(name))
    return position_rule_report(*rule);
  if (!names_architecture(request.model)) return std::nullopt;
  Report report("hydrascope models info");
  const model::VitConfig c = random_model(request.model).config;
  report.add("model", name);
  report.add("gflops_per_image", model::gflops_per_image(c, c.training_grid()), 3);
  add_config(c, report);
  return report;
}

int write_info(const ModelsRequest& request, OutputFile& output) {
  std::optional<Report> named = described_name(request);
  const std::optional<std::filesystem::path> file = named ? std::nullopt : inspected_file(request);
  if (request.verify && !file)
    throw UsageError("expected a file of weights", "`verify`", "`hydrascope models info FILE`");
  Report report = named ? std::move(*named) : Report("hydrascope models info");
  bool is_finite = true;
  if (file)
    is_finite = add_file(*file, request, report);
  else if (!named)
    add_model(OpenedModel(request), /*has_header=*/false, report);
  report.write(request.output.format, output.stream(), [&](const std::string& note) {
    // A failed check is reported in any case.
    if (is_finite)
      request.console.note(note);
    else
      std::cerr << printable(note) + '\n';
  });
  return is_finite ? kExitOk : kExitCheckFailed;
}

Report classes_report(const ModelsRequest& request) {
  const image::Labels labels = resolve_labels("", open_model(request.model)).labels;
  const ClassGroups groups(labels);
  const Format format = request.output.format;
  const bool has_lists = format == Format::json || format == Format::jsonl;
  Report report("hydrascope models classes");
  ResultTable table({{"index", "index"},
                     {"id", "id"},
                     {"label", "label"},
                     {"scene", "scene"},
                     {"groups", "groups"}});
  for (std::int64_t i = 0; std::cmp_less(i, labels.size()); ++i) {
    std::vector<std::string> names;
    for (const std::size_t place : groups.chain(i)) names.push_back(groups.groups()[place].name);
    table.add({i, labels.at(i).id, labels.at(i).short_name, groups.is_scene(i),
               has_lists ? OrderedJson(names) : OrderedJson(join_words(names, ", ", ", "))});
  }
  report.add_table("classes", "", std::move(table), kMain);
  return report;
}

int create(const ModelsRequest& request) {
  const ModelRequest& wanted = request.model;
  if (wanted.word.empty())
    throw UsageError("name an architecture", "models create", "`arch` deit_tiny_patch16_224");
  const std::string& file = request.output.file;
  if (file.empty() || file == "-")
    throw UsageError("name the file to write", "models create", "-o FILE.safetensors");
  prepare_output(file, /*force=*/true, FileKind::random_weights);
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
      {{"created_by", "hydrascope models create, seed " + std::to_string(request.seed)}},
      /*until_stopped=*/true);
  request.console.note("wrote " + file + ": " + wanted.word + " with random weights, attention " +
                       model::to_text(config.attention));
  return kExitOk;
}

void path(std::string name, OutputFile& output) {
  if (name.empty()) name = kDefaultModel;
  auto file = named_model(name);
  // A folder of the cache, as `-m` takes it; throws where the prefix is there and the model is not.
  if (!file) file = hub_folder(name);
  if (!file)
    throw NotFound("there is no bundled model of that name", name,
                   "bundled: " + join_words(bundled_models(), ", ", ", "));
  mark_text(output.stream());
  output.stream() << text_for(output.stream(), file->string()) << '\n';
}

}  // namespace

int run_models(const ParsedOptions& options) {
  const ModelsRequest request = models_request(options);
  if (request.action == "create") return create(request);
  OutputFile output(request.output.file);
  int code = kExitOk;
  if (request.action == "path")
    path(request.model.word, output);
  else if (request.action == "info")
    code = write_info(request, output);
  else if (request.action == "classes")
    classes_report(request).write(request.output.format, output.stream());
  else
    listing().write(request.output.format, output.stream());
  output.close();
  return code;
}

}  // namespace hydrascope::app
