#include "model/inference/gpu/cuda_plan.h"

#include "kernels/device/event.h"
#include "kernels/device/launch.h"
#include "kernels/error.h"
#include "kernels/linear/cublas_lt_products.h"
#include "model/inference/gpu/device_plan.h"
#include "model/inference/overlap.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <list>
#include <memory>
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

/// The room of one of the batches on their way.
struct Slot {
  bool taken = false;
  bool is_started = false;  ///< and nobody has waited for `done`
  at::Tensor input;         ///< images of the batch, one after the other, on the device
  at::Tensor pinned;        ///< the same on their way there
  at::Tensor borrowed;      ///< the caller's, if they were on the device already
  at::Tensor logits;        ///< pinned
  at::Tensor trace;         ///< this batch's copy: the next batch overwrites the plan's
  std::int64_t count = 0;
  Event copied;
  Event done;
};

class StreamedPlan final : public Engine, public Overlap {
 public:
  StreamedPlan(const WeightTable& weights, const InferenceOptions& options)
      : Engine(weights.config(), options),
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
    weights_.emplace(weights, options);
    plan_options_ = {native(stream_), options.deterministic, options.trace_layers};
  }

  ~StreamedPlan() override {
    cudaStreamSynchronize(native(copies_));
    cudaStreamSynchronize(native(stream_));
  }

  [[nodiscard]] std::int64_t enough_tokens() const noexcept override { return kBusyGpuTokens; }
  [[nodiscard]] Overlap* overlap() noexcept override { return this; }
  [[nodiscard]] int most_under_way() const noexcept override { return kSlots; }
  PendingBatch::Wait begin(const ImageBatch& batch) override;
  /// Names the softmax of the shape at hand.
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

  EngineOutputs run(const ImageBatch& batch) override { return begin(batch)(); }
  /// Error(internal) if all are taken. Its owner gives the slot back.
  std::shared_ptr<Slot> free_slot();
  static EngineOutputs finish(Slot& slot);
  static void give_back(Slot& slot) noexcept;
  /// The plan that serves so many images of that size; made if there is none.
  DevicePlan& plan_for(const DevicePlan::Shape& wanted);
  /// Copies the images into pinned memory and starts their way to the device.
  void stage(Slot& slot, const ImageBatch& batch);
  void launch(Slot& slot, const ImageBatch& batch);
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
    // The allocator orders its memory by `stream_`: unfinished work of `stream_` may still read it.
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

void StreamedPlan::launch(Slot& slot, const ImageBatch& batch) {
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

PendingBatch::Wait StreamedPlan::begin(const ImageBatch& batch) {
  const c10::InferenceMode inference;
  if (batch.size() == 0) throw Error(ErrorCode::internal, "a batch without images", "CudaPlan");
  std::shared_ptr<Slot> slot = free_slot();
  if (batch.on_device.defined()) {
    // The images were written on the caller's stream.
    const c10::Device device = stream_.device();
    const c10::Stream callers = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
    const c10::StreamGuard guard(callers);
    ready_.record(native(callers));
    ready_.hold_back(native(stream_));
  }
  const c10::StreamGuard guard(stream_);
  try {
    launch(*slot, batch);
  } catch (...) {
    // The plans' memory may have been missing; without plans a smaller batch is the way out.
    const bool any_plan = !shapes_.empty();
    release(*slot);
    if (!any_plan || !is_out_of_memory(std::current_exception())) throw;
    try {
      launch(*slot, batch);
    } catch (...) {
      release(*slot);
      throw;
    }
  }
  slot->is_started = true;
  return [slot = std::move(slot)] { return finish(*slot); };
}

std::shared_ptr<Slot> StreamedPlan::free_slot() {
  const auto slot = std::ranges::find(slots_, false, &Slot::taken);
  if (slot == slots_.end())
    throw Error(ErrorCode::internal, "more batches than the plan holds", "CudaPlan");
  slot->taken = true;
  return {&*slot, [](Slot* of_batch) { give_back(*of_batch); }};
}

void StreamedPlan::release(Slot& slot) {
  // Batches under way have their logits when the stream is idle.
  cudaStreamSynchronize(native(copies_));
  cudaStreamSynchronize(native(stream_));
  cudaGetLastError();  // else LibTorch reports it for its own next launch
  shapes_.clear();
  slot.input.reset();
  slot.pinned.reset();
  slot.borrowed.reset();
}

EngineOutputs StreamedPlan::finish(Slot& slot) {
  slot.done.wait("the model on the GPU");
  slot.is_started = false;
  if (slot.trace.defined()) {
    // It is of the plan's stream: not given out again before the work of the caller's stream is done.
    const c10::Device device = slot.trace.device();
    slot.trace.record_stream(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  }
  return {slot.logits.narrow(0, 0, slot.count).clone(), std::move(slot.trace)};
}

void StreamedPlan::give_back(Slot& slot) noexcept {
  if (slot.is_started) {
    try {
      slot.done.wait("the model on the GPU");
    } catch (...) {  // nobody waits for the outputs
    }
  }
  slot.borrowed.reset();
  slot.trace.reset();
  slot.is_started = slot.taken = false;
}

}  // namespace

std::unique_ptr<Engine> make_cuda_plan(const WeightTable& weights,
                                       const InferenceOptions& options) {
  return std::make_unique<StreamedPlan>(weights, options);
}

}  // namespace hydrascope::model::inference
