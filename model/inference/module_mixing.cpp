#include "model/inference/module_mixing.h"

#include "model/inference/one_torch_thread.h"

#include <ATen/ATen.h>

#include <cstdint>

namespace hydrascope::model::inference {
namespace {

template <class T>
class ModuleMixing final : public Mixing<T> {
 public:
  ModuleMixing(TokenMixer& mixer, Kernels kernels, const MixingSite& site)
      : mixer_(mixer), kernels_(kernels), grid_(site.grid), num_heads_(site.num_heads) {}

  [[nodiscard]] MixingManner manner() const override {
    return {.rows = MixingManner::Rows::until_combined,
            .mixes_all_at_once = true,
            .wants_all_queries = true};
  }
  MixingRoom plan(const Extent&) override { return {}; }

  void combine(const Meeting& meeting, const MixingMemory<T>& memory) const override {
    StageClock clock(meeting.times);
    const std::int64_t tokens = memory.num_tokens;
    const OneTorchThread few(is_little_work(meeting.images * tokens * memory.dim));
    const MixingRows<T>& rows = memory.kept;
    const auto heads = [&](T* from, std::int64_t stride) {
      return split_heads(at::from_blob(from, {meeting.images, tokens, memory.dim},
                                       {tokens * stride, stride, 1}, kType),
                         num_heads_);
    };
    at::from_blob(memory.mixed, {meeting.images, tokens, memory.dim}, kType)
        .copy_(mixer_.mix(heads(rows.queries, rows.query_stride), heads(rows.keys, rows.stride),
                          heads(rows.values, rows.stride), grid_, kernels_));
    clock.lap(Stage::module);
  }

 private:
  static constexpr at::ScalarType kType = sizeof(T) == 4 ? at::kFloat : at::kBFloat16;

  TokenMixer& mixer_;
  Kernels kernels_;
  TokenGrid grid_;
  std::int64_t num_heads_;
};

}  // namespace

AnyMixing module_mixing(TokenMixer& mixer, Kernels kernels, const MixingSite& site,
                        kernels::Storage storage) {
  return make_mixing<ModuleMixing>(storage, mixer, kernels, site);
}

}  // namespace hydrascope::model::inference
