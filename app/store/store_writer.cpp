#include "app/store/store_writer.h"

#include "app/build_info.h"
#include "app/run/usage_error.h"
#include "kernels/error.h"
#include "kernels/limits.h"
#include "kernels/new_file.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <system_error>
#include <utility>

namespace hydrascope::app {
namespace {

namespace fs = std::filesystem;
using checkpoint::Dtype;

constexpr const char* kAnew = "`force` begins anew";
constexpr const char* kReplaced = "give the store another name; `force` replaces the file";

fs::path checked(const fs::path& file) {
  if (file.extension() != ".safetensors")
    throw UsageError("expected a name that ends in .safetensors", "`output` " + file.string());
  return end_of_links(file);
}

bool has_bytes(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) && fs::file_size(file, ignored) > 0;
}

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace

StoreWriter::StoreWriter(const fs::path& file, bool anew)
    : file_(checked(file)),
      rows_file_(file_.string() + ".rows"),
      begins_anew_(anew),
      lines_(file_.string() + ".jsonl", "`output`",
             !anew && has_bytes(rows_file_) ? OutputFile::Start::after_whole_lines
                                            : OutputFile::Start::anew,
             anew ? FileKind::any : FileKind::companion) {
  if (lines_.part().empty()) throw UsageError("a device or a pipe is no store", "`output`");
  refuse_to_replace(file_, anew ? FileKind::any : FileKind::store, "`output` " + file_.string(),
                    kReplaced);
  if (anew) return;
  if (!has_bytes(rows_file_)) {
    read_store();
    return;
  }
  if (!has_bytes(lines_.part()))  // nothing says whose they are
    throw UsageError("would replace a file that holds no results", rows_file_, kReplaced);
  read_part();
}

void StoreWriter::read_store() {
  if (!has_bytes(file_)) return;
  store_.emplace(file_);
  if (earlier_facts_) store_->facts().require_same(*earlier_facts_, file_.string(), kAnew);
  earlier_facts_ = store_->facts();
  dim_ = store_->dim();
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < store_->size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto [rows, columns] =
        store_->grids().empty() ? VectorStore::Pairs::value_type{1, 1} : store_->grids()[at];
    answers_[std::string(store_->name_of(i))] = {store_->files()[at], at};
    earlier_.push_back({"", "", kNoStamp, rows, columns, begin, true});
    begin += rows * columns * dim_;
  }
}

void StoreWriter::read_part() {
  std::ifstream stream(lines_.part(), std::ios::binary);
  const std::uintmax_t held = fs::file_size(rows_file_) / sizeof(float);
  std::uintmax_t counted = 0;  // bytes of whole lines whose vectors are there
  for (std::string text; std::getline(stream, text); counted += text.size() + 1) {
    try {
      const OrderedJson line = OrderedJson::parse(text);
      if (counted == 0) {
        earlier_facts_ = StoreFacts::from(line);
        begins_anew_ = line.contains("anew");
        if (!begins_anew_) read_store();
        continue;
      }
      if (line.contains("error")) continue;  // is tried again
      const auto [rows, columns] = line.at("grid").get<std::pair<std::int64_t, std::int64_t>>();
      dim_ = line.at("dim").get<std::int64_t>();
      const std::int64_t end = num_values_ + rows * columns * dim_;
      if (std::cmp_greater(end, held)) break;
      answers_[recorded_name(line)] = {recorded_stamp(line), earlier_.size()};
      earlier_.push_back({"", "", kNoStamp, rows, columns, std::exchange(num_values_, end)});
    } catch (const OrderedJson::exception&) {
      throw Error(ErrorCode::invalid_argument, "a line is no record", lines_.part().string(),
                  kAnew);
    }
  }
  lines_.cut(counted);
  std::error_code error;
  fs::resize_file(rows_file_, static_cast<std::uintmax_t>(num_values_) * sizeof(float), error);
  if (error) throw unwritable("cannot be written", rows_file_, error.value());
}

std::vector<Input> StoreWriter::begin(StoreFacts facts,
                                      std::vector<std::pair<Input, std::string>> wanted,
                                      const std::vector<std::string>& words) {
  facts_ = std::move(facts);
  if (earlier_facts_) earlier_facts_->require_same(facts_, file_.string(), kAnew);
  std::vector<Input> missing;
  for (auto& [input, label] : wanted) {
    const auto place = find_answer(answers_, input);
    Picture& picture = pictures_.emplace_back(place ? earlier_[*place] : Picture());
    picture.name = input.given;
    picture.label = std::move(label);
    picture.stamp = input.stamp;
    if (place) continue;
    input.number = std::ssize(pictures_) - 1;
    missing.push_back(std::move(input));
  }
  notes_ = notes_on(answers_, words, file_.string(), kAnew);
  std::error_code ignored;
  if (num_values_ == 0) fs::remove(rows_file_, ignored);  // of another run; a link, not its end
  name_stream(rows_, rows_file_);
  rows_.open(rows_file_, std::ios::binary | (num_values_ > 0 ? std::ios::app : std::ios::trunc));
  flush_results(rows_);
  if (num_values_ > 0) return missing;
  lines_.cut(0);
  OrderedJson first = facts_.json();
  if (begins_anew_) first["anew"] = true;  // the store that is there does not count
  write(first);
  return missing;
}

void StoreWriter::write(const OrderedJson& line) {
  lines_.stream() << json_text(line) << '\n';
  flush_results(lines_.stream());
}

void StoreWriter::add(const Input& input, std::span<const float> vectors, std::int64_t rows,
                      std::int64_t columns) {
  const auto dim = std::ssize(vectors) / (rows * columns);
  if (dim_ != 0 && dim != dim_)
    throw Error(ErrorCode::internal, "vectors of two lengths", file_.string());
  dim_ = dim;
  rows_.write(reinterpret_cast<const char*>(vectors.data()),
              static_cast<std::streamsize>(vectors.size_bytes()));
  flush_results(rows_);  // before the line that says they are there
  Picture& picture = pictures_.at(static_cast<std::size_t>(input.number));
  picture.rows = rows;
  picture.columns = columns;
  picture.begin = std::exchange(num_values_, num_values_ + std::ssize(vectors));
  OrderedJson line = OrderedJson::object();
  add_path(line, "input", picture.name);
  line["label"] = picture.label;
  line["grid"] = {rows, columns};
  line["dim"] = dim;
  line["file"] = picture.stamp;
  write(line);
}

void StoreWriter::add_failure(const Input& input, const std::string& code,
                              const std::string& message) {
  OrderedJson line = OrderedJson::object();
  add_path(line, "input", input.given);
  line["error"] = {{"code", code}, {"message", message}};
  write(line);
  ++num_failed_;
}

void StoreWriter::finish() {
  std::error_code ignored;
  std::erase_if(pictures_, [](const Picture& picture) { return picture.rows == 0; });
  rows_.close();
  if (pictures_.empty()) {
    fs::remove(lines_.part(), ignored);
    fs::remove(rows_file_, ignored);
    throw Error(ErrorCode::empty, "no picture has a vector", file_.string());
  }
  if (!rows_) flush_results(rows_);
  {
    const checkpoint::MappedFile rows(rows_file_);
    const std::span values(reinterpret_cast<const float*>(rows.bytes().data()),
                           rows.bytes().size() / sizeof(float));
    std::vector<float> sorted;
    write_store(in_order(values, sorted));
  }
  fs::remove(rows_file_, ignored);  // before the lines, which say what they are
  fs::remove(lines_.part(), ignored);
}

std::span<const float> StoreWriter::in_order(std::span<const float> rows,
                                             std::vector<float>& sorted) const {
  std::int64_t end = 0;
  bool are_in_order = true;
  for (const Picture& picture : pictures_) {
    are_in_order = are_in_order && !picture.is_stored && picture.begin == end;
    end += picture.rows * picture.columns * dim_;
  }
  if (are_in_order && end == std::ssize(rows)) return rows;
  sorted.reserve(static_cast<std::size_t>(end));
  for (const Picture& picture : pictures_) {
    const float* const from =
        (picture.is_stored ? store_->vectors().const_data_ptr<float>() : rows.data()) +
        picture.begin;
    sorted.insert(sorted.end(), from, from + picture.rows * picture.columns * dim_);
  }
  return sorted;
}

void StoreWriter::write_store(std::span<const float> vectors) const {
  const std::int64_t rows = std::ssize(vectors) / dim_;
  std::vector<float> norms;
  norms.reserve(static_cast<std::size_t>(rows));
  for (std::int64_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (std::int64_t i = 0; i < dim_; ++i) {
      const double value = vectors[static_cast<std::size_t>(row * dim_ + i)];
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
  std::vector<std::int64_t> files;
  for (const Picture& picture : pictures_) {
    names += picture.name;
    ends.push_back(std::ssize(names));
    classes.push_back(
        picture.label.empty() ? -1 : std::distance(labels.begin(), labels.find(picture.label)));
    grids.insert(grids.end(), {picture.rows, picture.columns});
    files.insert(files.end(), picture.stamp.begin(), picture.stamp.end());
  }
  const auto count = std::ssize(pictures_);
  std::vector<checkpoint::TensorView> tensors{
      {"vectors", Dtype::F32, {rows, dim_}, std::as_bytes(vectors)},
      {"norms", Dtype::F32, {rows}, bytes_of(norms)},
      {"names", Dtype::U8, {std::ssize(names)}, std::as_bytes(std::span(names))},
      {"name_ends", Dtype::I64, {count}, bytes_of(ends)},
      {"classes", Dtype::I64, {count}, bytes_of(classes)},
      {"files", Dtype::I64, {count, 2}, bytes_of(files)}};
  if (facts_.features == "patches")
    tensors.push_back({"grids", Dtype::I64, {count, 2}, bytes_of(grids)});
  checkpoint::write_safetensors(file_, tensors,
                                {{"hydrascope.store", json_text(said)},
                                 {"created_by", "hydrascope " + std::string(kVersion) + " embed"}});
}

}  // namespace hydrascope::app
