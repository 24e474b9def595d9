#include "app/store/vector_store.h"

#include "app/run/usage_error.h"
#include "kernels/error.h"
#include "model/image/labels.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/topk.h>
#include <torch/nn/functional/normalization.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

namespace hydrascope::app {
namespace {

using checkpoint::Dtype;
using checkpoint::TensorView;

constexpr std::string_view kKey = "hydrascope.store";

using Fact = std::string StoreFacts::*;
/// In the order in which a difference is looked for.
constexpr std::array<std::pair<const char*, Fact>, 6> kFacts{
    {{"model_sha256", &StoreFacts::model_sha256},
     {"attention", &StoreFacts::attention},
     {"features", &StoreFacts::features},
     {"transform", &StoreFacts::transform},
     {"model", &StoreFacts::model},
     {"precision", &StoreFacts::precision}}};

[[noreturn]] void refuse(const std::string& what, const std::string& file) {
  throw Error(ErrorCode::decode_failed, "is no store of vectors: " + what, file,
              "`hydrascope embed` writes one");
}

const TensorView& tensor_of(const checkpoint::SafetensorsFile& contents, const std::string& name,
                            Dtype dtype, std::size_t rank, const std::string& file) {
  const TensorView* tensor = contents.find(name);
  if (tensor == nullptr) refuse("it has no tensor " + name, file);
  if (tensor->dtype != dtype || tensor->shape.size() != rank)
    refuse(name + " is not " + std::string(checkpoint::name(dtype)) + " of rank " +
               std::to_string(rank),
           file);
  return *tensor;
}

/// The integers of a tensor, or pairs of them.
template <class Value = std::int64_t>
std::vector<Value> integers_of(const TensorView& tensor) {
  std::vector<Value> values(tensor.data.size() / sizeof(Value));
  if (!values.empty())
    std::memcpy(values.data(), tensor.data.data(), values.size() * sizeof(Value));
  return values;
}

/// Around the mapping, or a copy where the file put it astray.
at::Tensor floats_of(const TensorView& tensor) {
  const at::Tensor mapped =
      at::from_blob(const_cast<std::byte*>(tensor.data.data()), tensor.shape, at::kFloat);
  if (reinterpret_cast<std::uintptr_t>(tensor.data.data()) % alignof(float) == 0) return mapped;
  at::Tensor copy = at::empty(tensor.shape, at::kFloat);
  std::memcpy(copy.mutable_data_ptr(), tensor.data.data(), tensor.data.size());
  return copy;
}

}  // namespace

OrderedJson StoreFacts::json() const {
  OrderedJson object = OrderedJson::object();
  for (const auto& [name, fact] : kFacts) object[name] = this->*fact;
  return object;
}

StoreFacts StoreFacts::from(const OrderedJson& json) {
  StoreFacts facts;
  for (const auto& [name, fact] : kFacts) facts.*fact = json.at(name).get<std::string>();
  return facts;
}

void StoreFacts::require_same(const StoreFacts& asked, const std::string& store,
                              const std::string& hint) const {
  for (const auto& [name, fact] : kFacts) {
    const bool is_asked =
        fact != &StoreFacts::model && (fact != &StoreFacts::precision || !asked.precision.empty());
    if (!is_asked || this->*fact == asked.*fact) continue;
    const bool is_model = fact == &StoreFacts::model_sha256;
    const std::string of_store = is_model ? model : this->*fact;
    const std::string of_asked = is_model ? asked.model : asked.*fact;
    const std::string what = is_model ? "model" : name;
    throw UsageError("is of another " + what + ": " + of_store + ", not " + of_asked +
                         (of_store == of_asked ? " as its file is now" : ""),
                     store, hint.empty() && is_model ? "`model` " + model : hint);
  }
}

VectorStore::VectorStore(const std::filesystem::path& file)
    : name_(file.string()),
      contents_(
          std::make_shared<checkpoint::SafetensorsFile>(checkpoint::SafetensorsFile::open(file))) {
  const checkpoint::Metadata& metadata = contents_->metadata();
  const auto entry = metadata.find(std::string(kKey));
  if (entry == metadata.end()) refuse("its metadata have no " + std::string(kKey), name_);
  const OrderedJson said = OrderedJson::parse(entry->second, nullptr, /*allow_exceptions=*/false);
  try {
    facts_ = StoreFacts::from(said);
  } catch (const OrderedJson::exception&) {
    refuse("its metadata lack what made the vectors", name_);
  }
  if (!said.contains("labels") || !said.at("labels").is_array())
    refuse("its metadata have no labels", name_);
  for (const OrderedJson& label : said.at("labels")) {
    if (!label.is_string()) refuse("a label is no text", name_);
    labels_.push_back(label.get<std::string>());
    image::require_class_name(labels_.back(), name_);
  }

  vectors_ = floats_of(tensor_of(*contents_, "vectors", Dtype::F32, 2, name_));
  norms_ = floats_of(tensor_of(*contents_, "norms", Dtype::F32, 1, name_));
  const TensorView& names = tensor_of(*contents_, "names", Dtype::U8, 1, name_);
  names_ = {reinterpret_cast<const char*>(names.data.data()), names.data.size()};
  ends_ = integers_of(tensor_of(*contents_, "name_ends", Dtype::I64, 1, name_));
  classes_ = integers_of(tensor_of(*contents_, "classes", Dtype::I64, 1, name_));
  if (vectors_.size(0) < 1 || vectors_.size(1) < 1) refuse("it holds no vector", name_);
  std::int64_t rows = size();
  if (facts_.features == "patches") {
    const TensorView& grids = tensor_of(*contents_, "grids", Dtype::I64, 2, name_);
    grids_ = integers_of<Pairs::value_type>(grids);
    if (grids.shape[0] != size() || grids.shape[1] != 2)
      refuse("its grids are not as many as its pictures", name_);
    rows = 0;
    for (const auto& [height, width] : grids_) {
      constexpr std::int64_t kMostAlongAnEdge = std::int64_t{1} << 24;
      if (height < 1 || width < 1 || height > kMostAlongAnEdge || width > kMostAlongAnEdge ||
          rows > vectors_.size(0))
        refuse("a grid has no size of a picture", name_);
      rows += height * width;
    }
  }
  files_.assign(ends_.size(), kNoStamp);
  if (contents_->find("files") != nullptr)
    files_ = integers_of<Pairs::value_type>(tensor_of(*contents_, "files", Dtype::I64, 2, name_));
  if (vectors_.size(0) != rows || norms_.size(0) != rows || std::ssize(classes_) != size() ||
      std::ssize(files_) != size())
    refuse("vectors, norms, classes and names are not equally many", name_);
  std::int64_t begin = 0;
  for (const std::int64_t end : ends_) {
    if (end < begin || std::cmp_greater(end, names_.size())) refuse("names overlap", name_);
    begin = end;
  }
  for (const std::int64_t one : classes_)
    if (one < -1 || one >= std::ssize(labels_)) refuse("a class has no label", name_);
  const std::span norms(norms_.const_data_ptr<float>(), static_cast<std::size_t>(rows));
  if (!std::ranges::all_of(norms, [](float norm) { return std::isfinite(norm) && norm > 0; }))
    refuse("a norm is no positive number", name_);
}

std::string_view VectorStore::name_of(std::int64_t picture) const {
  const auto place = static_cast<std::size_t>(picture);
  const std::int64_t begin = place == 0 ? 0 : ends_.at(place - 1);
  return names_.substr(static_cast<std::size_t>(begin),
                       static_cast<std::size_t>(ends_.at(place) - begin));
}

at::Tensor VectorStore::unit_vector(std::int64_t row) const {
  return vectors_.select(0, row) / norms_.select(0, row);
}

void VectorStore::require_one_vector_each() const {
  if (facts_.features == "patches")
    throw UsageError("has a vector for each patch, not one for each picture", name_,
                     "`features` pooled, class or mean");
}

void VectorStore::require_labels() const {
  if (std::ranges::find(classes_, -1) != classes_.end())
    throw UsageError("has pictures without a label", name_,
                     "`hydrascope embed` with `label_folders` or `labels_csv` stores labels");
}

std::vector<std::vector<Neighbour>> VectorStore::nearest(const at::Tensor& features,
                                                         std::int64_t count) const {
  if (features.size(1) != dim())
    throw UsageError("holds vectors of " + std::to_string(dim()) + " numbers, the model has " +
                         std::to_string(features.size(1)),
                     name_);
  const at::Tensor unit = torch::nn::functional::normalize(features);
  // (B, rows): rows of answers are contiguous for `topk`.
  const at::Tensor cosines = at::matmul(unit, vectors_.t()).div_(norms_);
  const std::int64_t most = std::min(count, size());
  // A number that is none compares as the highest one does: it is among the first.
  auto [values, indices] = cosines.topk(most, 1, /*largest=*/true, /*sorted=*/true);
  std::vector<std::vector<Neighbour>> answers;
  for (std::int64_t row = 0; row < values.size(0); ++row) {
    std::vector<Neighbour>& found = answers.emplace_back();
    const auto value = values.accessor<float, 2>()[row];
    const auto index = indices.accessor<std::int64_t, 2>()[row];
    for (std::int64_t i = 0; i < most; ++i) {
      if (!std::isfinite(value[i]))
        throw Error(ErrorCode::failed, "a vector has values that are no numbers", name_);
      found.push_back({index[i], value[i]});
    }
    std::ranges::stable_sort(found, [](const Neighbour& a, const Neighbour& b) {
      return a.similarity != b.similarity ? a.similarity > b.similarity : a.index < b.index;
    });
  }
  return answers;
}

}  // namespace hydrascope::app
