#include "app/serve/routes.h"

#include "app/http/http_text.h"
#include "app/results/json.h"
#include "app/run/console.h"
#include "app/run/words.h"
#include "kernels/error.h"
#include "kernels/number_text.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace hydrascope::app {
namespace {

/// For one picture, because each takes about as long as the model itself.
constexpr std::int64_t kMostClasses = 20;

constexpr std::array<RouteEntry, 6> kRoutes{{
    {Route::page, "/", "GET", false},
    {Route::health, "/healthz", "GET", false},
    {Route::metrics, "/metrics", "GET", false},
    {Route::classify, "/v1/classify", "POST", true},
    {Route::explain, "/v1/explain", "POST", true},
    {Route::embed, "/v1/embed", "POST", true},
}};

/// `name` is the request's own, hence any text.
[[noreturn]] void refuse_parameter(const std::string& what, const std::string& name) {
  throw Error(ErrorCode::invalid_argument, what, is_field(name) ? option_named(name) : name);
}

std::int64_t parameter_number(const std::string& name, const std::string& text,
                              std::int64_t least) {
  const std::optional value = parse_number<std::int64_t>(text);
  if (!value || *value < least)
    refuse_parameter(
        "expected a number from " + std::to_string(least) + " on, found '" + text + "'", name);
  return *value;
}

std::vector<std::string> parameter_words(const std::string& text) {
  std::vector<std::string> list;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    if (end > at) list.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return list;
}

struct FormatEntry {
  std::string_view name;
  std::string_view type;
};
constexpr FormatEntry kJson{"json", "application/json"};

std::vector<FormatEntry> formats_of(Route route) {
  if (route == Route::classify) return {kJson, {"text", "text/plain"}};
  if (route == Route::embed) return {kJson};
  return {kJson, {"npy", "application/x-npy"}, {"png", "image/png"}};
}

/// The format that is asked for by name, or else by Accept.
std::string chosen_format(const std::optional<std::string>& named, const std::string& accept,
                          Route route) {
  std::vector<std::string> names;
  std::vector<std::string_view> types;
  for (const FormatEntry& entry : formats_of(route)) {
    names.emplace_back(entry.name);
    types.push_back(entry.type);
  }
  if (named && std::ranges::find(names, *named) == names.end())
    refuse_parameter(
        "expected one of " + join_words(names, ", ", ", ") + ", found '" + *named + "'", "format");
  if (named) return *named;
  const auto found = std::ranges::find(types, accepted_type(accept, types));
  return names.at(static_cast<std::size_t>(found - types.begin()));
}

/// `set=label-type=id` is `label_type=id`: the key that belongs to an answer. All others belong to the server's model.
std::pair<std::string, std::string> without_set(std::pair<std::string, std::string> parameter) {
  auto& [name, value] = parameter;
  if (name != "set") return parameter;
  const std::size_t equals = std::min(value.find('='), value.size());
  std::string key = value.substr(0, equals);
  std::ranges::replace(key, '-', '_');
  if (key != "label_type" && key != "run.label_type")
    refuse_parameter("is set where the server starts: hydrascope serve --set KEY=VALUE",
                     "set=" + value.substr(0, std::min<std::size_t>(equals, 100)));
  return {"label_type", value.substr(std::min(equals + 1, value.size()))};
}

}  // namespace

const RouteEntry* find_route_or_null(std::string_view path) {
  const auto found = std::ranges::find(kRoutes, path, &RouteEntry::path);
  return found == kRoutes.end() ? nullptr : &*found;
}

std::string route_names() {
  std::vector<std::string> names;
  for (const RouteEntry& entry : kRoutes) names.emplace_back(entry.path);
  return join_words(names, ", ", ", ");
}

PendingRequest asked_of(const HttpRequest& request) {
  PendingRequest asked{.route = find_route_or_null(request.path)->route};
  asked.question.name = "picture";
  std::optional<std::string> format;
  MapQuestion maps;
  std::vector<std::string> patch;
  const std::map<std::string, std::vector<std::string>*> lists{{"method", &maps.words.methods},
                                                               {"layer", &maps.words.layers},
                                                               {"head", &maps.words.heads},
                                                               {"patch", &patch}};
  const bool classifies = asked.route == Route::classify;
  const bool explains = asked.route == Route::explain;
  for (const auto& parameter : request.query) {
    const auto [name, value] = without_set(parameter);
    if (name == "name") {
      asked.question.name = value;
    } else if (name == "format") {
      format = value;
    } else if (name == "model" && (classifies || explains)) {
      asked.served.model = value;
    } else if (name == "views" && (classifies || explains)) {
      asked.served.views = value;
    } else if (name == "topk" && classifies) {
      asked.question.topk = parameter_number(name, value, 1);
    } else if (name == "label_type" && classifies) {
      if (value != "name" && value != "id" && value != "index")
        refuse_parameter("expected one of name, id, index, found '" + value + "'", name);
      asked.label_type = parse_label_type(value);
    } else if (name == "topk" && explains) {
      maps.topk = parameter_number(name, value, 1);
    } else if (name == "class" && explains) {
      maps.classes.push_back(value);
    } else if (const auto list = lists.find(name); list != lists.end() && explains) {
      *list->second = parameter_words(value);
    } else {
      const bool is_form = media_type(request.header("content-type")) == "multipart/form-data";
      refuse_parameter((name.empty() ? "a parameter of " + request.path + " has no name"
                                     : "is no parameter of " + request.path) +
                           (is_form ? ", and a picture's part has a file name: curl -F "
                                      "picture=@photo.jpg"
                                    : ""),
                       name.substr(0, 100));
    }
  }
  asked.format = chosen_format(format, request.header("accept"), asked.route);
  const std::int64_t most_named = kMostClasses - maps.topk.value_or(0);
  if (std::ssize(maps.classes) > most_named)
    refuse_parameter("expected at most " + std::to_string(kMostClasses) + " classes of a picture",
                     maps.topk ? "topk" : "class");
  if (!patch.empty() && asked.format == "png")
    refuse_parameter("expected json or npy, which have the row of a patch", "format");
  if (!patch.empty()) {
    const std::vector<std::string>& layers = maps.words.layers;
    if (patch.size() != 2 || layers.size() != 1)
      refuse_parameter("expected patch=ROW,COLUMN and layer=N", "patch");
    if (!maps.classes.empty() || !maps.words.methods.empty() || !maps.words.heads.empty() ||
        maps.topk)
      refuse_parameter("goes with layer, format and name alone", "patch");
    asked.question.patch = {parameter_number("layer", layers.front(), 0),
                            parameter_number("patch", patch[0], 0),
                            parameter_number("patch", patch[1], 0)};
  } else if (explains) {
    asked.question.maps = std::move(maps);
  }
  asked.question.embeds = asked.route == Route::embed;
  return asked;
}

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::decode_failed:
    case ErrorCode::empty:
    case ErrorCode::invalid_argument: return 400;
    case ErrorCode::not_found: return 404;
    case ErrorCode::too_large: return 413;
    case ErrorCode::unsupported_format: return 415;
    case ErrorCode::out_of_memory: return 503;
    default: return 500;
  }
}

HttpResponse error_response(int status, OrderedJson error) {
  const OrderedJson object{{"schema", 1}, {"error", std::move(error)}};
  return {.status = status, .body = json_text(object) + "\n"};
}

HttpResponse error_response(const Error& error) {
  const bool is_askers = error.code() == ErrorCode::invalid_argument;
  const Spelling spelling = is_askers ? Spelling::names : Spelling::flags;
  OrderedJson object{{"code", name(error.code())}};
  const auto add = [&](const char* key, const std::string& text) {
    if (!text.empty()) object[key] = text;
  };
  add("field", error.field());
  add("subject", error.subject());
  add("message", error_line(error, spelling));
  add("hint", spelled(error.hint(), spelling));
  return error_response(status_of(error.code()), std::move(object));
}

}  // namespace hydrascope::app
