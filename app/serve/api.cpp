#include "app/serve/api.h"

#include "app/http/http_text.h"
#include "app/pictures/decoding_workers.h"
#include "app/results/npy_file.h"
#include "app/run/console.h"
#include "viz/page/markup.h"
#include "viz/picture/encode.h"

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
  HttpResponse response = error_response(
      503, {{"code", "busy"}, {"message", "the server has enough to do, try again"}});
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

HttpResponse error_of(const std::exception_ptr& exception) {
  return error_response(as_error(exception));
}

ModelShelf::Refuse refusal_of(const std::function<void(HttpResponse)>& respond) {
  return [respond](const std::exception_ptr& why) { respond(error_of(why)); };
}

/// `explained_json`, or the record with the row of the patch that was asked for, its values in base64 too.
OrderedJson explained_answer(const Answer& answer) {
  if (!answer.patch_row) return explained_json(answer.record, answer.maps);
  OrderedJson object = to_json(answer.record);
  object["patch"] = {
      {"grid", {answer.patch_row->rows, answer.patch_row->columns}},
      {"values", viz::page::base64(std::as_bytes(std::span(answer.patch_row->values)))}};
  return object;
}

/// A .npy file of float32 (rows, columns), or (maps, rows, columns) of several maps. Throws Error(invalid_argument) for
/// maps of several sizes.
std::string explained_array(const Answer& answer) {
  std::vector<const viz::HeatMap*> maps;
  if (answer.patch_row) maps.push_back(&*answer.patch_row);
  for (const InputMap& map : answer.maps) maps.push_back(&map.map);
  const viz::HeatMap& first = *maps.front();
  std::vector<std::int64_t> shape{first.rows, first.columns};
  if (maps.size() > 1) shape.insert(shape.begin(), std::ssize(maps));
  std::string bytes = npy_header(shape);
  for (const viz::HeatMap* map : maps) {
    if (map->rows != first.rows || map->columns != first.columns)
      throw Error(ErrorCode::invalid_argument, "the maps have several sizes", "format=npy");
    const auto values = std::as_bytes(std::span(map->values));
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size());
  }
  return bytes;
}

/// A PNG as `visualize` draws it over the picture. Throws what decoding throws.
std::string explained_picture(const PendingRequest::Picture& asked, const ApiOptions& options) {
  image::Picture picture = decode_bytes(std::as_bytes(std::span(asked.bytes)), options.decode);
  std::vector<ShownMap> shown;
  for (const InputMap& map : asked.answer.maps) shown.push_back(shown_map(map, options.figure));
  const viz::Canvas drawn =
      draw_figure({picture.width, picture.height, std::move(picture.rgb)}, shown, options.figure);
  const std::vector<std::byte> bytes = viz::encode(drawn, viz::ImageFormat::png);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// An embedding, with what the record says of the run.
OrderedJson embedded_json(const Answer& answer) {
  OrderedJson object = to_json(answer.record);
  object.erase("top");
  for (const char* of_the_answer : {"finder", "views"}) object.erase(of_the_answer);
  constexpr int kDigits = 9;  // of a float32, all
  OrderedJson values = OrderedJson::array();
  for (const float value : answer.embedding) values.push_back(rounded(significant(value, kDigits)));
  object["embedding"] = std::move(values);
  return object;
}

}  // namespace

ServeApi::ServeApi(ApiOptions options, ServeMetrics& metrics, std::unique_ptr<ModelShelf> shelf)
    : options_(std::move(options)), metrics_(metrics), shelf_(std::move(shelf)) {
  gauges_.most_waiting = options_.most_waiting;
}

void ServeApi::close() {
  closing_ = true;
  if (shelf_) shelf_->close();
  finishers_.finish();
}

std::optional<HttpResponse> ServeApi::admit(const HttpRequest& head, bool has_body) {
  const RouteEntry* route = find_route_or_null(head.path);
  if (route == nullptr)
    return error_response(404,
                          {{"code", "not_found"}, {"message", "expected one of " + route_names()}});
  if (head.method != route->method && !(head.method == "HEAD" && route->method == "GET")) {
    HttpResponse response = refusal(405, "expected the method " + std::string(route->method));
    response.headers.emplace_back("Allow", std::string(route->method));
    return response;
  }
  if (!route->asks_model)
    return has_body ? std::optional(refusal(413, "expected no body")) : std::nullopt;
  try {
    understood(head);
  } catch (...) {
    return error_of(std::current_exception());
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

void ServeApi::show_page(const HttpRequest& request, std::function<void(HttpResponse)> respond) {
  ServedWords words;
  for (const auto& [name, value] : request.query) {
    if (name == "model") words.model = value;
    if (name == "views") words.views = value;
  }
  const auto show = [this, words, respond](Service& service) {
    respond({.type = "text/html; charset=utf-8",
             .body = options_.page(words, service),
             .headers = {{"Content-Security-Policy", "frame-ancestors 'none'"},
                         {"Referrer-Policy", "no-referrer"},
                         {"Cache-Control", "no-cache"}}});
  };
  shelf_->with(words, show, refusal_of(respond));
}

PendingRequest ServeApi::understood(const HttpRequest& request) const {
  PendingRequest asked = asked_of(request);
  if (shelf_) shelf_->check(asked.served);
  return asked;
}

void ServeApi::answer(HttpRequest request, std::function<void(HttpResponse)> respond) {
  const Route route = find_route_or_null(request.path)->route;
  if (route == Route::page) return show_page(request, std::move(respond));
  if (route == Route::health) return respond({.body = "{\"status\":\"ok\"}\n"});
  std::unique_lock lock(mutex_);
  if (route == Route::metrics) {
    MetricGauges gauges = gauges_;
    lock.unlock();
    const LayersDone layers = shelf_->first().layers_done();
    gauges.layers_done = layers.done;
    gauges.layers = layers.all;
    return respond(
        {.type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics_.text(gauges)});
  }
  const bool has_place = gauges_.waiting < options_.most_waiting;
  if (has_place) ++gauges_.waiting;
  lock.unlock();
  if (!has_place) return respond(busy());
  const auto leave_and_respond = [this, respond](HttpResponse response) {
    {
      const std::lock_guard leaving(mutex_);
      --gauges_.waiting;
    }
    respond(std::move(response));
  };
  try {
    ask(std::move(request), leave_and_respond);
  } catch (...) {
    leave_and_respond(error_of(std::current_exception()));
  }
}

void ServeApi::ask(HttpRequest request, std::function<void(HttpResponse)> respond) {
  if (const std::string coding = lower_text(request.header("content-encoding"));
      !coding.empty() && coding != "identity")
    throw Error(ErrorCode::unsupported_format, "expected a body that is not compressed",
                "Content-Encoding: " + coding);
  const std::string& type = request.header("content-type");
  const std::optional<std::string> boundary = form_boundary(type);
  const auto body = std::make_shared<const std::string>(std::move(request.body));
  std::vector<PendingRequest::Picture> pictures;
  if (boundary) {
    for (const FormPart& part : parse_form(*body, *boundary, kMostPictures + kMostFields)) {
      if (!part.is_file && image::probe(std::as_bytes(std::span(part.content))).format.empty())
        request.query.emplace_back(part.name, part.content);
      else
        pictures.push_back(
            {part.content, part.filename.empty() ? part.name : part.filename, part.type});
    }
  }
  const auto asked = std::make_shared<PendingRequest>(understood(request));
  if (!boundary) pictures.push_back({*body, asked->question.name, media_type(type)});
  const std::size_t count = pictures.size();
  if (count > kMostPictures)
    throw Error(ErrorCode::invalid_argument,
                "expected at most " + std::to_string(kMostPictures) + " pictures",
                std::to_string(count) + " parts");
  if (count == 0 || (count > 1 && asked->route != Route::classify))
    throw Error(ErrorCode::invalid_argument, "expected one picture",
                std::to_string(count) + " parts");
  asked->is_form = boundary.has_value();
  asked->body = body;
  asked->pictures = std::move(pictures);
  asked->missing = count;
  asked->respond = std::move(respond);
  asked->question.deadline =
      SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(
                               std::chrono::duration<double>(options_.timeout));
  asked->question.given_up = [this, gone = request.gone] { return closing_ || (gone && *gone); };
  shelf_->with(
      asked->served, [this, asked](Service& service) { ask_of(service, asked); },
      refusal_of(asked->respond));
}

/// A question that is refused throws. The first one, of which the others are copies but for the
/// picture, tells for all.
void ServeApi::ask_of(Service& service, const std::shared_ptr<PendingRequest>& asked) {
  for (PendingRequest::Picture& picture : asked->pictures) {
    Question question = asked->question;
    question.name = picture.name;
    question.picture =
        PictureInMemory{.encoded = std::as_bytes(std::span(picture.bytes)), .owner = asked->body};
    // On the service's thread, one after the other.
    const auto done = [this, asked, &picture](Answer answer) {
      std::optional<ErrorCode>& error = answer.record.error;
      metrics_.picture(error.has_value());
      if (auto complaint =
              error ? complaint_about(picture.bytes, picture.type, *error) : std::nullopt) {
        answer.record.message = *std::move(complaint);
        if (error == ErrorCode::decode_failed) error = ErrorCode::unsupported_format;
      }
      picture.answer = std::move(answer);
      if (--asked->missing == 0)
        finishers_.submit([this, asked] {
          asked->respond(response_to(*asked));
          return OrderedWorkers::Second();
        });
    };
    service.ask(std::move(question), done);
  }
}

HttpResponse ServeApi::response_to(const PendingRequest& asked) const {
  const Answer& answer = asked.pictures.front().answer;
  const std::optional<ErrorCode>& error = answer.record.error;
  HttpResponse response;
  try {
    if (error == ErrorCode::invalid_argument)  // of the question, not of the picture
      throw Error(ErrorCode::invalid_argument, answer.record.message);
    if (error && !asked.is_form) {
      response.status = status_of(*error);
      if (error == ErrorCode::failed && asked.question.given_up())
        response.status = 503;
      else if (error == ErrorCode::failed && SteadyClock::now() > *asked.question.deadline)
        response.status = 504;
      if (response.status == 503) response.headers.emplace_back("Retry-After", "1");
    }
    if (asked.format == "text") {
      response.type = "text/plain; charset=utf-8";
      for (const PendingRequest::Picture& one : asked.pictures)
        response.body += to_text(one.answer.record, asked.label_type, /*color=*/false);
    } else if (error || asked.route == Route::classify) {
      if (asked.is_form) response.type = "application/x-ndjson";
      for (const PendingRequest::Picture& one : asked.pictures)
        response.body += json_text(to_json(one.answer.record)) + "\n";
    } else if (asked.format == "npy") {
      response.type = "application/x-npy";
      response.body = explained_array(answer);
    } else if (asked.format == "png") {
      response.type = "image/png";
      response.body = explained_picture(asked.pictures.front(), options_);
    } else {
      const bool embeds = asked.route == Route::embed;
      response.body = json_text(embeds ? embedded_json(answer) : explained_answer(answer)) + "\n";
    }
  } catch (...) {
    response = error_of(std::current_exception());
  }
  return response;
}

HttpResponse ServeApi::refusal(int status, const std::string& message) {
  return error_response(
      status, {{"code", status == 413 ? "too_large" : "invalid_argument"}, {"message", message}});
}

void ServeApi::note(const HttpRequest& head, const HttpResponse& response,
                    double seconds) noexcept {
  const RouteEntry* route = find_route_or_null(head.path);
  metrics_.request(route == nullptr ? "other" : std::string(route->path), response.status, seconds);
}

}  // namespace hydrascope::app
