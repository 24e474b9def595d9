// Questions of a program to the library that need no model: the registry and what is bundled, the layers that a spec
// names, a checkpoint's configuration, and the pictures that a word names (include/hydrascope/hydrascope.h).
#define HYDRASCOPE_WITHOUT_CLASSES
#include "app/library/include/hydrascope/hydrascope.h"
#include "app/library/last_error.h"
#include "app/options/mechanism_listing.h"
#include "app/options/option_builders.h"
#include "app/options/options.h"
#include "app/options/requests.h"
#include "app/pictures/inputs.h"
#include "app/results/json.h"
#include "app/run/assets.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/formats/strict_json.h"
#include "model/config/config.h"
#include "model/registry/mechanisms.h"
#include "model/registry/positions.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace hydrascope::app {
namespace {

OrderedJson as_json(const Report& report) {
  std::ostringstream text;
  report.write(Format::json, text);
  return OrderedJson::parse(text.str());
}

OrderedJson registry() {
  OrderedJson all = {{"mechanisms", OrderedJson::array()},
                     {"position_rules", OrderedJson::array()}};
  for (const model::MechanismEntry* entry : model::mechanisms())
    all["mechanisms"].push_back(as_json(mechanism_report(*entry)));
  for (const model::PositionEntry* entry : model::position_rules())
    all["position_rules"].push_back(as_json(position_rule_report(*entry)));
  all["config"] = OrderedJson::parse(model::to_json(model::VitConfig()));
  for (const std::string& name : bundled_images()) all["samples"].push_back(name);
  return all;
}

CommandSpec attention_spec() {
  CommandSpec spec;
  spec.name = "layers";
  spec.options = model_options();
  std::erase_if(spec.options, [](const Option& option) {
    return option.field != &ModelRequest::attention &&
           option.field != &ModelRequest::attention_options;
  });
  return with_settings(std::move(spec));
}

OrderedJson layers(const std::string& before, const std::vector<std::string>& words) {
  const OrderedJson given = checkpoint::parse_json(before, "list of layers", "layers");
  const std::string config = OrderedJson{{"depth", given.size()}, {"attention", given}}.dump();
  std::vector<model::AttentionSpec> all = model::config_from_json(config, "layers").attention;
  const ParsedOptions options = parse(attention_spec(), words);
  if (const std::string& spec = options[&ModelRequest::attention].text(); !spec.empty())
    model::apply_attention_spec(spec, all);
  for (const std::string& option : options[&ModelRequest::attention_options].values)
    model::apply_attention_option(option, all);
  OrderedJson result = OrderedJson::array();
  for (const model::AttentionSpec& layer : all)
    result.push_back(
        {{"mechanism", layer.mechanism}, {"options", model::MechanismOptions(layer).all()}});
  return result;
}

OrderedJson configuration(const std::string& file) {
  const checkpoint::Checkpoint weights = checkpoint::Checkpoint::open(file);
  return OrderedJson::parse(model::to_json(weights.deduce_config()));
}

std::vector<std::string> pictures_of(const std::string& word) {
  if (word == "-") return {word};  // a file of that name; standard input is the program's
  InputStream inputs({word}, /*recursive=*/false);
  std::vector<std::string> paths;
  while (const std::optional<Input> input = inputs.next()) {
    if (input->error == ErrorCode::empty) throw Error(*input->error, input->message, input->given);
    paths.push_back(input->given);
  }
  return paths;
}

}  // namespace
}  // namespace hydrascope::app

namespace app = hydrascope::app;

const char* hydrascope_registry() { return app::json_of({}, app::registry); }

const char* hydrascope_layers(const char* before, const char* const* words, size_t num_words) {
  return app::json_of({before, app::list(words, num_words)}, [&] {
    return app::layers(before, std::vector<std::string>(words, words + num_words));
  });
}

const char* hydrascope_config(const char* file) {
  return app::json_of({file}, [&] { return app::configuration(file); });
}

const char* const* hydrascope_pictures(const char* word, size_t* count) {
  thread_local std::vector<std::string> paths;
  thread_local std::vector<const char*> texts;
  if (count != nullptr) *count = 0;
  return app::guarded({word, count}, [&] {
    paths = app::pictures_of(word);
    texts.clear();
    for (const std::string& path : paths) texts.push_back(path.c_str());
    *count = texts.size();
    return texts.data();
  });
}
