// hydrascope serve: the model behind HTTP.
#include "app/command.h"
#include "app/evaluate/evaluate_options.h"
#include "app/run/assets.h"
#include "app/run/console.h"
#include "app/run/signal_stop.h"
#include "app/serve/api.h"
#include "app/serve/http_server.h"
#include "app/session/service.h"
#include "app/specs/requests.h"
#include "app/visualize/visualize_options.h"
#include "kernels/error.h"
#include "viz/live_page/live_page.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <limits>
#include <map>
#include <thread>
#include <utility>

namespace hydrascope::app {
namespace {

/// For a request; with their values in text about 2 MiB of the default size.
constexpr std::int64_t kMostMaps = 1024;

struct ServeRequest {
  ServiceRequest service;
  std::optional<ServiceRequest> against = {};
  HttpServerOptions server = {};
  ListenRequest listen = {};
  FigureOptions figure = {};
};

ServeRequest serve_request(const ParsedOptions& options) {
  ServeRequest request{service_request(options, /*wants_maps=*/true)};
  ServiceRequest& service = request.service;
  service.embeds = !(service.transform.views && service.transform.views->value.are_several);
  // A request that is let in is counted as it comes in.
  service.most_waiting = std::numeric_limits<std::int32_t>::max();
  service.most_maps = kMostMaps;
  if (names_another_model(options) != nullptr) {
    request.against = service;
    request.against->model = reference_request(options, service.model, service.run).model;
    request.against->embeds = false;
  }
  options.fill(request.listen);
  request.server = {.host = request.listen.host,
                    .port = request.listen.port,
                    .max_body_bytes = static_cast<std::size_t>(service.run.decode.max_bytes),
                    .timeout = request.listen.timeout};
  request.figure = figure_options(options);
  return request;
}

/// A request that was let in has an answer within the timeout and a step of its work, which takes less.
constexpr double kSecondsOfAStep = 5;

/// The bytes of all bodies together, unless a single one is larger.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;

ApiOptions api_options(const ServeRequest& request, const Service& service) {
  ApiOptions options;
  options.most_waiting = request.listen.most_waiting.value_or(2 * service.batch_size());
  options.most_bytes = std::max(kMostBytes, request.service.run.decode.max_bytes);
  options.timeout = request.server.timeout;
  options.figure = request.figure;
  options.font = open_font(request.figure.font);
  options.decode = request.service.run.decode;
  return options;
}

viz::ReportOptions page_options(const FigureOptions& figure, const Service& service,
                                const Service* against) {
  viz::ReportOptions page = report_options(figure);
  const InputRecord& run = service.run_facts();
  page.title = "hydrascope: " + service.model_name();
  page.facts = {{"model", service.model_name()},
                {"attention", run.attention},
                {"device", run.device},
                {"precision", run.precision},
                {"transform", service.transform()}};
  if (against == nullptr) return page;
  page.models = {service.model_name(), against->model_name()};
  if (page.models.front() == page.models.back()) {
    page.models.front() += ", " + run.attention;
    page.models.back() += ", " + against->run_facts().attention;
  }
  page.facts.emplace_back("beside", page.models.back());
  return page;
}

/// Asks for what the page shows at first: the last layer of the first map's kind that all models
/// have, of one class. Empty where there is none.
std::map<std::string, std::string> first_query(const Service& service, const Service* against) {
  const MapChoice* first = nullptr;
  for (const MapChoice& choice : service.maps()) {
    const MapChoice& kind = service.maps().front();
    const bool is_in_both =
        against == nullptr || std::ranges::find(against->maps(), choice) != against->maps().end();
    if (is_in_both && choice.method == kind.method && choice.head == kind.head &&
        (first == nullptr || choice.layer > first->layer))
      first = &choice;
  }
  if (first == nullptr) return {};
  return {{"topk", "1"},
          {"method", std::string(model::explain::entry_of(first->method).name)},
          {"layer", std::to_string(first->layer)},
          {"head", to_text(first->head)}};
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
  auto against = request.against ? std::make_unique<Service>(*request.against) : nullptr;
  ApiOptions api_settings = api_options(request, *service);
  std::vector<std::vector<std::int64_t>> patch_layers{service->patch_layers()};
  if (against) patch_layers.push_back(against->patch_layers());
  std::vector<std::string> samples;
  for (const std::filesystem::path file : bundled_images()) {
    samples.push_back(file.filename().string());
    api_settings.samples.emplace(samples.back(), file);
  }
  api_settings.page = viz::live_page(page_options(request.figure, *service, against.get()),
                                     patch_layers, first_query(*service, against.get()), samples);
  ServeApi api(std::move(api_settings), metrics, std::move(service), std::move(against));
  HttpServer server(request.server, api);
  if (!server.is_loopback())
    console.note("note: " + server.address() +
                 " can be reached from other machines, without a password");
  std::cout << "http://"
            << (server.address().find(':') == std::string::npos ? server.address()
                                                                : "[" + server.address() + "]")
            << ":" << server.port() << "/" << std::endl;
  wait_for_stop();
  console.detail("stopping: what has been asked is answered");
  const bool is_drained = server.drain(request.server.timeout + kSecondsOfAStep);
  server.stop();
  api.close();
  return is_drained ? kExitOk : kExitFailed;
}

}  // namespace hydrascope::app
