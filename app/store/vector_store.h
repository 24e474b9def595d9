// Vectors of pictures in a file: made once by `embed`, then searched, voted with and learned from.
//
// A store is a safetensors file. `vectors` (rows, D) and `norms` (rows) are float32, `names` (bytes) holds
// the pictures' names one behind the other, `name_ends` (pictures) int64 where each one ends, `classes`
// (pictures) int64 the index of each one's label or -1, `grids` (pictures, 2) int64 the rows and columns of
// patches, where a picture has a vector for each patch, `files` (pictures, 2) int64 the stamps of their files, or -1.
// The metadata hold what made the vectors.
#pragma once

#include "app/pictures/inputs.h"
#include "app/results/json.h"
#include "model/checkpoint/formats/safetensors.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {

/// The origin of vectors; those of another origin are not comparable.
struct StoreFacts {
  std::string model;         ///< its name, for people
  std::string model_sha256;  ///< of the file of weights
  std::string attention;     ///< "softmax", with all that is computed beside the weights
  std::string features;      ///< as of `--features`
  std::string transform;     ///< "resize 256 (bicubic, antialias) -> ..."
  std::string precision;     ///< of the run; asked for as "", any is comparable

  [[nodiscard]] OrderedJson json() const;
  /// Throws OrderedJson::exception where one is not there.
  static StoreFacts from(const OrderedJson& json);
  /// Throws Error(invalid_argument) in one line that names what differs in `asked`; `store` is its file.
  void require_same(const StoreFacts& asked, const std::string& store,
                    const std::string& hint = {}) const;
};

struct Neighbour {
  std::int64_t index = 0;  ///< of the picture
  double similarity = 0;   ///< the cosine
};

class VectorStore {
 public:
  /// Maps the file. Throws what `SafetensorsFile::open` throws, and Error(decode_failed) where tensors or
  /// metadata are not a store's.
  explicit VectorStore(const std::filesystem::path& file);

  [[nodiscard]] const std::string& file() const noexcept { return name_; }
  [[nodiscard]] const StoreFacts& facts() const noexcept { return facts_; }
  [[nodiscard]] std::int64_t size() const noexcept { return std::ssize(ends_); }  ///< pictures
  [[nodiscard]] std::int64_t dim() const noexcept { return vectors_.size(1); }
  /// (rows, D) float32, mapped: not to be written to.
  [[nodiscard]] const at::Tensor& vectors() const noexcept { return vectors_; }
  /// (D) float32, of length 1.
  [[nodiscard]] at::Tensor unit_vector(std::int64_t row) const;
  [[nodiscard]] std::string_view name_of(std::int64_t picture) const;
  /// The pictures' labels, sorted by their bytes; empty without any.
  [[nodiscard]] const std::vector<std::string>& labels() const noexcept { return labels_; }
  /// The index of a picture's label, -1 without one.
  [[nodiscard]] std::int64_t class_of(std::int64_t picture) const {
    return classes_[static_cast<std::size_t>(picture)];
  }
  using Pairs = std::vector<std::array<std::int64_t, 2>>;
  /// Rows and columns of each picture's vectors; where they are one each, none.
  [[nodiscard]] const Pairs& grids() const noexcept { return grids_; }
  /// Each picture's stamp; `kNoStamp` where version 0.1 wrote the store.
  [[nodiscard]] const std::vector<FileStamp>& files() const noexcept { return files_; }
  /// Throws Error(invalid_argument): "has vectors of patches", "has no labels".
  void require_one_vector_each() const;
  void require_labels() const;

  /// The `count` pictures of the highest cosine for each of the features (B, D) float32, the highest first;
  /// of equal ones the earlier. One matrix product. Throws Error(failed) where cosines are no numbers.
  [[nodiscard]] std::vector<std::vector<Neighbour>> nearest(const at::Tensor& features,
                                                            std::int64_t count) const;

 private:
  std::string name_;
  std::shared_ptr<checkpoint::SafetensorsFile> contents_;
  StoreFacts facts_;
  at::Tensor vectors_;
  at::Tensor norms_;
  std::string_view names_;
  std::vector<std::int64_t> ends_;
  std::vector<std::int64_t> classes_;
  Pairs grids_;
  std::vector<FileStamp> files_;
  std::vector<std::string> labels_;
};

}  // namespace hydrascope::app
