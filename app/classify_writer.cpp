#include "app/classify_record.h"
#include "app/delimited_row.h"
#include "app/report.h"

#include <ostream>

namespace hydrascope::app {
namespace {

class TextWriter final : public ClassifyWriter {
 public:
  TextWriter(std::ostream& out, LabelType label_type, bool color)
      : out_(out), label_type_(label_type), color_(color) {}
  void write(const ClassifyRecord& record) override {
    out_ << to_text(record, label_type_, color_);
    flush_results(out_);
  }
  void finish() override {}

 private:
  std::ostream& out_;
  LabelType label_type_;
  bool color_;
};

class JsonLinesWriter final : public ClassifyWriter {
 public:
  explicit JsonLinesWriter(std::ostream& out) : out_(out) {}
  void write(const ClassifyRecord& record) override {
    out_ << to_json(record) << '\n';
    flush_results(out_);
  }
  void finish() override {}

 private:
  std::ostream& out_;
};

/// One array; a record is preceded by what separates it, so that nothing needs to be known of the
/// next.
class JsonArrayWriter final : public ClassifyWriter {
 public:
  explicit JsonArrayWriter(std::ostream& out) : out_(out) {}
  void write(const ClassifyRecord& record) override {
    out_ << (is_empty_ ? "[\n" : ",\n") << to_json(record);
    is_empty_ = false;
    flush_results(out_);
  }
  void finish() override {
    if (std::exchange(is_finished_, true)) return;
    out_ << (is_empty_ ? "[]\n" : "\n]\n");
    flush_results(out_);
  }

 private:
  std::ostream& out_;
  bool is_empty_ = true;
  bool is_finished_ = false;
};

class TableWriter final : public ClassifyWriter {
 public:
  TableWriter(std::ostream& out, Format format) : out_(out), format_(format) {}
  void write(const ClassifyRecord& record) override {
    write_header();
    for (const auto& row : to_rows(record)) out_ << delimited_row(row, format_);
    flush_results(out_);
  }
  void finish() override {
    write_header();
    flush_results(out_);
  }

 private:
  void write_header() {
    if (!std::exchange(has_header_, true)) out_ << delimited_row(classify_columns(), format_);
  }

  std::ostream& out_;
  Format format_;
  bool has_header_ = false;
};

}  // namespace

std::unique_ptr<ClassifyWriter> make_classify_writer(Format format, std::ostream& out,
                                                     LabelType label_type, bool color) {
  switch (format) {
    case Format::text: return std::make_unique<TextWriter>(out, label_type, color);
    case Format::json: return std::make_unique<JsonArrayWriter>(out);
    case Format::jsonl: return std::make_unique<JsonLinesWriter>(out);
    case Format::csv:
    case Format::tsv: return std::make_unique<TableWriter>(out, format);
  }
  throw Error(ErrorCode::internal, "a format without a writer");
}

}  // namespace hydrascope::app
