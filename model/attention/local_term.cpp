#include "model/attention/local_term.h"

#include "model/attention/attention.h"
#include "model/attention/sparse/sparse_form.h"
#include "model/attention/sparse/sparse_softmax.h"
#include "model/attention/sparse/window_pattern.h"

#include <ATen/ATen.h>

#include <utility>
#include <vector>

namespace hydrascope::model {
namespace {

using at::Tensor;

/// Edge of a window, at most; 0: there is none.
const ChoiceOption<std::int64_t>& local_option() {
  static const ChoiceOption<std::int64_t> option = [] {
    ChoiceOption<std::int64_t> made("local", {{"none", 0}, {"window7", 7}},
                                    "add softmax attention within windows of 7x7 patches");
    made.former_choices = {"conv3", "conv5", "conv7"};
    return made;
  }();
  return option;
}

std::vector<HeadPattern> window_patterns(std::int64_t window, std::int64_t num_heads) {
  std::vector<HeadPattern> heads;
  heads.push_back({num_heads, window_pattern({window, window})});
  return heads;
}

/// A mechanism and its local term.
class SumMixer final : public TokenMixer {
 public:
  SumMixer(std::unique_ptr<TokenMixer> global, std::unique_ptr<SparseSoftmaxMixer> local)
      : global_(std::move(global)), local_(std::move(local)) {}

  Tensor mix(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
             Kernels kernels) override {
    return (global_->mix(q, k, v, grid, kernels) + local_->mix(q, k, v, grid, kernels))
        .to(v.scalar_type());
  }
  Tensor attention_rows(const Tensor& q, const Tensor& k, const TokenGrid& grid, std::int64_t first,
                        std::int64_t count) override {
    return global_->attention_rows(q, k, grid, first, count);
  }
  Tensor mix_rows(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
                  std::int64_t first, std::int64_t count) override {
    return (global_->mix_rows(q, k, v, grid, first, count) +
            local_->mix_rows(q, k, v, grid, first, count))
        .to(v.scalar_type());
  }
  Tensor mix_state(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
                   const std::function<void(MixerState&)>& change) override {
    const bool are_all = q.size(2) == k.size(2);
    const Tensor local = are_all ? local_->mix(q, k, v, grid, Kernels::automatic)
                                 : local_->mix_rows(q, k, v, grid, 0, q.size(2));
    return (global_->mix_state(q, k, v, grid, change) + local).to(v.scalar_type());
  }
  Tensor weighted_rows(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                       const TokenGrid& grid, std::int64_t first, std::int64_t count) override {
    return global_->weighted_rows(q, k, v, g, grid, first, count) +
           local_->weighted_rows(q, k, v, g, grid, first, count);
  }
  [[nodiscard]] bool needs_all_queries() const override { return global_->needs_all_queries(); }
  [[nodiscard]] std::unique_ptr<KernelForm> kernel_form() const override {
    const std::unique_ptr<KernelForm> global = global_->kernel_form();
    return global ? global->beside(std::make_shared<const SparseForm>(*local_)) : nullptr;
  }
  [[nodiscard]] TokenMixer& global_part() override { return *global_; }

 private:
  std::unique_ptr<TokenMixer> global_;
  std::unique_ptr<SparseSoftmaxMixer> local_;  ///< windows
};

}  // namespace

MechanismEntry with_local_term(MechanismEntry entry) {
  entry.options.push_back(local_option());
  entry.cost = [cost = std::move(entry.cost)](const MixerSize& size,
                                              const MechanismOptions& options) {
    MixerCost sum = cost(size, options);
    // Queries, keys and values are in the mechanism's bytes.
    if (const std::int64_t window = local_option()(options); window > 0)
      sum.flops += sparse_cost(size, window_patterns(window, size.num_heads)).flops;
    return sum;
  };
  entry.make = [make = std::move(entry.make)](
                   const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
    std::unique_ptr<TokenMixer> mixer = make(arguments);
    const std::int64_t window = local_option()(arguments.options);
    if (window == 0) return mixer;
    return std::make_unique<SumMixer>(std::move(mixer),
                                      std::make_unique<SparseSoftmaxMixer>(
                                          window_patterns(window, arguments.num_heads), arguments,
                                          PrefixRows::scaled, GridExtent{window, window}));
  };
  return entry;
}

}  // namespace hydrascope::model
