// One self-contained page over any number of pictures: each with a map over it whose method, layer,
// head, class, colours and opacity are chosen in the page. No network; pictures and maps lie in the
// file. Pictures are written as they come, so memory does not grow with their number.
#pragma once

#include "viz/canvas.h"
#include "viz/heat_map.h"
#include "viz/placement.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::viz {

struct ReportPrediction {
  std::int64_t index = 0;
  std::string label;
  double probability = 0;  ///< 0..1
};

struct ReportMap {
  std::string method;
  std::int64_t layer = 0;
  std::string head;                         ///< "mean", "max", or a number
  std::optional<std::int64_t> class_index;  ///< none: the same for all classes
  HeatMap map;                              ///< raw
  bool is_signed = false;
  double own_share = 0;  ///< of the class token
  std::string note;
};

struct ReportPicture {
  std::string name;  ///< as given; any bytes
  Canvas picture;    ///< its own size; the page holds a smaller one
  Placement placement;
  std::vector<ReportPrediction> top;
  std::vector<std::pair<std::string, std::string>> facts;  ///< "size" -> "1920 x 1080"
  std::vector<ReportMap> maps;
};

/// Instead of a picture that could not be read.
struct ReportFailure {
  std::string name;
  std::string message;
};

struct ReportOptions {
  std::string title;
  std::vector<std::pair<std::string, std::string>> facts;  ///< of the run: model, attention, ...
  std::string colormap;                                    ///< chosen at first, for positive maps
  std::string diverging_colormap;                          ///< for signed ones
  double alpha = 0.5;
  int longest_edge = 960;  ///< of pictures in the page
  int quality = 82;
};

class HtmlReport {
 public:
  /// Writes under a temporary name beside `file`. Throws Error(unreadable).
  HtmlReport(std::filesystem::path file, ReportOptions options);
  ~HtmlReport();  ///< without `finish` nothing is left
  HtmlReport(const HtmlReport&) = delete;
  HtmlReport& operator=(const HtmlReport&) = delete;

  void add(const ReportPicture& picture);
  void add(const ReportFailure& failure);
  /// Renames it. Throws Error(unreadable).
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydrascope::viz
