#include "app/classify_record.h"
#include "app/record_stream.h"
#include "app/report.h"

#include <ostream>

namespace hydrascope::app {
namespace {

class StreamWriter final : public ClassifyWriter {
 public:
  StreamWriter(Format format, std::ostream& out, LabelType label_type, bool color)
      : stream_(format, out, classify_columns()), label_type_(label_type), color_(color) {}
  void write(const ClassifyRecord& record) override {
    stream_.write({[&] { return to_json(record); }, [&] { return to_rows(record); },
                   [&] { return to_text(record, label_type_, color_); }});
  }
  void finish() override { stream_.finish(); }

 private:
  RecordStream stream_;
  LabelType label_type_;
  bool color_;
};

}  // namespace

std::unique_ptr<ClassifyWriter> make_classify_writer(Format format, std::ostream& out,
                                                     LabelType label_type, bool color) {
  return std::make_unique<StreamWriter>(format, out, label_type, color);
}

}  // namespace hydrascope::app
