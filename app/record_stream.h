// The frame around records, whatever they say: one writer for the five formats.
#pragma once

#include "app/report.h"

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace hydrascope::app {

/// A record in all forms; only the one that is wanted is made.
struct RecordForms {
  std::function<std::string()> json;                            ///< an object, without a line feed
  std::function<std::vector<std::vector<std::string>>()> rows;  ///< of csv and tsv
  std::function<std::string()> text;                            ///< whole lines
};

/// Writes each record as it comes and flushes it. Throws Error(failed) when `out` cannot be written
/// to.
class RecordStream {
 public:
  RecordStream(Format format, std::ostream& out, std::vector<std::string> columns)
      : format_(format), out_(out), columns_(std::move(columns)) {}
  void write(const RecordForms& record);
  /// Closes the array of `json`, gives a csv or tsv without records its header. Calling it again
  /// does nothing.
  void finish();

 private:
  void write_header();

  Format format_;
  std::ostream& out_;
  std::vector<std::string> columns_;
  bool has_begun_ = false;
  bool is_finished_ = false;
};

}  // namespace hydrascope::app
