#include "app/record_stream.h"

#include "app/delimited_row.h"

#include <utility>

namespace hydrascope::app {

void RecordStream::write(const RecordForms& record) {
  switch (format_) {
    case Format::text: out_ << record.text(); break;
    case Format::jsonl: out_ << record.json() << '\n'; break;
    case Format::json:
      // What separates two records precedes the second: nothing needs to be known of the next.
      out_ << (std::exchange(has_begun_, true) ? ",\n" : "[\n") << record.json();
      break;
    case Format::csv:
    case Format::tsv:
      write_header();
      for (const auto& row : record.rows()) out_ << delimited_row(row, format_);
      break;
  }
  flush_results(out_);
}

void RecordStream::finish() {
  if (std::exchange(is_finished_, true)) return;
  if (format_ == Format::json) out_ << (has_begun_ ? "\n]\n" : "[]\n");
  if (format_ == Format::csv || format_ == Format::tsv) write_header();
  flush_results(out_);
}

void RecordStream::write_header() {
  if (!std::exchange(has_begun_, true)) out_ << delimited_row(columns_, format_);
}

}  // namespace hydrascope::app
