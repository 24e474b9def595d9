#include "model/inference/cuda_plan.h"

#include "kernels/device/launch.h"
#include "kernels/error.h"
#include "kernels/linear/cublas_lt_products.h"
#include "model/inference/device_plan.h"
#include "model/inference/softmax_backend.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {
namespace {

using kernels::device::check_cuda;
using kernels::device::Stream;
using kernels::linear::cuda::ProductType;

ProductType product_type(const Precision& precision) {
  switch (precision.dtype) {
    case at::kBFloat16: return ProductType::bfloat16;
    case at::kHalf: return ProductType::float16;
    default: return precision.tf32 ? ProductType::tf32 : ProductType::float32;
  }
}

c10::Stream new_stream(const c10::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getNewStream(device);
}
Stream native(const c10::Stream& stream) { return static_cast<Stream>(stream.native_handle()); }

class Event {
 public:
  Event() {
    check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate");
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { cudaEventDestroy(event_); }
  void record(Stream stream) { check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  void hold_back(Stream stream) {
    check_cuda(cudaStreamWaitEvent(stream, event_), "cudaStreamWaitEvent");
  }
  void wait() { check_cuda(cudaEventSynchronize(event_), "the model on the GPU"); }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Each stretch runs once as it is, which loads the kernels; then it is captured; then repeated.
class GraphRecorder final : public LaunchRecorder {
 public:
  explicit GraphRecorder(Stream stream) : stream_(stream) {}
  GraphRecorder(const GraphRecorder&) = delete;
  GraphRecorder& operator=(const GraphRecorder&) = delete;
  ~GraphRecorder() override { forget(); }

  void run(std::size_t stretch, const std::function<void()>& launches) override {
    if (stretch >= graphs_.size()) graphs_.resize(stretch + 1);
    Recorded& recorded = graphs_[stretch];
    // Faults can be told apart only where each launch is waited for, which a graph cannot.
    if (!recorded.warm || kernels::device::synchronous_launches()) {
      launches();
      recorded.warm = true;
      return;
    }
    if (recorded.graph == nullptr) recorded.graph = capture(launches);
    check_cuda(cudaGraphLaunch(recorded.graph, stream_), "cudaGraphLaunch");
  }

  void forget() override {
    for (const Recorded& each : graphs_) {
      if (each.graph != nullptr) cudaGraphExecDestroy(each.graph);
    }
    graphs_.clear();
  }

 private:
  struct Recorded {
    bool warm = false;
    cudaGraphExec_t graph = nullptr;
  };

  cudaGraphExec_t capture(const std::function<void()>& launches) {
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture");
    try {
      launches();
    } catch (...) {
      cudaStreamEndCapture(stream_, &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
      throw;
    }
    check_cuda(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    cudaGraphExec_t executable = nullptr;
    const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(status, "cudaGraphInstantiate");
    return executable;
  }

  Stream stream_;
  std::vector<Recorded> graphs_;
};

/// One of the batches on their way.
struct Slot {
  at::Tensor pinned;  ///< images of the batch, one after the other
  at::Tensor input;   ///< the same on the device
  at::Tensor logits;  ///< pinned
  std::int64_t count = 0;
  Event copied;
  Event done;
};

class StreamedPlan final : public CudaPlan {
 public:
  StreamedPlan(VisionTransformer model, const CudaPlanOptions& chosen)
      : options_(chosen),
        stream_(new_stream(options_.device)),
        copies_(new_stream(options_.device)),
        recorder_(native(stream_)),
        softmax_(native(stream_), options_.deterministic) {
    const c10::StreamGuard guard(stream_);
    at::globalContext().setAllowTF32CuBLAS(options_.precision.tf32);
    at::globalContext().setAllowTF32CuDNN(options_.precision.tf32);
    kernels::linear::cuda::CublasLtOptions library;
    library.stream = native(stream_);
    library.deterministic = options_.deterministic;
    library.allocate = [device = options_.device](std::size_t bytes) -> std::shared_ptr<void> {
      const at::Tensor memory =
          at::empty({static_cast<std::int64_t>(bytes)}, at::TensorOptions(device).dtype(at::kByte));
      return {memory.mutable_data_ptr(), [memory](void*) {}};
    };
    products_ = kernels::linear::cuda::make_cublas_lt_products(std::move(library));
    DevicePlanOptions device_options;
    device_options.device = options_.device;
    device_options.type = product_type(options_.precision);
    device_options.kernels = options_.kernels;
    device_options.pos_interp = options_.pos_interp;
    device_options.stream = native(stream_);
    device_options.softmax = [this](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
      return softmax_.attend(q, k, v);
    };
    device_options.fill_block = options_.fill_block;
    plan_.emplace(std::move(model), std::move(device_options), *products_, recorder_);
    options_.fill_block = {};
  }

  ~StreamedPlan() override { cudaStreamSynchronize(native(stream_)); }

  void submit(const ImageBatch& batch) override;
  at::Tensor collect() override;
  [[nodiscard]] int pending() const override { return static_cast<int>(under_way_.size()); }
  [[nodiscard]] std::string kernels() const override {
    const std::string backend = plan_->has_softmax() ? softmax_.name() : "";
    return plan_->kernels() + (backend.empty() ? "" : "+softmax:" + backend);
  }

 private:
  /// Copies the images into pinned memory and starts their way to the device.
  void stage(Slot& slot, const ImageBatch& batch);
  void start(Slot& slot, const ImageBatch& batch);

  CudaPlanOptions options_;
  c10::Stream stream_;
  c10::Stream copies_;
  GraphRecorder recorder_;
  SoftmaxBackend softmax_;
  std::unique_ptr<kernels::linear::cuda::Products> products_;
  std::optional<DevicePlan> plan_;
  std::array<Slot, kSlots> slots_;
  Event ready_;
  std::deque<int> under_way_;  ///< slots_, the oldest first
};

void StreamedPlan::stage(Slot& slot, const ImageBatch& batch) {
  const auto image_bytes = static_cast<std::int64_t>(batch.images.front().nbytes());
  const std::int64_t bytes = image_bytes * batch.size();
  if (!slot.pinned.defined() || slot.pinned.numel() < bytes) {
    slot.pinned.reset();
    slot.input.reset();
    slot.pinned = at::empty({bytes}, at::TensorOptions(at::kByte).pinned_memory(true));
    slot.input = at::empty({bytes}, at::TensorOptions(options_.device).dtype(at::kByte));
    // The allocator gives out memory in the order of `stream_`: what it held there may still be
    // read.
    slot.copied.record(native(stream_));
    slot.copied.hold_back(native(copies_));
  }
  auto* to = static_cast<std::byte*>(slot.pinned.mutable_data_ptr());
  for (const at::Tensor& image : batch.images) {
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
  if (batch.on_device.defined()) {
    plan_->patchify(batch.on_device);
  } else {
    stage(slot, batch);
    const at::Tensor& first = batch.images.front();
    std::vector<std::int64_t> sizes{batch.size()};
    sizes.insert(sizes.end(), first.sizes().begin(), first.sizes().end());
    const at::Tensor images = at::from_blob(slot.input.mutable_data_ptr(), sizes,
                                            slot.input.options().dtype(first.dtype()));
    if (batch.is_bytes()) {
      plan_->patchify({images, batch.mean, batch.std, batch.height, batch.width});
    } else {
      plan_->patchify(images);
    }
  }
  plan_->run();
  const at::Tensor& logits = plan_->logits();
  if (!slot.logits.defined() || slot.logits.sizes() != logits.sizes())
    slot.logits = at::empty(logits.sizes(), at::TensorOptions(at::kFloat).pinned_memory(true));
  check_cuda(cudaMemcpyAsync(slot.logits.mutable_data_ptr(), logits.const_data_ptr(),
                             logits.nbytes(), cudaMemcpyDeviceToHost, native(stream_)),
             "cudaMemcpyAsync");
  slot.done.record(native(stream_));
  slot.count = batch.size();
}

void StreamedPlan::submit(const ImageBatch& batch) {
  const c10::InferenceMode inference;
  if (pending() >= kSlots)
    throw Error(ErrorCode::internal, "more batches than the plan_ holds", "CudaPlan");
  if (batch.on_device.defined()) {
    // Whatever wrote them did so on the caller's stream.
    const c10::Stream callers =
        c10::impl::VirtualGuardImpl(options_.device.type()).getStream(options_.device);
    ready_.record(native(callers));
    ready_.hold_back(native(stream_));
  }
  const c10::StreamGuard guard(stream_);
  if (!plan_->serves(batch.size(), batch.height, batch.width)) {
    check_cuda(cudaStreamSynchronize(native(stream_)), "the model on the GPU");
    softmax_.forget();
    plan_->prepare(batch.size(), batch.height, batch.width);
  }
  int free = 0;
  while (!under_way_.empty() && under_way_.front() == free) ++free;
  start(slots_[static_cast<std::size_t>(free)], batch);
  under_way_.push_back(free);
}

at::Tensor StreamedPlan::collect() {
  Slot& slot = slots_[static_cast<std::size_t>(under_way_.front())];
  under_way_.pop_front();
  slot.done.wait();
  return slot.logits.narrow(0, 0, slot.count).clone();
}

}  // namespace

std::unique_ptr<CudaPlan> make_cuda_plan(VisionTransformer model, const CudaPlanOptions& options) {
  return std::make_unique<StreamedPlan>(std::move(model), options);
}

}  // namespace hydrascope::model::inference
