#include "app/store/store_writer.h"

#include "app/build_info.h"
#include "app/run/usage_error.h"
#include "kernels/error.h"
#include "kernels/new_file.h"
#include "model/checkpoint/formats/json_fields.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <system_error>
#include <utility>

namespace hydrascope::app {
namespace {

namespace fs = std::filesystem;
using checkpoint::Dtype;

constexpr const char* kAnew = "without `resume` the store is written anew";

fs::path checked(fs::path file) {
  if (file.extension() != ".safetensors")
    throw UsageError("expected a name that ends in .safetensors", "`output` " + file.string());
  return file;
}

fs::path with_suffix(const fs::path& file, const char* suffix) { return file.string() + suffix; }

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace

StoreWriter::StoreWriter(fs::path file, StoreFacts facts, bool goes_on)
    : file_(checked(std::move(file))),
      facts_(std::move(facts)),
      lines_(with_suffix(file_, ".jsonl").string(), "`output`",
             goes_on ? OutputFile::Start::after_whole_lines : OutputFile::Start::anew),
      rows_file_(with_suffix(file_, ".rows")) {
  if (lines_.part().empty()) throw UsageError("a device or a pipe is no store", "`output`");
  if (goes_on) checkpoint::with_json_errors(lines_.part().string(), [&] { read_earlier(); });
  if (!goes_on || num_earlier_ == 0) {
    rows_.open(rows_file_, std::ios::binary | std::ios::trunc);
    lines_.cut(0);
    write(facts_.json());
  } else {
    rows_.open(rows_file_, std::ios::binary | std::ios::app);
  }
  if (!rows_) throw Error(ErrorCode::unwritable, "cannot be written", rows_file_.string());
}

StoreWriter::~StoreWriter() = default;

void StoreWriter::read_earlier() {
  const OrderedJson facts = facts_.json();
  std::ifstream stream(lines_.part(), std::ios::binary);
  std::error_code ignored;
  const auto held = fs::exists(rows_file_, ignored) ? fs::file_size(rows_file_) : 0;
  std::uintmax_t counted = 0;  // bytes of whole lines whose vectors are there
  std::uintmax_t used = 0;     // bytes of vectors
  bool is_first = true;
  for (std::string text; std::getline(stream, text); counted += text.size() + 1) {
    const OrderedJson line = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!line.is_object())
      throw Error(ErrorCode::invalid_argument, "a line is no record", lines_.part().string(),
                  kAnew);
    if (std::exchange(is_first, false)) {
      for (const auto& [key, value] : facts.items()) {
        if (line.value(key, OrderedJson()) != value)
          throw UsageError("the stopped run had another " + key + ": " +
                               json_text(line.value(key, OrderedJson())),
                           lines_.part().string(), kAnew);
      }
      continue;
    }
    const bool failed = line.contains("error");
    if (!line.contains("input") ||
        !(failed || (line.contains("label") && line.contains("grid") && line.contains("dim"))))
      throw Error(ErrorCode::invalid_argument, "a line is no record", lines_.part().string(),
                  kAnew);
    if (!failed) {
      Picture picture{line.at("input").get<std::string>(), line.at("label").get<std::string>(),
                      line.at("grid").at(0).get<std::int64_t>(),
                      line.at("grid").at(1).get<std::int64_t>()};
      const auto dim = line.at("dim").get<std::int64_t>();
      const std::uintmax_t bytes =
          static_cast<std::uintmax_t>(picture.rows * picture.columns * dim) * sizeof(float);
      if (used + bytes > held) break;
      used += bytes;
      dim_ = dim;
      pictures_.push_back(std::move(picture));
    }
    num_failed_ += failed ? 1 : 0;
    earlier_.push_back({input_key(line), "", failed ? -1 : std::ssize(pictures_) - 1});
  }
  num_earlier_ = std::ssize(earlier_);
  if (num_earlier_ == 0) return;
  lines_.cut(counted);
  if (held != used) fs::resize_file(rows_file_, used);
}

bool StoreWriter::has(const std::string& input, const std::string& label) {
  if (asked_ == earlier_.size()) return false;
  Earlier& one = earlier_[asked_];
  if (one.key != input_key(input))
    throw UsageError(
        "the stopped run had other pictures: " + one.key + " comes where the input is " + input,
        lines_.part().string(), kAnew);
  if (one.picture >= 0) {
    if (const std::string& before = pictures_[static_cast<std::size_t>(one.picture)].label;
        before != label)
      throw UsageError("the stopped run gave " + input + " " +
                           (before.empty() ? "no label" : "the label " + before) + ", not " +
                           (label.empty() ? "none" : label),
                       lines_.part().string(), kAnew);
  }
  one.name = input;
  ++asked_;
  return true;
}

void StoreWriter::write(const OrderedJson& line) { lines_.stream() << json_text(line) << '\n'; }

void StoreWriter::add(const std::string& input, const std::string& label,
                      std::span<const float> vectors, std::int64_t rows, std::int64_t columns) {
  const auto dim = static_cast<std::int64_t>(vectors.size()) / (rows * columns);
  if (dim_ != 0 && dim != dim_)
    throw Error(ErrorCode::internal, "vectors of two lengths", file_.string());
  dim_ = dim;
  const std::span<const std::byte> bytes = std::as_bytes(vectors);
  rows_.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  rows_.flush();  // before the line that says they are there
  if (!rows_) throw Error(ErrorCode::unwritable, "cannot be written", rows_file_.string());
  OrderedJson line = OrderedJson::object();
  add_path(line, "input", input);
  line["label"] = label;
  line["grid"] = {rows, columns};
  line["dim"] = dim;
  write(line);
  flush_results(lines_.stream());
  pictures_.push_back({input, label, rows, columns});
}

void StoreWriter::add_failure(const std::string& input, const std::string& code,
                              const std::string& message) {
  OrderedJson line = OrderedJson::object();
  add_path(line, "input", input);
  line["error"] = {{"code", code}, {"message", message}};
  write(line);
  flush_results(lines_.stream());
  ++num_failed_;
}

std::int64_t StoreWriter::num_rows() const {
  std::int64_t rows = 0;
  for (const Picture& picture : pictures_) rows += picture.rows * picture.columns;
  return rows;
}

void StoreWriter::finish() {
  // A line cannot hold a name that is not UTF-8.
  for (const Earlier& one : earlier_)
    if (one.picture >= 0 && !one.name.empty())
      pictures_[static_cast<std::size_t>(one.picture)].name = one.name;
  std::error_code ignored;
  rows_.close();
  if (pictures_.empty()) {
    fs::remove(lines_.part(), ignored);
    fs::remove(rows_file_, ignored);
    throw Error(ErrorCode::empty, "no picture has a vector", file_.string());
  }
  if (!rows_) throw Error(ErrorCode::unwritable, "cannot be written", rows_file_.string());
  {
    const checkpoint::MappedFile vectors(rows_file_);
    write_store(vectors.bytes());
  }
  fs::remove(lines_.part(), ignored);
  fs::remove(rows_file_, ignored);
}

void StoreWriter::write_store(std::span<const std::byte> vectors) const {
  const std::int64_t rows = num_rows();
  const auto* values = reinterpret_cast<const float*>(vectors.data());
  std::vector<float> norms;
  norms.reserve(static_cast<std::size_t>(rows));
  for (std::int64_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (std::int64_t i = 0; i < dim_; ++i) {
      const double value = values[row * dim_ + i];
      sum += value * value;
    }
    constexpr float kLeastNorm = 1e-12F;  // torch's `normalize` has it for features, too
    norms.push_back(std::max(static_cast<float>(std::sqrt(sum)), kLeastNorm));
  }
  std::set<std::string> labels;
  for (const Picture& picture : pictures_)
    if (!picture.label.empty()) labels.insert(picture.label);
  OrderedJson said = facts_.json();
  said["labels"] = std::vector<std::string>(labels.begin(), labels.end());
  std::string names;
  std::vector<std::int64_t> ends;
  std::vector<std::int64_t> classes;
  std::vector<std::int64_t> grids;
  for (const Picture& picture : pictures_) {
    names += picture.name;
    ends.push_back(std::ssize(names));
    classes.push_back(
        picture.label.empty() ? -1 : std::distance(labels.begin(), labels.find(picture.label)));
    grids.insert(grids.end(), {picture.rows, picture.columns});
  }
  const auto count = std::ssize(pictures_);
  std::vector<checkpoint::TensorView> tensors{
      {"vectors", Dtype::F32, {rows, dim_}, vectors},
      {"norms", Dtype::F32, {rows}, bytes_of(norms)},
      {"names", Dtype::U8, {std::ssize(names)}, std::as_bytes(std::span(names))},
      {"name_ends", Dtype::I64, {count}, bytes_of(ends)},
      {"classes", Dtype::I64, {count}, bytes_of(classes)}};
  if (facts_.features == "patches")
    tensors.push_back({"grids", Dtype::I64, {count, 2}, bytes_of(grids)});
  checkpoint::write_safetensors(file_, tensors,
                                {{"hydrascope.store", json_text(said)},
                                 {"created_by", "hydrascope " + std::string(kVersion) + " embed"}});
}

}  // namespace hydrascope::app
