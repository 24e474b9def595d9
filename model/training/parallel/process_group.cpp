// c10d's store, in which the ranks meet, and its Gloo backend.
//
// LibTorch's wheel has the backend's code and its header, but none of Gloo's own headers that this
// header includes. The headers in gloo_declarations/ stand in for them: they declare, in our words,
// the few names that it mentions. This is sound because nothing of Gloo is made, called or laid out
// here: the header holds Gloo's types behind pointers only, so ProcessGroupGloo's size does not
// depend on them. Functions and virtual tables that libtorch_cpu.so exports construct, run and
// destroy it and its options. Every stand-in is abstract, so a LibTorch whose header held one by
// value would fail to compile instead of getting its size wrong.
#define USE_C10D_GLOO
#include "model/training/parallel/process_group.h"

#include "kernels/error.h"
#include "kernels/input_file.h"
#include "kernels/stopwatch.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>

namespace hydrascope::model::training {
namespace {

/// A dead rank is noticed at once; the limit is for ranks that hang or never come.
constexpr std::chrono::milliseconds kTimeout = std::chrono::minutes(10);

/// An exception's message in one line, LibTorch's without the stack.
std::string plain_message(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch_error ? torch_error->what_without_backtrace() : error.what();
  text.resize(std::min(text.find('\n'), text.size()));
  return text;
}

std::string subject_of(const LaunchEnvironment& launch) {
  return "rank " + std::to_string(launch.rank);
}

template <typename Body>
void guarded(const char* operation, const LaunchEnvironment& launch, const Body& body) {
  try {
    body();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::failed,
                std::string(operation) + " over all ranks failed: " + plain_message(error),
                subject_of(launch), "what the other ranks said before tells why");
  }
}

c10::intrusive_ptr<c10d::Store> connect(const LaunchEnvironment& launch) {
  c10d::TCPStoreOptions options;
  options.port = launch.master_port;
  options.isServer = launch.is_first() && !launch.agent_store;
  options.waitWorkers = false;
  options.timeout = kTimeout;
  // The traces of failed attempts to connect; their message becomes an Error.
  const int level = FLAGS_caffe2_log_level;
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = c10::GLOG_FATAL;
  try {
    const auto store = c10::make_intrusive<c10d::TCPStore>(launch.master_addr, options);
    FLAGS_caffe2_log_level = level;
    // Keys of torchrun's earlier attempts stay in its store.
    return c10::make_intrusive<c10d::PrefixStore>("hydrascope/attempt_" + launch.restart_count,
                                                  store);
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::failed,
                (options.isServer ? "rank 0 cannot serve at " : "there is no store at ") +
                    launch.master_addr + ":" + std::to_string(launch.master_port) + ": " +
                    plain_message(error),
                options.isServer ? "MASTER_PORT" : "MASTER_ADDR",
                options.isServer ? "is another run using the port?" : "has rank 0 started there?");
  }
}

void wait_for_all(c10d::Store& store, const LaunchEnvironment& launch,
                  const std::function<bool()>& interrupted) {
  constexpr std::chrono::milliseconds kPoll(20);
  const std::string key = "joined";
  const auto deadline = Clock::now() + kTimeout;
  for (std::int64_t joined = store.add(key, 1); joined < launch.world_size;
       joined = store.add(key, 0)) {
    if (interrupted && interrupted())
      throw Error(ErrorCode::failed, "stopped while the processes were joining");
    if (Clock::now() > deadline)
      throw Error(ErrorCode::failed,
                  "of " + std::to_string(launch.world_size) + " ranks only " +
                      std::to_string(joined) + " joined",
                  "WORLD_SIZE", "start every rank with the same MASTER_ADDR and MASTER_PORT");
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace

struct ProcessGroup::Backend {
  c10::intrusive_ptr<c10d::Backend> gloo;

  /// `start` begins the operation on a tensor in Gloo's form: whole, in C order, on the CPU.
  template <typename Start>
  static void exchange(const std::vector<at::Tensor>& tensors, const Start& start) {
    std::vector<at::Tensor> exchanged;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (const at::Tensor& tensor : tensors) {
      exchanged.push_back(tensor.detach().cpu().contiguous());
      if (tensor.numel() > 0) works.push_back(start(exchanged.back()));
    }
    for (const auto& work : works) work->wait();
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (!tensors[i].is_alias_of(exchanged[i])) tensors[i].detach().copy_(exchanged[i]);
  }
};

ProcessGroup::ProcessGroup() = default;

ProcessGroup::ProcessGroup(const LaunchEnvironment& launch,
                           const std::function<bool()>& interrupted)
    : launch_(launch), backend_(std::make_unique<Backend>()) {
  const c10::intrusive_ptr<c10d::Store> store = connect(launch_);
  guarded("joining", launch_, [&] {
    wait_for_all(*store, launch_, interrupted);
    backend_->gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(
        store, launch_.rank, launch_.world_size,
        c10d::ProcessGroupGloo::Options::create_default(kTimeout));
  });
}

ProcessGroup::~ProcessGroup() = default;

void ProcessGroup::broadcast(const std::vector<at::Tensor>& tensors) {
  if (!backend_) return;
  guarded("a broadcast", launch_, [&] {
    Backend::exchange(tensors, [&](const at::Tensor& tensor) {
      // The values are only moved, so any type will do.
      std::vector<at::Tensor> one = {tensor.reshape({-1}).view(at::kByte)};
      return backend_->gloo->broadcast(one);
    });
  });
}

void ProcessGroup::sum(const std::vector<at::Tensor>& tensors) {
  if (!backend_) return;
  guarded("a sum", launch_, [&] {
    Backend::exchange(tensors, [&](const at::Tensor& tensor) {
      std::vector<at::Tensor> one = {tensor};
      return backend_->gloo->allreduce(one);
    });
  });
}

void ProcessGroup::barrier() {
  if (!backend_) return;
  guarded("a barrier", launch_, [&] { backend_->gloo->barrier()->wait(); });
}

std::unique_ptr<ProcessGroup> join_process_group(c10::Device device,
                                                 const std::function<bool()>& interrupted) {
  const LaunchEnvironment launch = read_launch_environment();
  if (!launch.has_others()) return std::make_unique<ProcessGroup>();
  if (device.is_cuda()) {
    throw Error(ErrorCode::invalid_argument, "several processes cannot train on GPUs",
                "`device` " + device.str(), "train in one process, or with `device` cpu");
  }
  return std::make_unique<ProcessGroup>(launch, interrupted);
}

void end_if_stopped(const ProcessGroup& group) {
  if (group.world_size() == 1) throw_if_stopped();
}

std::int64_t number_of_first(ProcessGroup& group, std::int64_t mine) {
  const at::Tensor number = at::full({1}, mine, at::kLong);
  group.broadcast({number});
  return number.item<std::int64_t>();
}

std::int64_t sum_of_all(ProcessGroup& group, std::int64_t mine) {
  const at::Tensor number = at::full({1}, mine, at::kLong);
  group.sum({number});
  return number.item<std::int64_t>();
}

}  // namespace hydrascope::model::training
