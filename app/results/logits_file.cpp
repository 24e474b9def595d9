#include "app/results/logits_file.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <span>

namespace hydrascope::app {

LogitsFile::LogitsFile(ProcessTeam& team, const std::filesystem::path& file,
                       std::int64_t num_classes)
    : team_(team), num_classes_(num_classes) {
  if (team_.is_first()) writer_.emplace(file);
}

void LogitsFile::append(const at::Tensor& logits) {
  const std::span<const float> row(logits.const_data_ptr<float>(),
                                   static_cast<std::size_t>(logits.numel()));
  if (team_.has_others()) {
    kept_.insert(kept_.end(), row.begin(), row.end());
  } else {
    writer_->append(row, logits.sizes());
  }
}

void LogitsFile::append_nan() {
  if (team_.has_others()) {
    kept_.insert(kept_.end(), static_cast<std::size_t>(num_classes_),
                 std::numeric_limits<float>::quiet_NaN());
  } else {
    writer_->append_nan();
  }
}

void LogitsFile::exchange() {
  constexpr std::int64_t kRowsAtOnce = 4096;
  const std::int64_t world_size = team_.launch().world_size;
  const std::int64_t rank = team_.launch().rank;
  const std::int64_t kept = std::ssize(kept_) / num_classes_;
  // The first input that each process lacks; the rows before all of them are there.
  const std::vector<double> missing = team_.gather(static_cast<double>(rank + kept * world_size));
  const auto rows = static_cast<std::int64_t>(std::ranges::min(missing));
  for (std::int64_t first = 0; first < rows; first += kRowsAtOnce) {
    const std::int64_t count = std::min(kRowsAtOnce, rows - first);
    const at::Tensor piece = at::zeros({count, num_classes_}, at::kFloat);
    float* values = piece.mutable_data_ptr<float>();
    for (std::int64_t row = first; row < first + count; ++row) {
      if (!team_.takes(row)) continue;
      std::copy_n(kept_.begin() + row / world_size * num_classes_, num_classes_,
                  values + (row - first) * num_classes_);
    }
    team_.sum(piece);
    if (!writer_) continue;
    for (std::int64_t row = 0; row < count; ++row) {
      writer_->append({values + row * num_classes_, static_cast<std::size_t>(num_classes_)},
                      std::span<const std::int64_t>(&num_classes_, 1));
    }
  }
}

void LogitsFile::close() {
  if (team_.has_others()) exchange();
  if (writer_) writer_->close();
}

}  // namespace hydrascope::app
