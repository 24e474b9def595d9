// hydrascope search: the stored pictures that are nearest to others.
#include "app/command.h"
#include "app/options/option_builders.h"
#include "app/pictures/inputs.h"
#include "app/results/table.h"
#include "app/run/console.h"
#include "app/run/output_file.h"
#include "app/run/progress.h"
#include "app/run/signal_stop.h"
#include "app/run/terminal_text.h"
#include "app/run/usage_error.h"
#include "app/session/session.h"
#include "app/specs/requests.h"
#include "app/tasks/features.h"
#include "kernels/stopwatch.h"

#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>

namespace hydrascope::app {
namespace {

constexpr const char* kMatchColumns =
    "input rank=/matches/rank name=/matches/name label=/matches/label "
    "similarity=/matches/similarity seconds error_code=/error/code error_message=/error/message";

SearchRequest search_request(const ParsedOptions& options) {
  SearchRequest request{one_view_request(options, AutoExif::upright)};
  options.fill(request);
  if (request.words.empty())
    throw UsageError("expected a store and pictures", "search",
                     "hydrascope search store.safetensors photo.jpg");
  request.model.may_lack_classes = true;
  request.store = request.words.front();
  request.words.erase(request.words.begin());
  return request;
}

/// The record and its text for people.
std::pair<OrderedJson, std::string> record_of(const PipelineResult& result,
                                              const VectorStore& store,
                                              const std::vector<Neighbour>& found, bool color) {
  InputRecord head;
  head.input = result.input.given;
  head.error = result.error;
  head.message = spelled(result.message);
  OrderedJson json = begin_json(head);
  std::string text = begin_text(head, color);
  if (result.error) return {json, text};
  text += "\n";
  OrderedJson matches = OrderedJson::array();
  for (const Neighbour& one : found) {
    const std::string name(store.name_of(one.index));
    OrderedJson match = {{"rank", std::ssize(matches) + 1}};
    add_path(match, "name", name);
    std::string label;
    if (const std::int64_t index = store.class_of(one.index); index >= 0)
      label = store.labels()[static_cast<std::size_t>(index)];
    if (!label.empty()) match["label"] = label;
    match["similarity"] = rounded(one.similarity);
    text += "  " + std::to_string(std::ssize(matches) + 1) + "  " + decimal(one.similarity, 4) +
            "  " + printable(name) + (label.empty() ? "" : "  " + printable(label)) + "\n";
    matches.push_back(std::move(match));
  }
  json["matches"] = std::move(matches);
  json["seconds"] = rounded(result.seconds);
  return {json, text};
}

}  // namespace

int run_search(const ParsedOptions& options) {
  refuse_shares();
  SearchRequest request = search_request(options);
  const VectorStore store(request.store);
  store.require_one_vector_each();
  const std::string features = store.facts().features;
  const std::unique_ptr<Session> session =
      Session::open(request, feature_source(open_model(request.model), features));
  if (!session) return kExitOk;
  require_inputs(request.words, "search");
  store.facts().require_same(facts_of(session->source(), session->transform(), features, ""),
                             store.file());
  session->announce();
  const std::jthread decoders = image::prepare_to_decode(request.words);
  session->load({.embeddings = true});

  OutputFile output(request.output.file);
  RecordStream records(request.output.format, output.stream(), kMatchColumns, "matches");
  StoppableInput standard_input_buffer(STDIN_FILENO);
  std::istream standard_input(&standard_input_buffer);
  InputStream inputs(request.words, request.recursive, standard_input);
  Progress progress("search", std::nullopt, request.console.progress);
  session->hide_for_notes(progress);
  std::int64_t failed = 0;
  const PipelineTiming timing = session->run(
      [&] { return inputs.next(); },
      [&](PipelineResult& result) {
        const Clock::time_point begin = Clock::now();
        std::vector<Neighbour> found;
        if (!result.error) found = store.nearest(result.features.unsqueeze(0), request.top).front();
        result.seconds += seconds_since(begin);
        const auto [json, text] = record_of(result, store, found, request.console.color);
        progress.hide();
        records.write(json, text);
        progress.advance();
        if (result.error) {
          print_failure(Error(*result.error, result.message, result.input.given));
          ++failed;
        }
        return !(result.error && request.run.fail_fast) && static_cast<bool>(output.stream());
      });
  progress.finish();
  for (const std::string& note : inputs.passed().notes()) request.console.note(note);
  records.finish();
  output.close();
  session->describe(timing);
  if (stop_requested()) return exit_code_after_stop(kExitOk);
  if (failed > 0) return request.run.fail_fast ? kExitFailed : kExitSomeInputsFailed;
  return kExitOk;
}

}  // namespace hydrascope::app
