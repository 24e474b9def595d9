#include "app/serve/api.h"

#include "app/http/body_kind.h"
#include "app/http/http_text.h"
#include "app/results/json.h"
#include "app/run/console.h"
#include "app/serve/explained.h"
#include "app/serve/routes.h"
#include "kernels/error.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <span>
#include <utility>

namespace hydrascope::app {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kMostPictures = 64;  ///< of one request
constexpr std::size_t kMostFields = 16;    ///< of its form, beside them

HttpResponse busy() {
  HttpResponse response = error_response(503, "busy", "the server has enough to do, try again");
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

HttpResponse response_to(const std::exception_ptr& exception) {
  return error_response(as_error(exception));
}

ModelShelf::Refuse refusal_of(const std::function<void(HttpResponse)>& respond) {
  return [respond](const std::exception_ptr& why) { respond(response_to(why)); };
}

}  // namespace

/// A request on its way through the model.
struct ServeApi::Exchange {
  AskedOf asked;
  Route route;
  bool is_form = false;
  std::shared_ptr<const std::string> body;  ///< which the pictures are parts of
  std::vector<std::string_view> pictures;
  std::vector<std::string> names;  ///< of the pictures
  std::vector<std::string> types;  ///< what their sender calls them: media types, may be ""
  SteadyClock::time_point deadline;
  std::function<bool()> given_up;
  std::function<void(HttpResponse)> respond;
  std::vector<Answer> answers;  ///< of the pictures
  std::atomic<std::size_t> missing;
};

ServeApi::ServeApi(ApiOptions options, ServeMetrics& metrics, std::unique_ptr<ModelShelf> shelf)
    : options_(std::move(options)), metrics_(metrics), shelf_(std::move(shelf)) {
  constexpr int kThreads = 2;
  gauges_.most_waiting = options_.most_waiting;
  tasks_.emplace(kThreads);
}

ServeApi::~ServeApi() { close(); }

void ServeApi::close() {
  closing_ = true;
  if (shelf_) shelf_->close();
  tasks_.reset();
}

std::optional<HttpResponse> ServeApi::admit(const HttpRequest& head, bool has_body) {
  const RouteEntry* route = find_route_or_null(head.path);
  if (route == nullptr) return error_response(404, "not_found", "expected one of " + route_names());
  if (head.method != route->method && !(head.method == "HEAD" && route->method == "GET")) {
    HttpResponse response = error_response(405, "invalid_argument",
                                           "expected the method " + std::string(route->method));
    response.headers.emplace_back("Allow", std::string(route->method));
    return response;
  }
  if (!route->asks_model) {
    if (has_body) return error_response(413, "too_large", "expected no body");
    return std::nullopt;
  }
  try {
    understood(head);
  } catch (...) {
    return response_to(std::current_exception());
  }
  // A body that will find no place need not come; it takes its place when all of it is there.
  const std::lock_guard lock(mutex_);
  return gauges_.waiting >= options_.most_waiting ? std::optional(busy()) : std::nullopt;
}

std::optional<HttpResponse> ServeApi::hold(std::uint64_t bytes) {
  const auto size = static_cast<std::int64_t>(bytes);
  const std::lock_guard lock(mutex_);
  if (gauges_.held_bytes + size > options_.most_bytes) return busy();
  gauges_.held_bytes += size;
  return std::nullopt;
}

void ServeApi::release(std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  gauges_.held_bytes -= static_cast<std::int64_t>(bytes);
}

bool ServeApi::enter() {
  const std::lock_guard lock(mutex_);
  if (gauges_.waiting >= options_.most_waiting) return false;
  ++gauges_.waiting;
  return true;
}

void ServeApi::leave() noexcept {
  const std::lock_guard lock(mutex_);
  --gauges_.waiting;
}

void ServeApi::show_page(const HttpRequest& request, std::function<void(HttpResponse)> respond) {
  ServedWords words;
  for (const auto& [name, value] : request.query) {
    if (name == "model") words.model = value;
    if (name == "views") words.views = value;
  }
  const auto show = [this, words, respond](Service& service) {
    HttpResponse response;
    response.type = "text/html; charset=utf-8";
    response.body = options_.page(words, service);
    response.headers = {{"Content-Security-Policy", "frame-ancestors 'none'"},
                        {"Referrer-Policy", "no-referrer"},
                        {"Cache-Control", "no-cache"}};
    respond(std::move(response));
  };
  shelf_->with(words, show, refusal_of(respond));
}

AskedOf ServeApi::understood(const HttpRequest& request) const {
  AskedOf asked = asked_of(request);
  if (shelf_) shelf_->check(asked.served);
  return asked;
}

void ServeApi::answer(HttpRequest request, std::function<void(HttpResponse)> respond) {
  const RouteEntry& route = *find_route_or_null(request.path);
  if (route.asks_model) {
    if (!enter()) return respond(busy());
    const auto leave_and_respond = [this, respond](HttpResponse response) {
      leave();
      respond(std::move(response));
    };
    try {
      ask(std::move(request), leave_and_respond);
    } catch (...) {
      leave_and_respond(response_to(std::current_exception()));
    }
    return;
  }
  HttpResponse response;
  if (route.route == Route::metrics) {
    response.type = "text/plain; version=0.0.4; charset=utf-8";
    MetricGauges gauges;
    {
      const std::lock_guard lock(mutex_);
      gauges = gauges_;
    }
    const LayersDone layers = shelf_->first().layers_done();
    gauges.layers_done = layers.done;
    gauges.layers = layers.all;
    response.body = metrics_.text(gauges);
  } else if (route.route == Route::page) {
    return show_page(request, std::move(respond));
  } else {
    response.body = "{\"status\":\"ok\"}\n";
  }
  respond(std::move(response));
}

void ServeApi::ask(HttpRequest request, std::function<void(HttpResponse)> respond) {
  const auto exchange = std::make_shared<Exchange>();
  exchange->route = find_route_or_null(request.path)->route;
  if (const std::string coding = lower_text(request.header("content-encoding"));
      !coding.empty() && coding != "identity")
    throw Error(ErrorCode::unsupported_format, "expected a body that is not compressed",
                "Content-Encoding: " + coding);
  const std::string& type = request.header("content-type");
  const std::optional<std::string> boundary = form_boundary(type);
  exchange->body = std::make_shared<const std::string>(std::move(request.body));
  std::vector<std::string>& names = exchange->names;
  if (boundary) {
    exchange->is_form = true;
    for (const FormPart& part :
         parse_form(*exchange->body, *boundary, kMostPictures + kMostFields)) {
      if (!part.is_file && image::probe(std::as_bytes(std::span(part.content))).format.empty()) {
        request.query.emplace_back(part.name, part.content);
        continue;
      }
      exchange->pictures.push_back(part.content);
      exchange->types.push_back(part.type);
      names.push_back(part.filename.empty() ? part.name : part.filename);
    }
  }
  exchange->asked = understood(request);
  if (!boundary) {
    exchange->pictures.emplace_back(*exchange->body);
    exchange->types.push_back(media_type(type));
    names.push_back(exchange->asked.question.name);
  }
  const std::size_t count = exchange->pictures.size();
  if (count > kMostPictures)
    throw Error(ErrorCode::invalid_argument,
                "expected at most " + std::to_string(kMostPictures) + " pictures",
                std::to_string(count) + " parts");
  if (count == 0 || (count > 1 && exchange->route != Route::classify))
    throw Error(ErrorCode::invalid_argument, "expected one picture",
                std::to_string(count) + " parts");
  exchange->respond = std::move(respond);
  exchange->answers.resize(count);
  exchange->missing = count;
  exchange->deadline = SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(
                                                std::chrono::duration<double>(options_.timeout));
  exchange->given_up = [this, gone = request.gone] { return closing_ || (gone && *gone); };
  // A question that is refused throws. The first one, of which the others are copies but for the
  // picture, tells for all.
  const auto ask_all = [this, exchange, count](Service& service) {
    for (std::size_t i = 0; i < count; ++i)
      ask_of(service, exchange, exchange->asked.question, i, exchange->answers[i]);
  };
  shelf_->with(exchange->asked.served, ask_all, refusal_of(exchange->respond));
}

void ServeApi::ask_of(Service& service, const std::shared_ptr<Exchange>& exchange,
                      Question question, std::size_t picture, Answer& place) {
  question.name = exchange->names[picture];
  question.picture = PictureInMemory{
      .encoded = std::as_bytes(std::span(exchange->pictures[picture])), .owner = exchange->body};
  question.deadline = exchange->deadline;
  question.given_up = exchange->given_up;
  const auto done = [this, exchange, picture, &place](Answer answer) {
    metrics_.picture(answer.record.error.has_value());
    if (std::optional<ErrorCode>& error = answer.record.error) {
      if (auto complaint =
              complaint_about(exchange->pictures[picture], exchange->types[picture], *error)) {
        answer.record.message = *std::move(complaint);
        if (error == ErrorCode::decode_failed) error = ErrorCode::unsupported_format;
      }
    }
    place = std::move(answer);
    if (--exchange->missing == 0) tasks_->add([this, exchange] { finish(*exchange); });
  };
  if (!service.try_ask(std::move(question), done))
    throw Error(ErrorCode::out_of_memory, "the service has no place");
}

void ServeApi::finish(Exchange& exchange) {
  const std::string& format = exchange.asked.format;
  const LabelType label_type = exchange.asked.label_type;
  const Answer& answer = exchange.answers.front();
  HttpResponse response;
  try {
    const bool failed = answer.record.error.has_value();
    if (answer.record.error == ErrorCode::invalid_argument)  // of the question, not of the picture
      throw Error(ErrorCode::invalid_argument, answer.record.message);
    if (failed && !exchange.is_form) {
      response.status = status_of(*answer.record.error);
      if (answer.record.error == ErrorCode::failed && exchange.given_up())
        response.status = 503;
      else if (answer.record.error == ErrorCode::failed && SteadyClock::now() > exchange.deadline)
        response.status = 504;
      if (response.status == 503) response.headers.emplace_back("Retry-After", "1");
    }
    if (format == "text") {
      response.type = "text/plain; charset=utf-8";
      for (const Answer& one : exchange.answers)
        response.body += to_text(one.record, label_type, /*color=*/false);
    } else if (failed || exchange.route == Route::classify) {
      if (exchange.is_form) response.type = "application/x-ndjson";
      for (const Answer& one : exchange.answers)
        response.body += json_text(to_json(one.record)) + "\n";
    } else if (format == "npy") {
      response.type = "application/x-npy";
      response.body = explained_array(answer);
    } else if (format == "png") {
      response.type = "image/png";
      response.body = explained_picture(answer, std::as_bytes(std::span(exchange.pictures.front())),
                                        options_.decode, options_.figure);
    } else {
      response.body = json_text(exchange.route == Route::embed ? embedded_json(answer)
                                                               : answered_json(answer)) +
                      "\n";
    }
  } catch (...) {
    response = response_to(std::current_exception());
  }
  exchange.respond(std::move(response));
}

HttpResponse ServeApi::refusal(int status, const std::string& message) {
  return error_response(status, status == 413 ? "too_large" : "invalid_argument", message);
}

void ServeApi::note(const HttpRequest& head, const HttpResponse& response,
                    double seconds) noexcept {
  const RouteEntry* route = find_route_or_null(head.path);
  metrics_.request(route == nullptr ? "other" : std::string(route->path), response.status, seconds);
}

}  // namespace hydrascope::app
