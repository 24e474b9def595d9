#include "model/inference/gpu/cuda_plan.h"

#include "kernels/device/event.h"
#include "kernels/device/launch.h"
#include "kernels/error.h"
#include "kernels/linear/cublas_lt_products.h"
#include "model/inference/gpu/device_plan.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <exception>
#include <list>
#include <optional>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {
namespace {

using kernels::device::check_cuda;
using kernels::device::Event;
using kernels::device::Stream;

bool is_out_of_memory(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const c10::OutOfMemoryError&) {
    return true;
  } catch (const Error& error) {
    return error.code() == ErrorCode::out_of_memory;
  } catch (...) {
    return false;
  }
}

c10::Stream new_stream(const c10::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getNewStream(device);
}
Stream native(const c10::Stream& stream) { return static_cast<Stream>(stream.native_handle()); }

/// One of the batches on their way.
struct Slot {
  at::Tensor input;     ///< images of the batch, one after the other, on the device
  at::Tensor pinned;    ///< the same on their way there
  at::Tensor borrowed;  ///< the caller's, where they were on the device already
  at::Tensor logits;    ///< pinned
  at::Tensor trace;     ///< of this batch alone: the plan's is written anew by the next
  std::int64_t count = 0;
  Event copied;
  Event done;
};

class StreamedPlan final : public Engine {
 public:
  StreamedPlan(const EngineSource& source, const InferenceOptions& options)
      : Engine(source.model->config()),
        stream_(new_stream(options.device)),
        copies_(new_stream(options.device)) {
    const c10::StreamGuard guard(stream_);
    kernels::linear::cuda::CublasLtOptions library;
    library.stream = native(stream_);
    library.deterministic = options.deterministic;
    library.allocate = [device = options.device](std::size_t bytes) -> std::shared_ptr<void> {
      const at::Tensor memory =
          at::empty({static_cast<std::int64_t>(bytes)}, at::TensorOptions(device).dtype(at::kByte));
      return {memory.mutable_data_ptr(), [memory](void*) {}};
    };
    products_ = kernels::linear::cuda::make_cublas_lt_products(std::move(library));
    weights_.emplace(source, options);
    plan_options_ = {native(stream_), options.deterministic, options.trace_layers};
  }

  ~StreamedPlan() override {
    cudaStreamSynchronize(native(copies_));
    cudaStreamSynchronize(native(stream_));
  }

  void submit(const ImageBatch& batch) override;
  at::Tensor collect() override;
  [[nodiscard]] at::Tensor take_traced_tokens() override { return std::move(trace_); }
  [[nodiscard]] int under_way() const noexcept override {
    return static_cast<int>(under_way_.size());
  }
  [[nodiscard]] EngineLimits limits() const noexcept override {
    return {kSlots, /*takes_bytes=*/true, kBusyGpuTokens};
  }
  /// The softmax that is named is that of the shape at hand.
  [[nodiscard]] EngineDescription describe() const override {
    const bool chosen = weights_->has_softmax() && !shapes_.empty();
    const std::string backend = chosen ? shapes_.front().softmax() : "";
    return {weights_->what_runs() + (backend.empty() ? "" : "+softmax:" + backend),
            products_->describe()};
  }

 private:
  static constexpr int kSlots = 2;  ///< batches that may be on their way at once
  /// Sizes whose plans are kept: pictures of a few sizes in turns.
  static constexpr std::size_t kMostShapes = 4;

  /// The plan that serves so many images of that size; made where there is none.
  DevicePlan& plan_for(const DevicePlan::Shape& wanted);
  /// Copies the images into pinned memory and starts their way to the device.
  void stage(Slot& slot, const ImageBatch& batch);
  void start(Slot& slot, const ImageBatch& batch);
  /// Behind a failure: gives back the memory of all plans, and the slot's.
  void release(Slot& slot);

  c10::Stream stream_;
  c10::Stream copies_;
  std::unique_ptr<kernels::linear::cuda::Products> products_;
  std::optional<DeviceWeights> weights_;
  DevicePlanOptions plan_options_;
  std::list<DevicePlan> shapes_;  ///< the latest first
  std::array<Slot, kSlots> slots_;
  Event ready_;
  at::Tensor trace_;           ///< of the batch collected last
  std::deque<int> under_way_;  ///< slots, the oldest first
};

DevicePlan& StreamedPlan::plan_for(const DevicePlan::Shape& wanted) {
  for (auto each = shapes_.begin(); each != shapes_.end(); ++each) {
    const DevicePlan::Shape& shape = each->shape();
    if (shape.height != wanted.height || shape.width != wanted.width) continue;
    // The last batch of many may be a small one: up to half of the work may be in vain.
    if (wanted.batch <= shape.batch && shape.batch <= 2 * wanted.batch) {
      shapes_.splice(shapes_.begin(), shapes_, each);
      return *each;
    }
  }
  // Memory of the oldest goes to the newest, and no launch may be in the middle of it.
  check_cuda(cudaStreamSynchronize(native(stream_)), "the model on the GPU");
  if (shapes_.size() == kMostShapes) shapes_.pop_back();
  return shapes_.emplace_front(*weights_, plan_options_, *products_, wanted);
}

void StreamedPlan::stage(Slot& slot, const ImageBatch& batch) {
  const at::Tensor& first = batch.images.front();
  const auto image_bytes = static_cast<std::int64_t>(first.nbytes());
  const std::int64_t bytes = image_bytes * batch.size();
  if (!slot.pinned.defined() || slot.pinned.numel() < bytes) {
    slot.pinned.reset();
    slot.input.reset();
    slot.input = at::empty({bytes}, at::TensorOptions(stream_.device()).dtype(at::kByte));
    slot.pinned = at::empty({bytes}, at::TensorOptions(at::kByte).pinned_memory(true));
    // The allocator gives out memory in the order of `stream_`: what it held there may still be
    // read.
    slot.copied.record(native(stream_));
    slot.copied.hold_back(native(copies_));
  }
  auto* to = static_cast<std::byte*>(slot.pinned.mutable_data_ptr());
  for (const at::Tensor& image : batch.images) {
    if (image.sizes() != first.sizes() || image.scalar_type() != first.scalar_type())
      throw Error(ErrorCode::internal, "images of a batch differ in size or type", "CudaPlan");
    const at::Tensor contiguous = image.contiguous();
    std::memcpy(to, contiguous.const_data_ptr(), static_cast<std::size_t>(image_bytes));
    to += image_bytes;
  }
  check_cuda(
      cudaMemcpyAsync(slot.input.mutable_data_ptr(), slot.pinned.const_data_ptr(),
                      static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, native(copies_)),
      "cudaMemcpyAsync");
  slot.copied.record(native(copies_));
  slot.copied.hold_back(native(stream_));
}

void StreamedPlan::start(Slot& slot, const ImageBatch& batch) {
  DevicePlan& plan = plan_for({batch.size(), batch.height, batch.width});
  slot.borrowed = batch.on_device;
  if (batch.on_device.defined()) {
    plan.patchify(batch.on_device);
  } else {
    stage(slot, batch);
    const at::Tensor& first = batch.images.front();
    std::vector<std::int64_t> sizes{batch.size()};
    sizes.insert(sizes.end(), first.sizes().begin(), first.sizes().end());
    const at::Tensor images = at::from_blob(slot.input.mutable_data_ptr(), sizes,
                                            slot.input.options().dtype(first.dtype()));
    if (batch.is_bytes()) {
      plan.patchify({images, batch.mean, batch.std, batch.height, batch.width});
    } else {
      plan.patchify(images);
    }
  }
  plan.run();
  const at::Tensor& logits = plan.logits();
  if (!slot.logits.defined() || slot.logits.sizes() != logits.sizes())
    slot.logits = at::empty(logits.sizes(), at::TensorOptions(at::kFloat).pinned_memory(true));
  check_cuda(cudaMemcpyAsync(slot.logits.mutable_data_ptr(), logits.const_data_ptr(),
                             logits.nbytes(), cudaMemcpyDeviceToHost, native(stream_)),
             "cudaMemcpyAsync");
  if (plan.trace().defined())
    slot.trace = plan.trace().narrow(0, 0, batch.size()).to(at::kFloat, false, /*copy=*/true);
  slot.done.record(native(stream_));
  slot.count = batch.size();
}

void StreamedPlan::submit(const ImageBatch& batch) {
  const c10::InferenceMode inference;
  if (under_way() >= kSlots || batch.size() == 0)
    throw Error(ErrorCode::internal, "more batches than the plan holds, or an empty one",
                "CudaPlan");
  if (batch.on_device.defined()) {
    // Whatever wrote them did so on the caller's stream.
    const c10::Device device = stream_.device();
    const c10::Stream callers = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
    const c10::StreamGuard guard(callers);
    ready_.record(native(callers));
    ready_.hold_back(native(stream_));
  }
  const c10::StreamGuard guard(stream_);
  int free = 0;
  while (std::ranges::find(under_way_, free) != under_way_.end()) ++free;
  Slot& slot = slots_[static_cast<std::size_t>(free)];
  try {
    start(slot, batch);
  } catch (...) {
    // Memory of plans may be what was missing; else it is what a smaller batch would lack.
    const bool any_plan = !shapes_.empty();
    release(slot);
    if (!any_plan || !is_out_of_memory(std::current_exception())) throw;
    try {
      start(slot, batch);
    } catch (...) {
      release(slot);
      throw;
    }
  }
  under_way_.push_back(free);
}

void StreamedPlan::release(Slot& slot) {
  // What is under way has its logits when the stream is idle.
  cudaStreamSynchronize(native(copies_));
  cudaStreamSynchronize(native(stream_));
  cudaGetLastError();  // else LibTorch reports it for its own next launch
  shapes_.clear();
  slot.input.reset();
  slot.pinned.reset();
  slot.borrowed.reset();
}

at::Tensor StreamedPlan::collect() {
  if (under_way_.empty()) throw Error(ErrorCode::internal, "no batch is under way", "CudaPlan");
  Slot& slot = slots_[static_cast<std::size_t>(under_way_.front())];
  under_way_.pop_front();
  slot.done.wait("the model on the GPU");
  slot.borrowed.reset();
  trace_ = std::move(slot.trace);
  slot.trace.reset();
  if (trace_.defined()) {
    // It is of `stream_`'s memory: not given out again before what the caller's stream does is done.
    const c10::Device device = stream_.device();
    trace_.record_stream(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  }
  return slot.logits.narrow(0, 0, slot.count).clone();
}

}  // namespace

std::unique_ptr<Engine> make_cuda_plan(const EngineSource& source,
                                       const InferenceOptions& options) {
  return std::make_unique<StreamedPlan>(source, options);
}

}  // namespace hydrascope::model::inference
