#include "app/benchmark/sweep.h"

#include "kernels/error.h"
#include "model/attention/registry.h"

#include <algorithm>
#include <set>

namespace hydrascope::app {
namespace {

using Words = std::vector<std::string>;

Words split(const std::string& text, char separator) {
  Words parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// Canonical names of the mechanisms that a spec mentions.
std::set<std::string> mechanisms_of(const std::string& spec) {
  std::set<std::string> names;
  for (const std::string& part : split(spec, ','))
    names.insert(model::find_mechanism(part.substr(0, part.find(':'))).name);
  return names;
}

/// The values of a list option; one empty value where none were given.
Words values_of(const ParsedOptions& options, const char* name, const Words& preset = {}) {
  if (options.given(name) || preset.empty()) {
    const Words& values = options.texts(name);
    return values.empty() ? Words{""} : values;
  }
  return preset;
}

void append(std::vector<Words>& runs, const std::string& option, const Words& values) {
  std::vector<Words> longer;
  for (const Words& run : runs) {
    for (const std::string& value : values) {
      Words next = run;
      if (!value.empty()) next.push_back("--" + option + "=" + value);
      longer.push_back(std::move(next));
    }
  }
  runs = std::move(longer);
}

}  // namespace

std::vector<std::string> split_attention_list(const std::string& text) {
  if (text.find(';') != std::string::npos) return split(text, ';');
  if (text.find(':') != std::string::npos) return {text};
  return split(text, ',');
}

CommandSpec single_run_spec() {
  CommandSpec spec;
  spec.name = "benchmark";
  spec.options =
      join({model_options(),
            preprocessing_options(),
            runtime_options(),
            output_options(),
            general_options(),
            {{.name = "max-pixels", .kind = ValueKind::integer, .default_value = "536870912"}}});
  return spec;
}

std::vector<std::vector<std::string>> sweep(const ParsedOptions& options) {
  const bool full_hd = options.text("preset") == "1080p";
  Words attention;
  for (const std::string& text : options.texts("attn")) {
    for (std::string& spec : split_attention_list(text)) attention.push_back(std::move(spec));
  }
  if (attention.empty() && full_hd)
    attention = {"softmax", "hedgehog", "hydra", "hedgehog,hydra:last4"};
  if (attention.empty()) attention = {""};

  Words shared;
  for (const char* name : {"checkpoint", "fit", "threads", "seed", "pos-interp", "overview",
                           "num-classes", "workers", "keep-layer"}) {
    if (options.given(name)) shared.push_back("--" + std::string(name) + "=" + options.text(name));
  }
  for (const char* name : {"use-ema", "deterministic", "reset-head"}) {
    if (options.flag(name)) shared.push_back("--" + std::string(name));
  }
  std::vector<Words> runs{shared};
  append(runs, "model", values_of(options, "model"));
  std::vector<Words> with_attention;
  std::set<std::string> unused(options.texts("attn-opt").begin(), options.texts("attn-opt").end());
  for (const Words& run : runs) {
    for (const std::string& spec : attention) {
      Words next = run;
      if (!spec.empty()) next.push_back("--attn=" + spec);
      for (const std::string& setting : options.texts("attn-opt")) {
        const std::string& mechanism =
            model::find_mechanism(setting.substr(0, setting.find('.'))).name;
        if (!spec.empty() && !mechanisms_of(spec).contains(mechanism)) continue;
        next.push_back("--attn-opt=" + setting);
        unused.erase(setting);
      }
      with_attention.push_back(std::move(next));
    }
  }
  if (!unused.empty()) {
    throw Error(ErrorCode::invalid_argument, "no combination runs its mechanism",
                "--attn-opt " + *unused.begin());
  }
  runs = std::move(with_attention);
  append(runs, "img-size", values_of(options, "img-size", full_hd ? Words{"1080x1920"} : Words{}));
  append(runs, "batch-size", values_of(options, "batch-size"));
  append(runs, "precision", values_of(options, "precision"));
  if (options.given("calibration")) {
    for (Words& run : runs)
      if (std::ranges::find(run, "--precision=int8") != run.end())
        run.push_back("--calibration=" + options.text("calibration"));
  }
  append(runs, "device", values_of(options, "device"));
  append(runs, "kernels", values_of(options, "kernels"));
  append(runs, "keep-tokens", values_of(options, "keep-tokens"));
  return runs;
}

}  // namespace hydrascope::app
