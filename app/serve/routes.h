// The paths of `hydrascope serve`, and what their queries mean.
#pragma once

#include <string>
#include <string_view>

namespace hydrascope::app {

enum class Route { page, health, metrics, sample, progress, classify, explain, embed };

/// Bundled pictures lie below it, by their names.
inline constexpr std::string_view kSamples = "/samples/";
/// The way of a request's work lies below it, by the word that the request gave.
inline constexpr std::string_view kProgress = "/v1/progress/";

struct RouteEntry {
  Route route;
  std::string_view path;
  std::string_view method;
  bool asks_model;
};
/// By its whole path; of a sample and of progress by its beginning.
const RouteEntry* find_route_or_null(std::string_view path);
std::string route_names();

}  // namespace hydrascope::app
