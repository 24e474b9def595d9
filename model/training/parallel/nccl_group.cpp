// NCCL through its C interface. c10d's ProcessGroupNCCL would do, but its header needs those of
// CUDA and NCCL, its size is known from that header alone, and its watchdog ends the process
// instead of reporting an error.
#include "kernels/error.h"
#include "model/training/parallel/rendezvous.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <array>
#include <dlfcn.h>
#include <string>
#include <thread>

namespace hydrascope::model::training {
namespace {

// NCCL's C interface, as far as it is used here. libtorch_cuda.so brings the library along; it is
// looked up at run time because no build, and no run on the CPU, shall need CUDA.
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api.html (stable within version 2)

struct NcclUniqueId {
  std::array<char, 128> bytes;
};
using NcclComm = void*;
using NcclStream = void*;  ///< cudaStream_t
using NcclResult = int;

inline constexpr NcclResult kNcclSuccess = 0;
inline constexpr NcclResult kNcclInProgress = 7;
inline constexpr int kNcclSum = 0;

/// Values of ncclDataType_t.
enum class NcclType : int {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  int64 = 4,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
};

struct NcclLibrary {
  NcclResult (*get_unique_id)(NcclUniqueId* id) = nullptr;
  NcclResult (*comm_init_rank)(NcclComm* comm, int ranks, NcclUniqueId id, int rank) = nullptr;
  NcclResult (*comm_destroy)(NcclComm comm) = nullptr;
  NcclResult (*comm_abort)(NcclComm comm) = nullptr;
  NcclResult (*comm_async_error)(NcclComm comm, NcclResult* error) = nullptr;
  NcclResult (*all_reduce)(const void* send, void* receive, std::size_t count, NcclType type,
                           int operation, NcclComm comm, NcclStream stream) = nullptr;
  NcclResult (*broadcast)(const void* send, void* receive, std::size_t count, NcclType type,
                          int root, NcclComm comm, NcclStream stream) = nullptr;
  const char* (*error_string)(NcclResult result) = nullptr;
};

constexpr const char* kNcclFile = "libnccl.so.2";

template <typename Function>
void look_up(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr)
    throw Error(ErrorCode::failed, std::string("has no function ") + name, kNcclFile);
}

NcclLibrary load_nccl() {
  // First the one that LibTorch itself runs with.
  void* library = dlopen(kNcclFile, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) library = dlopen(kNcclFile, RTLD_NOW);
  if (library == nullptr) {
    const char* reason = dlerror();
    throw Error(ErrorCode::failed,
                std::string("NCCL does not load: ") + (reason != nullptr ? reason : "unknown"),
                kNcclFile, "several processes on GPUs need it; `device` cpu does not");
  }
  NcclLibrary result;
  look_up(library, "ncclGetUniqueId", result.get_unique_id);
  look_up(library, "ncclCommInitRank", result.comm_init_rank);
  look_up(library, "ncclCommDestroy", result.comm_destroy);
  look_up(library, "ncclCommAbort", result.comm_abort);
  look_up(library, "ncclCommGetAsyncError", result.comm_async_error);
  look_up(library, "ncclAllReduce", result.all_reduce);
  look_up(library, "ncclBroadcast", result.broadcast);
  look_up(library, "ncclGetErrorString", result.error_string);
  return result;
}

/// Loaded once. Throws Error(failed) where it cannot be.
const NcclLibrary& nccl_library() {
  static const NcclLibrary library = load_nccl();
  return library;
}

constexpr const char* kIdKey = "nccl/unique_id";

NcclType nccl_type(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::kChar: return NcclType::int8;
    case c10::kByte: return NcclType::uint8;
    case c10::kInt: return NcclType::int32;
    case c10::kLong: return NcclType::int64;
    case c10::kHalf: return NcclType::float16;
    case c10::kFloat: return NcclType::float32;
    case c10::kDouble: return NcclType::float64;
    case c10::kBFloat16: return NcclType::bfloat16;
    default:
      throw Error(ErrorCode::internal,
                  std::string("NCCL sums no tensors of ") + c10::toString(dtype), "sum");
  }
}

class NcclGroup final : public ProcessGroup {
 public:
  NcclGroup(std::unique_ptr<Rendezvous> rendezvous, c10::Device device)
      : rendezvous_(std::move(rendezvous)),
        nccl_(nccl_library()),
        device_(device),
        streams_(device.type()),
        stream_(streams_.getStreamFromGlobalPool(device, /*isHighPriority=*/true)) {
    const c10::DeviceGuard guard(device_);
    NcclUniqueId id{};
    const std::string operation = "connecting";
    try {
      if (is_first()) {
        check(nccl_.get_unique_id(&id), operation);
        rendezvous_->store()->set(kIdKey,
                                  std::vector<std::uint8_t>(id.bytes.begin(), id.bytes.end()));
      } else {
        const std::vector<std::uint8_t> bytes = rendezvous_->store()->get(kIdKey);
        if (bytes.size() != id.bytes.size()) rendezvous_->fail(operation, "no NCCL identifier");
        std::ranges::copy(bytes, id.bytes.begin());
      }
    } catch (const c10::Error& error) {
      rendezvous_->fail(operation, plain_message(error));
    }
    // Blocks until all call it; the rendezvous has seen that all are there.
    check(nccl_.comm_init_rank(&comm_, world_size(), id, rank()), operation);
  }

  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  ~NcclGroup() override {
    if (comm_ == nullptr) return;
    // Destroying waits for what is under way, which never ends when a rank is gone.
    (is_broken_ ? nccl_.comm_abort : nccl_.comm_destroy)(comm_);
  }

  [[nodiscard]] int rank() const noexcept override { return rendezvous_->launch().rank; }
  [[nodiscard]] int world_size() const noexcept override {
    return rendezvous_->launch().world_size;
  }

  void broadcast(const std::vector<at::Tensor>& tensors) override {
    std::vector<std::unique_ptr<Pending>> all;
    for (const at::Tensor& tensor : tensors)
      all.push_back(std::make_unique<Exchange>(*this, tensor, Kind::broadcast));
    for (const auto& pending : all) pending->wait();
  }
  void sum(const std::vector<at::Tensor>& tensors) override {
    std::vector<std::unique_ptr<Pending>> all;
    for (const at::Tensor& tensor : tensors) all.push_back(start_sum(tensor));
    for (const auto& pending : all) pending->wait();
  }
  std::unique_ptr<Pending> start_sum(const at::Tensor& tensor) override {
    return std::make_unique<Exchange>(*this, tensor, Kind::sum);
  }
  void barrier() override { sum({at::zeros({1}, at::device(device_).dtype(at::kInt))}); }

 private:
  enum class Kind { sum, broadcast };

  /// One operation on the group's own stream, beside the stream that computes.
  class Exchange final : public Pending {
   public:
    Exchange(NcclGroup& group, const at::Tensor& tensor, Kind kind)
        : group_(group),
          name_(kind == Kind::sum ? "a sum" : "a broadcast"),
          original_(tensor.detach()),
          exchanged_(original_.to(group.device_).contiguous()),
          done_(group.device_.type()) {
      if (tensor.numel() == 0) return;
      const c10::DeviceGuard guard(group_.device_);
      c10::Event ready(group_.device_.type());
      ready.record(group_.streams_.getStream(group_.device_));
      ready.block(group_.stream_);
      void* data = exchanged_.data_ptr();
      void* stream = group_.streams_.getStreamNativeHandle(group_.stream_);
      const auto count = static_cast<std::size_t>(exchanged_.numel());
      if (kind == Kind::sum) {
        group_.check(group_.nccl_.all_reduce(data, data, count, nccl_type(tensor.scalar_type()),
                                             kNcclSum, group_.comm_, stream),
                     name_);
      } else {
        constexpr int kRoot = 0;
        group_.check(group_.nccl_.broadcast(data, data, count * exchanged_.element_size(),
                                            NcclType::uint8, kRoot, group_.comm_, stream),
                     name_);
      }
      done_.record(group_.stream_);
      is_under_way_ = true;
    }

    void wait() override {
      if (!is_under_way_) return;
      group_.wait_for(done_, name_);
      is_under_way_ = false;
      const c10::DeviceGuard guard(group_.device_);
      done_.block(group_.streams_.getStream(group_.device_));
      if (!original_.is_alias_of(exchanged_)) original_.copy_(exchanged_);
    }

   private:
    NcclGroup& group_;
    std::string name_;
    at::Tensor original_;
    at::Tensor exchanged_;
    c10::Event done_;
    bool is_under_way_ = false;
  };

  /// On the host: a rank that is gone would keep the stream waiting for ever.
  void wait_for(const c10::Event& done, const std::string& operation) {
    constexpr std::chrono::microseconds kPoll(50);
    const auto deadline = std::chrono::steady_clock::now() + rendezvous_->timeout();
    while (!done.query()) {
      NcclResult error = kNcclSuccess;
      check(nccl_.comm_async_error(comm_, &error), operation);
      check(error, operation);
      if (std::chrono::steady_clock::now() > deadline) {
        is_broken_ = true;
        rendezvous_->fail(operation, "timed out");
      }
      std::this_thread::sleep_for(kPoll);
    }
  }

  void check(NcclResult result, const std::string& operation) {
    if (result == kNcclSuccess || result == kNcclInProgress) return;
    is_broken_ = true;
    rendezvous_->fail(operation, std::string("NCCL: ") + nccl_.error_string(result));
  }

  std::unique_ptr<Rendezvous> rendezvous_;
  const NcclLibrary& nccl_;
  c10::Device device_;
  c10::impl::VirtualGuardImpl streams_;
  c10::Stream stream_;
  NcclComm comm_ = nullptr;
  bool is_broken_ = false;
};

}  // namespace

std::unique_ptr<ProcessGroup> make_nccl_group(std::unique_ptr<Rendezvous> rendezvous,
                                              c10::Device device) {
  return std::make_unique<NcclGroup>(std::move(rendezvous), device);
}

}  // namespace hydrascope::model::training
