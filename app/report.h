// Records: what commands print. One writer per format; a record is flushed as soon as it exists.
#pragma once

#include "app/json_text.h"
#include "kernels/error.h"

#include <array>
#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::app {

enum class Format { text, json, jsonl, csv, tsv };
/// `--format` if it is not empty, else the extension of `output` (.json .jsonl .csv .tsv), else
/// text. Throws Error(invalid_argument) for another word.
Format choose_format(std::string_view format, std::string_view output);

enum class LabelType { name, id, index };
/// "id", "index", else the name.
LabelType parse_label_type(std::string_view word);

/// As records spell it: they know eight codes; the other two are about the command, not about an
/// input, and become "internal".
std::string record_error_code(ErrorCode code);

/// A part of a picture, in its pixels after EXIF orientation.
struct Box {
  std::int64_t left = 0;
  std::int64_t top = 0;
  std::int64_t width = 0;
  std::int64_t height = 0;
  friend bool operator==(const Box&, const Box&) = default;
};

/// One of the top-k classes.
struct Prediction {
  int rank = 1;            ///< from 1
  std::int64_t index = 0;  ///< 0-based class index
  std::string id;          ///< synset id, "" if the labels have none
  std::string label;       ///< class name
  double prob = 0;         ///< softmax over all classes
  double logit = 0;
  std::optional<Box> box = {};  ///< of the view that both are of, where there are several
};

/// What a class is called; its name where there is no id.
std::string label_text(const Prediction& prediction, LabelType label_type);

/// Schema 1 of `classify` (see the contract of the command line).
struct ClassifyRecord {
  std::string input;                  ///< bytes as given
  std::optional<std::int64_t> frame;  ///< frame number of a video, from 0
  std::int64_t width = 0;             ///< of the picture, after orientation
  std::int64_t height = 0;
  std::array<std::int64_t, 2> model_size{};  ///< height, width fed to the model
  std::int64_t tokens = 0;                   ///< of a view
  std::string views = {};  ///< "tiles", "pyramid"; left out where the picture is one view
  std::int64_t num_views = 1;
  std::vector<Prediction> top;
  std::string device;     ///< "cpu", "cuda:0"
  std::string precision;  ///< "float32", ...
  std::string attention;  ///< "softmax", "softmax:0-9,hydra:10-11"
  std::map<std::string, std::string> attention_options = {};  ///< "hydra.scale" -> "linear"
  std::map<std::string, std::string> approximations = {};     ///< "keep_tokens" -> "0.5"
  std::string kernels = {};  ///< "fused+modules", "modules", "reference"; "" where all are fused
  double seconds = 0;        ///< model time of this image: its batch's time / batch size; of all
                             ///< its views
  /// What the user must know ("padded 1080x1920 to 1088x1920 (HxW)"); left out when this is empty.
  std::string note;
  std::optional<ErrorCode> error;  ///< set: only `input` (and `frame`) and the error are written
  std::string message;
};

/// Writes records to `out` and flushes each. Odd file names are no error: bytes that are not UTF-8
/// become U+FFFD in JSON, which then has `input_bytes`, too (JsonObject::add_path), and are kept as
/// they are in text, csv and tsv; newlines, control characters and separators are quoted.
/// Probabilities have six significant digits, logits four decimals, seconds six. Throws
/// Error(failed) when `out` cannot be written to (a full disk).
class ClassifyWriter {
 public:
  virtual ~ClassifyWriter() = default;
  virtual void write(const ClassifyRecord& record) = 0;
  /// Closes the array of `json`, gives a csv or tsv without records its header; call it also after
  /// an interruption. Calling it again does nothing.
  virtual void finish() = 0;
};
/// `color`: ANSI colours in text. `label_type`: what the text table shows in its label column (the
/// name where there is no id). Sizes in text are height x width.
std::unique_ptr<ClassifyWriter> make_classify_writer(Format format, std::ostream& out,
                                                     LabelType label_type, bool color);

/// Ordered name/value pairs for one-object reports (`evaluate`, `models info`, `doctor`): text
/// prints an aligned list, json one object (`"schema":1`, then the pairs in their order; a member a
/// line, jsonl all on one), csv/tsv a header and a row. An integer "schema" that is added is that
/// number and no pair.
class KeyValueReport {
 public:
  void add(std::string key, std::string value);
  void add(std::string key, std::string_view value);
  void add(std::string key, const char* value);
  void add(std::string key, double value, int text_decimals = 2);
  void add(std::string key, std::int64_t value);
  template <std::integral Integer>
  void add(std::string key, Integer value) {
    add(std::move(key), static_cast<std::int64_t>(value));
  }
  void add(std::string key, bool value);
  /// [HEIGHT,WIDTH], for people "160x320 (HxW)".
  void add_size(std::string key, std::int64_t height, std::int64_t width);
  /// Null, - for people, empty in csv and tsv.
  void add_nothing(std::string key);
  /// A value that is already JSON (an object or array); text shows it as it is. Throws
  /// Error(internal) if it is not JSON.
  void add_json(std::string key, std::string json);
  /// Throws Error(failed) when `out` cannot be written to.
  void write(Format format, std::ostream& out) const;

 private:
  struct Field {
    std::string key;
    std::string json;
    std::string text;  ///< for people
    std::string cell;  ///< for csv and tsv
  };
  std::int64_t schema_ = 1;
  std::vector<Field> fields_;
};

/// Flushes `out`; throws Error(failed) if it, or a write before, did not succeed.
void flush_results(std::ostream& out);
/// A hint at why a stream could not be written; `error` is errno after its flush, 0 if unknown.
std::string why_not_written(int error);

}  // namespace hydrascope::app
