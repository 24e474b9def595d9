// The routes of `hydrascope serve`: what is asked over HTTP becomes questions of a service, and its
// answers the records that the commands write. docs/serve.md is its reference.
#pragma once

#include "app/http/metrics.h"
#include "app/serve/http_server.h"
#include "app/serve/model_shelf.h"
#include "app/serve/task_threads.h"
#include "app/session/service.h"
#include "app/visualize/heat_figure.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace hydrascope::app {

struct ApiOptions {
  std::int64_t most_waiting = 16;  ///< requests that are let in and not answered
  std::int64_t most_bytes = 0;     ///< of all bodies together, as far as they have come
  double timeout = 60;             ///< seconds from the end of a body to its answer
  FigureOptions figure;
  image::DecodeOptions decode;  ///< of pictures that are drawn on
  /// The page "/" of a service.
  std::function<std::string(const ServedWords&, const Service&)> page;
};

/// The question of a request, its words understood.
struct AskedOf {
  Question question;
  std::string format;  ///< "json", "text", "png", "npy"
  LabelType label_type = LabelType::name;
  ServedWords served = {};
};

class ServeApi final : public HttpHandler {
 public:
  /// `shelf` may be null.
  ServeApi(ApiOptions options, ServeMetrics& metrics, std::unique_ptr<ModelShelf> shelf);
  ~ServeApi() override;

  std::optional<HttpResponse> admit(const HttpRequest& head, bool has_body) override;
  std::optional<HttpResponse> hold(std::uint64_t bytes) override;
  void release(std::uint64_t bytes) noexcept override;
  void answer(HttpRequest request, std::function<void(HttpResponse)> respond) override;
  HttpResponse refusal(int status, const std::string& message) override;
  void note(const HttpRequest& head, const HttpResponse& response,
            double seconds) noexcept override;

  /// Gives up what has been asked, and answers nothing more: before the server goes.
  void close();

 private:
  struct Exchange;
  /// Takes a place among those that are let in; false where there is none.
  bool enter();
  void leave() noexcept;
  void show_page(const HttpRequest& request, std::function<void(HttpResponse)> respond);
  /// `asked_of`, of what this server has.
  AskedOf understood(const HttpRequest& request) const;
  void ask(HttpRequest request, std::function<void(HttpResponse)> respond);
  void ask_of(Service& service, const std::shared_ptr<Exchange>& exchange, Question question,
              std::size_t picture, Answer& place);
  void finish(Exchange& exchange);

  ApiOptions options_;
  ServeMetrics& metrics_;
  std::unique_ptr<ModelShelf> shelf_;
  std::mutex mutex_;
  MetricGauges gauges_;  // guarded
  std::atomic<bool> closing_ = false;
  std::optional<TaskThreads> tasks_;
};

/// The question of a request that is let in. Throws Error(invalid_argument) for words that mean nothing.
AskedOf asked_of(const HttpRequest& request);
/// As HTTP has it: 400 for a picture that is broken, 413 for one that is too large, ...
int status_of(ErrorCode code);
/// {"schema":1,"error":{"code":..,"field":..,"subject":..,"message":..,"hint":..}}; empty ones are left out.
HttpResponse error_response(const Error& error);
HttpResponse error_response(int status, std::string_view code, const std::string& message);

}  // namespace hydrascope::app
