// The answers of `hydrascope serve`: what is asked over HTTP becomes questions of a service, and its
// answers the records that the commands write. docs/serve.md is its reference.
#pragma once

#include "app/http/metrics.h"
#include "app/run/ordered_workers.h"
#include "app/serve/routes.h"
#include "app/visualize/heat_figure.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
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

/// Asked by threads of the server, several at a time.
class ServeApi {
 public:
  /// `shelf` may be null.
  ServeApi(ApiOptions options, ServeMetrics& metrics, std::unique_ptr<ModelShelf> shelf);
  ServeApi(const ServeApi&) = delete;
  ServeApi& operator=(const ServeApi&) = delete;
  ~ServeApi() { close(); }

  /// Before the body of a request is read: what refuses it, or nothing.
  std::optional<HttpResponse> admit(const HttpRequest& head, bool has_body);
  /// So many bytes of a body have come: what refuses them, or nothing. They count until `release`.
  std::optional<HttpResponse> hold(std::uint64_t bytes);
  /// The share that `hold` let in.
  void release(std::uint64_t bytes) noexcept;
  /// `respond` is called once, on any thread, perhaps after this returned.
  void answer(HttpRequest request, std::function<void(HttpResponse)> respond);
  /// The response to a request that HTTP itself has something against.
  static HttpResponse refusal(int status, const std::string& message);
  /// Called for every response, as it is sent; `seconds` after the request's header was read.
  void note(const HttpRequest& head, const HttpResponse& response, double seconds) noexcept;

  /// Gives up what has been asked, and answers nothing more: before the server goes.
  void close();

 private:
  void show_page(const HttpRequest& request, std::function<void(HttpResponse)> respond);
  /// `asked_of`, of what this server has.
  PendingRequest understood(const HttpRequest& request) const;
  void ask(HttpRequest request, std::function<void(HttpResponse)> respond);
  void ask_of(Service& service, const std::shared_ptr<PendingRequest>& asked);
  [[nodiscard]] HttpResponse response_to(const PendingRequest& asked) const;

  ApiOptions options_;
  ServeMetrics& metrics_;
  std::unique_ptr<ModelShelf> shelf_;
  std::mutex mutex_;
  MetricGauges gauges_;  // guarded
  std::atomic<bool> closing_ = false;
  /// Draws and encodes what the model has answered. Nothing waits for a place.
  OrderedWorkers finishers_{2, std::numeric_limits<std::int64_t>::max()};
};

}  // namespace hydrascope::app
