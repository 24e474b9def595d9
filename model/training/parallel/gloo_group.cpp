// c10d's Gloo backend.
//
// LibTorch's wheel has the backend's code and its header, but none of Gloo's own headers that this
// header includes. Those in gloo_declarations/ stand in for them: they declare, in our words, the
// few names that it mentions. That is sound because nothing of Gloo is made, called or laid out
// here: the header holds Gloo's types behind pointers only, so ProcessGroupGloo's size does not
// depend on them, and it and its options are constructed, run and destroyed by functions and
// virtual tables that libtorch_cpu.so exports. Every stand-in is abstract, so a LibTorch whose
// header held one by value would fail to compile instead of getting its size wrong.
#define USE_C10D_GLOO
#include "kernels/error.h"
#include "model/training/parallel/rendezvous.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <optional>

namespace hydrascope::model::training {
namespace {

/// What a backend can exchange: whole, in C order, on the CPU.
struct Staged {
  explicit Staged(const at::Tensor& tensor)
      : original(tensor.detach()), exchanged(original.cpu().contiguous()) {}
  /// For values that are moved and not computed with.
  static Staged as_bytes(const at::Tensor& tensor) {
    Staged staged(tensor);
    staged.bytes = staged.exchanged.reshape({-1}).view(at::kByte);
    return staged;
  }
  void copy_back() const {
    if (!original.is_alias_of(exchanged)) original.copy_(exchanged);
  }

  at::Tensor original;
  at::Tensor exchanged;
  at::Tensor bytes;
};

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
    guarded("a broadcast", [&] {
      std::vector<Staged> staged;
      std::vector<c10::intrusive_ptr<c10d::Work>> works;
      for (const at::Tensor& tensor : tensors) {
        if (tensor.numel() == 0) continue;
        staged.push_back(Staged::as_bytes(tensor));
        std::vector<at::Tensor> one = {staged.back().bytes};
        works.push_back(backend_->broadcast(one));
      }
      for (const auto& work : works) work->wait();
      for (const Staged& tensor : staged) tensor.copy_back();
    });
  }

  void sum(const std::vector<at::Tensor>& tensors) override {
    std::vector<std::unique_ptr<Pending>> sums;
    for (const at::Tensor& tensor : tensors) sums.push_back(start_sum(tensor));
    for (const auto& pending : sums) pending->wait();
  }

  std::unique_ptr<Pending> start_sum(const at::Tensor& tensor) override {
    return std::make_unique<Sum>(*this, tensor);
  }

  void barrier() override {
    guarded("a barrier", [&] { backend_->barrier()->wait(); });
  }

 private:
  class Sum final : public Pending {
   public:
    Sum(GlooGroup& group, const at::Tensor& tensor) : group_(group), staged_(tensor) {
      if (tensor.numel() == 0) return;
      std::vector<at::Tensor> one = {staged_.exchanged};
      group_.guarded("a sum", [&] { work_ = group_.backend_->allreduce(one); });
    }
    void wait() override {
      if (!work_) return;
      group_.guarded("a sum", [&] { work_->wait(); });
      staged_.copy_back();
      work_.reset();
    }

   private:
    GlooGroup& group_;
    Staged staged_;
    c10::intrusive_ptr<c10d::Work> work_;
  };

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
