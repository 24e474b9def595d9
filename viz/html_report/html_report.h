// One self-contained page over any number of pictures, one of them shown at a time, with a map over
// it whose method, layer, head, class, sign, colours and opacity are chosen in the page; with two
// models a map of each. No network; pictures and maps lie in the file. Pictures are written as they
// come, so memory does not grow with their number. A picture's maps are what the server answers of it.
//
// The page's own files: html_report/. The common files of all pages: viz/page. Maps lie there as
// base64 of their float32 values, so that what the page offers for download is what was computed.
// Pictures are shrunk to 800 pixels and some 60 kB, where maps are finer than 40 cells to 1600 and
// 240 kB, than 100 cells to 3200 and 960 kB, which can be zoomed into. Names, labels and notes may hold any bytes. Without scripts the page still shows pictures
// and predictions.
//
// A value of a map takes 5.3 bytes of the page and a map's record 0.6 kB: 36 maps of 14 x 14 cells 60 kB,
// of 68 x 120 cells 1.6 MB per picture.
// Test: tests/viz/html_report/, in a browser tests/viz/browser/.
#pragma once

#include "viz/heat/heat_map.h"
#include "viz/picture/canvas.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::viz {

struct ReportPicture {
  std::string name;  ///< as given; any bytes
  Canvas picture;    ///< its own size; the page holds a smaller one
  /// JSON of what `POST /v1/explain` answers of it (docs/serve.md), one map at least; the second model's is in
  /// its `against`. Shown at first: method, class and head of the first map, at their last layer.
  std::string answer;
  std::vector<std::string> top;  ///< its best classes, for readers without scripts
  std::int64_t finest_grid = 0;  ///< the most cells of a map along an edge
};

/// A picture's part of the page, as markup.
struct PreparedPicture {
  std::string name;
  std::string content;
};

/// Instead of a picture that could not be read.
struct ReportFailure {
  std::string name;
  std::string message;
};

struct ReportOptions {
  std::string title;
  std::vector<std::pair<std::string, std::string>> facts;  ///< of the run: model, attention, ...
  std::vector<std::string> models = {};                    ///< their names, where there are two

  // Chosen at first. Empty names: the defaults of colormap.h.
  std::string colormap;         ///< of maps drawn with one sign
  std::string signed_colormap;  ///< of signed maps drawn with both
  double alpha = 0.8;
  double split = 0;  ///< 0..1 of the width shows the picture without heat
  Sign sign = Sign::positive;
};

class HtmlReport {
 public:
  /// Writes under a temporary name beside `file`. Throws Error(unwritable), and
  /// Error(invalid_argument) for a colour map that does not exist.
  HtmlReport(const std::filesystem::path& file, ReportOptions options);
  ~HtmlReport();  ///< without `finish` nothing is left
  HtmlReport(const HtmlReport&) = delete;
  HtmlReport& operator=(const HtmlReport&) = delete;

  /// The slow part: shrinks and encodes. On any thread, also while another one adds.
  [[nodiscard]] PreparedPicture prepare(const ReportPicture& picture) const;

  // The others one at a time. All throw Error(unwritable) if writing fails, and from then on.
  void add(const PreparedPicture& picture);
  void add(const ReportFailure& failure);
  void finish();  ///< gives the file its name

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydrascope::viz
