// c10d's Gloo backend.
//
// LibTorch's wheel has the backend's code and its header, but none of Gloo's own headers that this
// header includes. The headers in gloo_declarations/ stand in for them: they declare, in our words,
// the few names that it mentions. This is sound because nothing of Gloo is made, called or laid out
// here: the header holds Gloo's types behind pointers only, so ProcessGroupGloo's size does not
// depend on them. Functions and virtual tables that libtorch_cpu.so exports construct, run and
// destroy it and its options. Every stand-in is abstract, so a LibTorch whose header held one by
// value would fail to compile instead of getting its size wrong.
#define USE_C10D_GLOO
#include "kernels/error.h"
#include "model/training/parallel/rendezvous.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <vector>

namespace hydrascope::model::training {
namespace {

class GlooGroup final : public ProcessGroup {
 public:
  explicit GlooGroup(std::unique_ptr<Rendezvous> rendezvous) : rendezvous_(std::move(rendezvous)) {
    const LaunchEnvironment& launch = rendezvous_->launch();
    guarded("connecting", [&] {
      backend_ = c10::make_intrusive<c10d::ProcessGroupGloo>(
          rendezvous_->store(), launch.rank, launch.world_size,
          c10d::ProcessGroupGloo::Options::create_default(rendezvous_->timeout()));
    });
  }

  [[nodiscard]] int rank() const noexcept override { return rendezvous_->launch().rank; }
  [[nodiscard]] int world_size() const noexcept override {
    return rendezvous_->launch().world_size;
  }

  void broadcast(const std::vector<at::Tensor>& tensors) override {
    exchange("a broadcast", tensors, [&](const at::Tensor& tensor) {
      // The values are only moved, so any type will do.
      std::vector<at::Tensor> one = {tensor.reshape({-1}).view(at::kByte)};
      return backend_->broadcast(one);
    });
  }

  void sum(const std::vector<at::Tensor>& tensors) override {
    exchange("a sum", tensors, [&](const at::Tensor& tensor) {
      std::vector<at::Tensor> one = {tensor};
      return backend_->allreduce(one);
    });
  }

  void barrier() override {
    guarded("a barrier", [&] { backend_->barrier()->wait(); });
  }

 private:
  /// `start` begins the operation on a tensor in Gloo's form: whole, in C order, on the CPU.
  template <typename Start>
  void exchange(const char* operation, const std::vector<at::Tensor>& tensors, const Start& start) {
    guarded(operation, [&] {
      std::vector<at::Tensor> exchanged;
      std::vector<c10::intrusive_ptr<c10d::Work>> works;
      for (const at::Tensor& tensor : tensors) {
        exchanged.push_back(tensor.detach().cpu().contiguous());
        if (tensor.numel() > 0) works.push_back(start(exchanged.back()));
      }
      for (const auto& work : works) work->wait();
      for (std::size_t i = 0; i < tensors.size(); ++i)
        if (!tensors[i].is_alias_of(exchanged[i])) tensors[i].detach().copy_(exchanged[i]);
    });
  }

  template <typename Body>
  void guarded(const char* operation, const Body& body) {
    try {
      body();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      rendezvous_->fail(operation, plain_message(error));
    }
  }

  std::unique_ptr<Rendezvous> rendezvous_;
  c10::intrusive_ptr<c10d::Backend> backend_;
};

}  // namespace

std::unique_ptr<ProcessGroup> make_gloo_group(std::unique_ptr<Rendezvous> rendezvous) {
  return std::make_unique<GlooGroup>(std::move(rendezvous));
}

}  // namespace hydrascope::model::training
