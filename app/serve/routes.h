// The paths of `hydrascope serve`, the meaning of their queries, and errors as responses.
#pragma once

#include "app/results/classify_record.h"
#include "app/results/json.h"
#include "app/serve/http_server.h"
#include "app/serve/model_shelf.h"
#include "app/session/service.h"
#include "kernels/error.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {

enum class Route { page, health, metrics, classify, explain, embed };

struct RouteEntry {
  Route route;
  std::string_view path;
  std::string_view method;
  bool asks_model;
};
const RouteEntry* find_route_or_null(std::string_view path);
std::string route_names();

/// A request to a model, then its pictures and their answers.
struct PendingRequest {
  struct Picture {
    std::string_view bytes;  ///< a part of the body
    std::string name = {};
    std::string type = {};  ///< as its sender calls it: a media type, may be ""
    Answer answer = {};
  };

  Route route;
  Question question = {};   ///< but for the picture
  std::string format = {};  ///< "json", "text", "png", "npy"
  LabelType label_type = LabelType::name;
  ServedWords served = {};
  bool is_form = false;
  std::shared_ptr<const std::string> body = {};
  std::vector<Picture> pictures = {};
  std::size_t missing = 0;  ///< answers
  std::function<void(HttpResponse)> respond = {};
};
/// The meaning of a request that is let in, by its query. Throws Error(invalid_argument) for words that mean nothing.
PendingRequest asked_of(const HttpRequest& request);

/// As HTTP has it: 400 for a picture that is broken, 413 for one that is too large, ...
int status_of(ErrorCode code);
/// {"schema":1,"error":{"code":..,"field":..,"subject":..,"message":..,"hint":..}}; empty ones are left out.
HttpResponse error_response(const Error& error);
HttpResponse error_response(int status, OrderedJson error);

}  // namespace hydrascope::app
