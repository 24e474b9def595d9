#include "app/benchmark/sweep.h"

#include "app/run/usage_error.h"
#include "model/registry/mechanisms.h"

#include <algorithm>
#include <set>
#include <utility>

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

/// Each run with each of the values, which `set` gives it; where there are none, as they were.
template <class Value, class Set>
void multiply(std::vector<BenchmarkRun>& runs, const std::vector<Value>& values, const Set& set) {
  if (values.empty()) return;
  std::vector<BenchmarkRun> longer;
  for (const BenchmarkRun& run : runs) {
    for (const Value& value : values) set(longer.emplace_back(run), value);
  }
  runs = std::move(longer);
}

/// The settings of `--set attn-opt` whose mechanism `attention` has; all for "", the checkpoint's.
Words settings_for(const std::string& attention, const Words& settings) {
  if (attention.empty()) return settings;
  const std::set<std::string> mechanisms = mechanisms_of(attention);
  Words chosen;
  for (const std::string& setting : settings) {
    const std::string mechanism = setting.substr(0, setting.find_first_of(":."));
    if (mechanisms.contains(model::find_mechanism(mechanism, "`attn_opt`").name))
      chosen.push_back(setting);
  }
  return chosen;
}

}  // namespace

std::vector<std::string> split_attention_list(const std::string& text) {
  if (text.find(';') != std::string::npos) return split(text, ';');
  if (text.find(':') != std::string::npos) return {text};
  return split(text, ',');
}

std::vector<BenchmarkRun> sweep(const ParsedOptions& options) {
  Words attention;
  for (const std::string& text : options[&ModelRequest::attention].values) {
    for (std::string& spec : split_attention_list(text)) attention.push_back(std::move(spec));
  }
  if (attention.empty()) attention = {""};

  std::vector<BenchmarkRun> runs{{model_request(options), transform_request(options),
                                  run_request(options, AutoExif::upright)}};
  const Words settings = std::exchange(runs.front().model.attention_options, {});
  const std::string calibration = std::exchange(runs.front().run.calibration, {});
  multiply(runs, options[&ModelRequest::word].values,
           [](BenchmarkRun& run, const std::string& word) { run.model.word = word; });
  std::set<std::string> unused(settings.begin(), settings.end());
  multiply(runs, attention, [&](BenchmarkRun& run, const std::string& spec) {
    run.model.attention = spec;
    run.model.attention_options = settings_for(spec, settings);
    for (const std::string& setting : run.model.attention_options) unused.erase(setting);
  });
  if (!unused.empty()) {
    throw UsageError("no combination runs its mechanism", "`attn_opt` " + *unused.begin());
  }
  multiply(runs, options[&TransformRequest::img_size].values,
           [](BenchmarkRun& run, const std::string& size) {
             run.transform.img_size = {parse_size(size), "`img_size`"};
           });
  multiply(runs, options[&RunRequest::batch_size].integers(),
           [](BenchmarkRun& run, std::int64_t size) { run.run.batch_size = size; });
  multiply(runs, options[&RunRequest::precision].values,
           [&](BenchmarkRun& run, const std::string& word) {
             run.run.precision = word;
             if (word == "int8") run.run.calibration = calibration;
           });
  multiply(runs, options[&RunRequest::device].values,
           [](BenchmarkRun& run, const std::string& word) { run.run.device = word; });
  multiply(
      runs, options[&RunRequest::kernels].values,
      [](BenchmarkRun& run, const std::string& word) { run.run.kernels = parse_kernels(word); });
  return runs;
}

}  // namespace hydrascope::app
