// The paths of `hydrascope serve`, and what their queries mean.
#pragma once

#include <string>
#include <string_view>

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

}  // namespace hydrascope::app
