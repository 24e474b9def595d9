// hydrascope serve: the model behind HTTP.
#include "app/command.h"
#include "app/run/assets.h"
#include "app/run/console.h"
#include "app/run/output_file.h"
#include "app/run/signal_stop.h"
#include "app/run/usage_error.h"
#include "app/serve/api.h"
#include "app/serve/http_server.h"
#include "app/session/service.h"
#include "app/specs/requests.h"
#include "app/visualize/visualize_options.h"
#include "kernels/error.h"
#include "viz/live_page/live_page.h"
#include "viz/page/markup.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <limits>
#include <map>
#include <thread>
#include <utility>

namespace hydrascope::app {
namespace {

/// For a request; with their values in text about 2 MiB of the default size.
constexpr std::int64_t kMostMaps = 1024;
/// The bytes of all bodies together, unless a single one is larger.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;

struct ServeRequest {
  ServiceRequest service;
  HttpServerOptions server = {};
  ApiOptions api = {};  ///< `most_waiting` 0: two batches
};

ServeRequest serve_request(const ParsedOptions& options) {
  ServeRequest request{service_request(options, /*wants_maps=*/true)};
  ServiceRequest& service = request.service;
  const bool answers_classes_alone = service.maps->methods == std::vector<std::string>{"none"};
  if (answers_classes_alone) service.maps.reset();
  service.embeds = !answers_classes_alone;
  // A request that is let in is counted as it comes in.
  service.most_waiting = std::numeric_limits<std::int32_t>::max();
  service.most_maps = kMostMaps;
  service.all_methods = true;
  ListenRequest listen;
  options.fill(listen);
  request.server = {.host = listen.host,
                    .port = listen.port,
                    .max_body_bytes = static_cast<std::size_t>(service.run.decode.max_bytes),
                    .timeout = listen.timeout};
  request.api.most_waiting = listen.most_waiting.value_or(0);
  request.api.most_bytes = std::max(kMostBytes, service.run.decode.max_bytes);
  request.api.timeout = listen.timeout;
  request.api.figure = figure_options(options);
  request.api.decode = service.run.decode;
  return request;
}

/// A request that was let in has an answer within the timeout and a step of its work, which takes less.
constexpr double kSecondsOfAStep = 5;

/// The request for another model, or for other views of the server's own.
ServiceRequest other_request(const ServiceRequest& started, const ServedWords& words,
                             const std::string& own_model) {
  ServiceRequest other = started;
  other.console.quiet = true;
  other.embeds = false;
  // The server's own, as it was started, is a model that was named, too.
  if (words.model == own_model) other.model.is_default = false;
  const bool is_another = !words.model.empty() && words.model != own_model;
  choose_anew(other.model, other.transform, is_another ? words.model : "", words.views);
  if (is_another && other.maps) {
    other.maps->methods.clear();
    other.maps->heads.clear();
  }
  return other;
}

viz::ReportOptions page_options(const FigureOptions& figure, const Service& service) {
  viz::ReportOptions page = report_options(figure);
  const InputRecord& run = service.run_facts();
  page.title = "hydrascope: " + service.model_name();
  page.facts = {{"model", service.model_name()},
                {"attention", run.attention},
                {"device", run.device},
                {"precision", run.precision},
                {"transform", service.transform()}};
  return page;
}

/// Asks for what the page shows at first: the last layer of the first map's kind, of one class. Empty
/// where there is none.
std::map<std::string, std::string> first_query(const Service& service) {
  if (service.maps().empty()) return {};
  MapChoice first = service.maps().front();
  for (const MapChoice& choice : service.maps())
    if (choice.method == first.method && choice.head == first.head)
      first.layer = std::max(first.layer, choice.layer);
  return {{"topk", "1"},
          {"method", std::string(model::explain::entry_of(first.method).name)},
          {"layer", std::to_string(first.layer)},
          {"head", to_text(first.head)}};
}

std::vector<std::string> method_names(const std::vector<MapChoice>& maps) {
  std::vector<std::string> names;
  for (const MapChoice& choice : maps) {
    const std::string name(model::explain::entry_of(choice.method).name);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

/// The offers of a service's page beside its pictures.
viz::LiveOffer offer_of(const ServedWords& words, const Service& service, const ModelShelf& shelf) {
  viz::LiveOffer offer;
  offer.patch_layers = service.patch_layers();
  offer.first_query = first_query(service);
  offer.methods = method_names(service.maps());
  offer.usual_methods = method_names(service.usual_maps());
  const std::string model =
      words.model.empty() ? viz::page::valid_text(service.model_name()) : words.model;
  offer.menus = {{"model", "Model", shelf.models(), model},
                 {"views", "Views", shelf.views(), std::string(image::name(service.views()))}};
  if (!words.model.empty()) offer.query["model"] = words.model;
  if (!words.views.empty()) offer.query["views"] = words.views;
  return offer;
}

void wait_for_stop() {
  constexpr std::chrono::milliseconds kStep(50);
  while (!stop_requested()) std::this_thread::sleep_for(kStep);
}

}  // namespace

int run_serve(const ParsedOptions& options) {
  ServeRequest request = serve_request(options);
  const Console& console = request.service.console;
  ServeMetrics metrics;
  request.service.batch_done = [&metrics](std::int64_t images, double seconds) {
    metrics.batch(images, seconds);
  };
  auto service = std::make_unique<Service>(request.service);
  ApiOptions& options_of_api = request.api;
  if (options_of_api.most_waiting == 0) options_of_api.most_waiting = 2 * service->batch_size();
  const std::string own_model = viz::page::valid_text(service->model_name());
  const std::string own_views(image::name(service->views()));
  std::vector<std::string> models = bundled_models();
  if (std::ranges::find(models, own_model) == models.end())
    models.insert(models.begin(), own_model);
  const auto open = [&request, own_model](const ServedWords& words) {
    return std::make_unique<Service>(other_request(request.service, words, own_model));
  };
  constexpr std::size_t kMostOpen = 4;
  auto shelf = std::make_unique<ModelShelf>(
      std::move(service), ServedWords{own_model, own_views}, models,
      std::vector<std::string>{"zoom", "whole", "native"}, open, kMostOpen);
  options_of_api.page = [&request, &shelf = *shelf](const ServedWords& words, const Service& of) {
    if (!request.service.maps)
      throw UsageError("the page shows maps, and the server was started without", "`method` none");
    return viz::live_page(page_options(request.api.figure, of), offer_of(words, of, shelf));
  };
  ServeApi api(options_of_api, metrics, std::move(shelf));
  HttpServer server(request.server, api);
  if (!server.is_loopback())
    console.note("note: " + server.address() +
                 " can be reached from other machines, without a password");
  std::cout << "http://"
            << (server.address().find(':') == std::string::npos ? server.address()
                                                                : "[" + server.address() + "]")
            << ":" << server.port() << "/\n";
  flush_results(std::cout);
  wait_for_stop();
  console.detail("stopping: what has been asked is answered");
  const bool is_drained = server.drain(request.server.timeout + kSecondsOfAStep);
  server.stop();
  api.close();
  return is_drained ? kExitOk : kExitFailed;
}

}  // namespace hydrascope::app
