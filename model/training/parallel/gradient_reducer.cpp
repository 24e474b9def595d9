#include "model/training/parallel/gradient_reducer.h"

#include "kernels/error.h"
#include "model/vision_transformer.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <mutex>

namespace hydrascope::model::training {
namespace {

/// Gradients that are exchanged together. They lie in `flat` one after the other.
struct Bucket {
  std::vector<std::size_t> parameters;
  at::Tensor flat;
  std::size_t missing = 0;  ///< parameters whose gradients this pass has not brought yet
  std::unique_ptr<ProcessGroup::Pending> sum;
};

struct Place {
  std::size_t bucket = 0;
  std::int64_t offset = 0;  ///< in its flat tensor
};

/// Two sums over a tensor's bits, the second weighted by position, so that swapped values show.
/// They may wrap around, on every rank alike.
at::Tensor checksum(const at::Tensor& tensor) {
  const at::Tensor bytes = tensor.detach().contiguous().reshape({-1}).view(at::kByte);
  const bool in_words = bytes.numel() % 4 == 0;
  const at::Tensor words = (in_words ? bytes.view(at::kInt) : bytes).to(at::kLong);
  const at::Tensor weights = at::arange(1, words.numel() + 1, words.options());
  return at::stack({words.sum(), (words * weights).sum()});
}

}  // namespace

/// Buckets are launched in their order, whatever the order in which gradients come: ranks that took
/// different ways through the graph still sum the same things.
struct GradientReducer::State {
  State(NamedTensors named, ProcessGroup& process_group, std::int64_t bucket_bytes)
      : parameters(std::move(named)), group(process_group) {
    std::vector<at::Tensor> values;
    for (const auto& [name, parameter] : parameters) values.push_back(parameter);
    const c10::AutoGradMode no_grad(false);
    group.broadcast(values);
    make_buckets(bucket_bytes);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      torch::autograd::impl::set_post_acc_grad_hooks(parameters[i].second,
                                                     std::make_unique<Accumulated>(*this, i));
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    for (const auto& [name, parameter] : parameters)
      torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
  }

  /// Runs when autograd has added to a parameter's gradient.
  struct Accumulated final : torch::autograd::PostAccumulateGradHook {
    Accumulated(State& owner, std::size_t index) : state(owner), parameter(index) {}
    void operator()(const at::Tensor&) override { state.gradient_is_there(parameter); }
    State& state;
    std::size_t parameter;
  };

  /// Backwards: the last layers' gradients come first.
  void make_buckets(std::int64_t bucket_bytes) {
    places.resize(parameters.size());
    std::int64_t filled = 0;
    for (std::size_t i = parameters.size(); i-- > 0;) {
      const at::Tensor& parameter = parameters[i].second;
      const auto bytes = static_cast<std::int64_t>(parameter.nbytes());
      const bool fits = !buckets.empty() && filled + bytes <= bucket_bytes &&
                        matches(parameters[buckets.back().parameters.front()].second, parameter);
      if (!fits) {
        buckets.emplace_back();
        filled = 0;
      }
      places[i] = {buckets.size() - 1, filled / static_cast<std::int64_t>(parameter.itemsize())};
      buckets.back().parameters.push_back(i);
      filled += bytes;
    }
    for (Bucket& bucket : buckets) {
      std::int64_t count = 0;
      for (const std::size_t i : bucket.parameters) count += parameters[i].second.numel();
      bucket.flat = at::zeros({count}, parameters[bucket.parameters.front()].second.options());
    }
  }

  static bool matches(const at::Tensor& a, const at::Tensor& b) {
    return a.scalar_type() == b.scalar_type() && a.device() == b.device();
  }

  [[nodiscard]] at::Tensor slice(std::size_t parameter) const {
    const at::Tensor& values = parameters[parameter].second;
    const Place& place = places[parameter];
    return buckets[place.bucket].flat.narrow(0, place.offset, values.numel()).view(values.sizes());
  }

  void begin(bool exchange) {
    if (is_exchanging) throw Error(ErrorCode::internal, "begin before finish", "GradientReducer");
    is_exchanging = exchange;
    if (!exchange) return;
    launched = 0;
    is_there.assign(parameters.size(), 0);
    for (Bucket& bucket : buckets) bucket.missing = bucket.parameters.size();
  }

  /// On the thread of a backward pass, of which there is one a device.
  void gradient_is_there(std::size_t parameter) {
    if (!is_exchanging) return;
    const std::lock_guard lock(mutex);
    if (is_there[parameter] != 0) {
      throw Error(ErrorCode::internal, "two backward passes reached " + parameters[parameter].first,
                  "GradientReducer");
    }
    take(parameter);
    --buckets[places[parameter].bucket].missing;
    while (launched < buckets.size() && buckets[launched].missing == 0) launch();
  }

  void take(std::size_t parameter) {
    const c10::AutoGradMode no_grad(false);
    slice(parameter).copy_(parameters[parameter].second.grad());
    is_there[parameter] = 1;
  }

  void launch() {
    Bucket& bucket = buckets[launched++];
    bucket.sum = group.start_sum(bucket.flat);
  }

  void finish() {
    if (!is_exchanging) return;
    is_exchanging = false;
    const c10::AutoGradMode no_grad(false);
    // What the pass did not reach: gradients of earlier passes, else zeros.
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (is_there[i] != 0) continue;
      if (parameters[i].second.grad().defined()) {
        take(i);
      } else {
        slice(i).zero_();
      }
    }
    while (launched < buckets.size()) launch();
    const at::Tensor ranks_with =
        at::tensor(is_there, at::kInt).to(buckets.front().flat.device(), /*non_blocking=*/true);
    const auto flags = group.start_sum(ranks_with);
    for (Bucket& bucket : buckets) {
      bucket.sum->wait();
      bucket.sum.reset();
      bucket.flat.div_(group.world_size());
    }
    flags->wait();
    // Read only if a gradient is missing here, which makes a GPU wait; where one is, it is there.
    const bool all_there = std::ranges::find(is_there, 0) == is_there.end();
    const at::Tensor counts = all_there ? at::Tensor() : ranks_with.cpu();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!all_there && counts.const_data_ptr<std::int32_t>()[i] == 0) continue;
      at::Tensor& gradient = parameters[i].second.mutable_grad();
      if (gradient.defined()) {
        gradient.copy_(slice(i));
      } else {
        gradient = slice(i).clone();
      }
    }
  }

  void check_equal() {
    const c10::AutoGradMode no_grad(false);
    std::vector<at::Tensor> sums;
    for (const auto& [name, parameter] : parameters) sums.push_back(checksum(parameter).cpu());
    const at::Tensor mine = at::stack(sums);
    at::Tensor first = mine.clone();
    group.broadcast({first});
    at::Tensor differs = mine.ne(first).any(1).to(at::kInt);
    group.sum({differs});
    const std::int32_t* ranks = differs.const_data_ptr<std::int32_t>();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (ranks[i] == 0) continue;
      throw Error(ErrorCode::failed,
                  "its values on " + std::to_string(ranks[i]) + " of " +
                      std::to_string(group.world_size()) + " ranks are not those on rank 0",
                  parameters[i].first, "do all ranks run the same program with the same options?");
    }
  }

  NamedTensors parameters;
  ProcessGroup& group;
  std::vector<Bucket> buckets;
  std::vector<Place> places;  ///< of the parameters
  std::mutex mutex;           ///< of what backward passes touch: all below
  std::vector<std::int32_t> is_there;
  std::size_t launched = 0;  ///< buckets
  bool is_exchanging = false;
};

void share_weights(VisionTransformerImpl& model, ProcessGroup& group) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named_tensors(model)) tensors.push_back(tensor);
  group.broadcast(tensors);
}

GradientReducer::GradientReducer(NamedTensors parameters, ProcessGroup& group,
                                 std::int64_t bucket_bytes) {
  if (group.world_size() == 1 || parameters.empty()) return;
  state_ = std::make_unique<State>(std::move(parameters), group, bucket_bytes);
}

GradientReducer::~GradientReducer() = default;

void GradientReducer::begin(bool exchange) {
  if (state_) state_->begin(exchange);
}

void GradientReducer::finish() {
  if (state_) state_->finish();
}

void GradientReducer::check_equal() {
  if (state_) state_->check_equal();
}

}  // namespace hydrascope::model::training
