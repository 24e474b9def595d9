#include "model/inference/cpu/precision_choice.h"

#include "kernels/device/matrix_instructions.h"
#include "kernels/hydra/hydra.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/linear/linear.h"
#include "kernels/stopwatch.h"
#include "kernels/vector/aligned_buffer.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace hydrascope::model::inference {
namespace {

using kernels::AlignedBuffer;
using kernels::Storage;
using kernels::linear::Epilogue;
using kernels::linear::LinearParams;
using kernels::linear::PackedWeight;

constexpr std::int64_t kTrialRows = 96;  // of a tile; whole tiles of AMX
constexpr std::int64_t kNarrowestTrial = 64;
constexpr std::int64_t kWidestTrial = 256;  // 3 to 6 ms in all; the ratio moves little beyond
constexpr std::int64_t kMlpRatio = 4;
constexpr int kTrialRounds = 5;

/// Small numbers of both signs, the same in every run.
std::vector<float> trial_numbers(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = (static_cast<float>(i * 7919 % 4099) / 4099.0F - 0.5F) / 16.0F;
  return values;
}

template <class T>
class BlockTrial {
 public:
  explicit BlockTrial(std::int64_t dim, const std::vector<float>& weights)
      : dim_(dim),
        fc1_(kStorage, weights.data(), kMlpRatio * dim, dim, dim),
        fc2_(kStorage, weights.data(), dim, kMlpRatio * dim, kMlpRatio * dim),
        x_(static_cast<std::size_t>(kTrialRows * dim)),
        rows_(x_.size()),
        wide_(x_.size() * kMlpRatio),
        sum_(static_cast<std::size_t>(dim)) {
    std::transform(weights.begin(), weights.begin() + kTrialRows, x_.begin(),
                   [](float value) { return T(value); });
    for (std::size_t i = kTrialRows; i < x_.size(); ++i) x_[i] = x_[i - kTrialRows];
  }

  /// Seconds of one round.
  double run() {
    const Clock::time_point begin = Clock::now();
    const auto norm = [&] {
      kernels::layer_norm::layer_norm(kernels::layer_norm::LayerNormParams<T>{
          x_.data(), dim_, kTrialRows, dim_, nullptr, nullptr, 1e-6F, rows_.data(), dim_});
    };
    norm();
    kernels::linear::linear(LinearParams<T>{rows_.data(), dim_, kTrialRows, &fc1_, nullptr,
                                            wide_.data(), kMlpRatio * dim_, Epilogue::gelu});
    kernels::linear::linear(LinearParams<T>{wide_.data(), kMlpRatio * dim_, kTrialRows, &fc2_,
                                            nullptr, x_.data(), dim_, Epilogue::add});
    norm();
    // A quarter of the wide rows each stands for queries, keys and values.
    kernels::hydra::ProjectParams<T> p{};
    p.q = wide_.data();
    p.k = wide_.data() + dim_;
    p.v = wide_.data() + 2 * dim_;
    p.q_stride = p.stride = kMlpRatio * dim_;
    p.query_rows = p.rows = kTrialRows;
    p.dim = dim_;
    p.q_hat = rows_.data();
    p.q_hat_stride = dim_;
    p.sum = sum_.data();
    kernels::hydra::project(p);
    kernels::hydra::gate(kernels::hydra::GateParams<T>{rows_.data(), dim_, sum_.data(), kTrialRows,
                                                       dim_, rows_.data(), dim_});
    return seconds_since(begin);
  }

 private:
  static constexpr Storage kStorage = sizeof(T) == 2 ? Storage::bfloat16 : Storage::float32;
  std::int64_t dim_;
  PackedWeight fc1_;
  PackedWeight fc2_;
  AlignedBuffer<T> x_;
  AlignedBuffer<T> rows_;
  AlignedBuffer<T> wide_;
  AlignedBuffer<float> sum_;
};

bool multiplies_bfloat16() {
  using kernels::device::MatrixInstruction;
  using kernels::device::may_use;
  return may_use(MatrixInstruction::avx512_bf16) || may_use(MatrixInstruction::amx_bf16);
}

std::optional<Storage> row_storage_of_test;

}  // namespace

Storage row_storage() {
  if (row_storage_of_test) return *row_storage_of_test;
  return multiplies_bfloat16() ? Storage::bfloat16 : Storage::float32;
}

void set_row_storage_for_test(std::optional<Storage> storage) { row_storage_of_test = storage; }

std::optional<StorageTimings> measure_storages(std::int64_t embed_dim) {
  if (!multiplies_bfloat16()) return std::nullopt;
  const std::int64_t dim = std::clamp(embed_dim, kNarrowestTrial, kWidestTrial);
  const std::vector<float> weights = trial_numbers(kMlpRatio * dim * dim);
  BlockTrial<float> float32(dim, weights);
  BlockTrial<kernels::BFloat16> bfloat16(dim, weights);
  float32.run();  // fetches memory and, on some processors, wakes the wide vectors
  bfloat16.run();
  constexpr double kNever = std::numeric_limits<double>::infinity();
  StorageTimings best{kNever, kNever};
  for (int round = 0; round < kTrialRounds; ++round) {
    best.float32 = std::min(best.float32, float32.run());
    best.bfloat16 = std::min(best.bfloat16, bfloat16.run());
  }
  return best;
}

}  // namespace hydrascope::model::inference
