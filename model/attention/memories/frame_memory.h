// The part of earlier frames that a layer keeps, and how the next frame is mixed with it. Each memory is
// a file of this folder that registers a MemoryEntry (model/registry/memories.h).
#pragma once

#include "model/attention/attention.h"
#include "model/registry/memories.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace hydrascope::model {

/// The memory of one layer for one video at a time. Frames come in order, one a call.
class FrameMemory {
 public:
  FrameMemory() = default;
  FrameMemory(const FrameMemory&) = delete;
  FrameMemory& operator=(const FrameMemory&) = delete;
  virtual ~FrameMemory() = default;

  /// `mixer.mix` of a frame, q, k, v (1, H, N, d), which also reads what is kept; the frame joins that.
  /// The tensors belong to the caller. Nothing has a gradient.
  virtual torch::Tensor mix(TokenMixer& mixer, const torch::Tensor& q, const torch::Tensor& k,
                            const torch::Tensor& v, const TokenGrid& grid, Kernels kernels);
  /// The first part of `mix`: nothing changes. It has a gradient in v. Here and in `join` q may be of the
  /// first tokens, of the prefix at least, unless the mixer `needs_all_queries`.
  virtual torch::Tensor look(TokenMixer& mixer, const torch::Tensor& q, const torch::Tensor& k,
                             const torch::Tensor& v, const TokenGrid& grid, Kernels kernels) = 0;
  /// The second part: the frame joins what is kept.
  virtual void join(TokenMixer& mixer, const torch::Tensor& q, const torch::Tensor& k,
                    const torch::Tensor& v, const TokenGrid& grid) = 0;
  /// The next frame is the first of its video.
  virtual void forget() = 0;
  /// `mixer.kernel_form()` with this memory in it; null: there are no such kernels.
  [[nodiscard]] virtual std::unique_ptr<KernelForm> kernel_form(const TokenMixer& /*mixer*/) const {
    return nullptr;
  }
};

/// A mixer with a memory. Rows of the map are the frame's alone.
class RememberingMixer final : public TokenMixer {
 public:
  RememberingMixer(std::unique_ptr<TokenMixer> mixer, std::unique_ptr<FrameMemory> memory);

  void forget() { memory_->forget(); }

  torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const TokenGrid& grid, Kernels kernels) override;
  torch::Tensor attention_rows(const torch::Tensor& q, const torch::Tensor& k,
                               const TokenGrid& grid, std::int64_t first,
                               std::int64_t count) override;
  torch::Tensor mix_rows(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                         const TokenGrid& grid, std::int64_t first, std::int64_t count) override;
  torch::Tensor weighted_rows(const torch::Tensor& q, const torch::Tensor& k,
                              const torch::Tensor& v, const torch::Tensor& g, const TokenGrid& grid,
                              std::int64_t first, std::int64_t count) override;
  [[nodiscard]] bool needs_all_queries() const override { return mixer_->needs_all_queries(); }
  [[nodiscard]] std::unique_ptr<KernelForm> kernel_form() const override {
    return memory_->kernel_form(*mixer_);
  }
  [[nodiscard]] torch::Tensor penalty() const override { return mixer_->penalty(); }
  [[nodiscard]] const PositionRule* position() const override { return mixer_->position(); }
  [[nodiscard]] TokenMixer& global_part() override { return mixer_->global_part(); }

 private:
  std::unique_ptr<TokenMixer> mixer_;
  std::unique_ptr<FrameMemory> memory_;
};

}  // namespace hydrascope::model
