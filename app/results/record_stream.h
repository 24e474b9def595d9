// Writes records as they come, whatever they say: one writer for all formats.
#pragma once

#include "app/results/format.h"
#include "app/results/json.h"

#include <ostream>
#include <span>
#include <string>
#include <string_view>

namespace hydrascope::app {

/// A column of csv, tsv and md.
struct RecordColumn {
  std::string_view name;
  std::string_view pointer = {};  ///< where it is in the record ("/model_size/0"); else its member
  std::string_view usual = {};    ///< what a record that is no failure leaves out
};

/// Writes each record and flushes it. Odd file names are no error: bytes that are not UTF-8 become
/// U+FFFD in JSON, which then has `input_bytes`, too (`add_path`), and are kept as they are in text,
/// csv and tsv; newlines, control characters and separators are quoted. Throws Error(failed) when
/// `out` cannot be written to (a full disk).
class RecordStream {
 public:
  /// `columns` must outlive it. A record whose member `each` is an array has a row per element, in
  /// which the element stands in the array's place.
  RecordStream(Format format, std::ostream& out, std::span<const RecordColumn> columns,
               std::string each = {})
      : format_(format), out_(out), columns_(columns), each_(std::move(each)) {}
  /// `text` is what people see of it: whole lines.
  void write(const OrderedJson& record, std::string_view text);
  /// Closes the array of `json`, gives a csv or tsv without records its header; call it also after
  /// an interruption. Calling it again does nothing.
  void finish();

 private:
  void write_header();
  void write_row(const OrderedJson& record);

  Format format_;
  std::ostream& out_;
  std::span<const RecordColumn> columns_;
  std::string each_;
  bool has_begun_ = false;
  bool is_finished_ = false;
};

}  // namespace hydrascope::app
