#include "app/results/record_stream.h"

#include "app/results/table.h"

#include <utility>
#include <vector>

namespace hydrascope::app {

void RecordStream::write(const OrderedJson& record, std::string_view text) {
  switch (format_) {
    case Format::text: out_ << text; break;
    case Format::jsonl: out_ << json_text(record) << '\n'; break;
    case Format::json:
      // What separates two records precedes the second: nothing needs to be known of the next.
      out_ << (std::exchange(has_begun_, true) ? ",\n" : "[\n") << json_text(record);
      break;
    case Format::csv:
    case Format::tsv:
    case Format::md:
      write_header();
      if (!record.contains(each_)) {
        write_row(record);
        break;
      }
      OrderedJson row = record;
      for (const OrderedJson& element : record.at(each_)) {
        row[each_] = element;
        write_row(row);
      }
      break;
  }
  flush_results(out_);
}

void RecordStream::finish() {
  if (std::exchange(is_finished_, true)) return;
  if (format_ == Format::json) out_ << (has_begun_ ? "\n]\n" : "[]\n");
  if (format_ != Format::text && !is_json(format_)) write_header();
  flush_results(out_);
}

void RecordStream::write_header() {
  if (std::exchange(has_begun_, true)) return;
  std::vector<std::string> names;
  for (const RecordColumn& column : columns_) names.emplace_back(column.name);
  out_ << header_row(names, format_);
}

void RecordStream::write_row(const OrderedJson& record) {
  std::vector<std::string> cells;
  for (const RecordColumn& column : columns_) {
    const OrderedJson::json_pointer at(column.pointer.empty() ? '/' + std::string(column.name)
                                                              : std::string(column.pointer));
    const bool is_left_out = !record.contains("error");
    cells.push_back(record.contains(at) ? cell_text(record.at(at))
                    : is_left_out       ? std::string(column.usual)
                                        : "");
  }
  out_ << delimited_row(cells, format_);
}

}  // namespace hydrascope::app
