// Streams are queues that run as late as CUDA allows: when the host waits, or when other work that
// is waited for waits for them. So whatever is not waited for has not happened.
#include "tests/emulator/kernel_code.h"
#include "tests/stand_in/stand_in.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <utility>

namespace {

/// One record of an event.
struct Mark {
  cudaStream_t stream = nullptr;
  bool done = false;
  double milliseconds = 0;
};
using Work = std::function<void()>;

std::string last_words;
cudaError_t last_error = cudaSuccess;
cudaError_t lost = cudaSuccess;  ///< the error that the context is lost by
std::map<std::string, int> call_counts;
std::map<std::string, std::pair<int, int>> failures;  ///< calls until then, error
int objects = 0;
std::map<const std::byte*, std::size_t> device_memory;
std::map<const std::byte*, std::size_t> pinned_memory;
std::set<cudaStream_t> streams;

}  // namespace

struct CUgraph_st {
  std::vector<std::pair<Work, double>> nodes;
};
struct CUgraphExec_st {
  CUgraph_st graph;
};
struct CUevent_st {
  bool timed = false;
  std::shared_ptr<Mark> mark;
};
struct CUstream_st {
  bool waits_for_default = true;
  std::deque<Work> queue;
  const void* result = nullptr;  ///< that the last of the queue writes, if that is all it does
  double milliseconds = 0;
  double last_milliseconds = 0;  ///< of the last of the queue
  CUgraph_st* capture = nullptr;
  bool broken = false;  ///< the capture
};

namespace {

CUstream_st default_stream;
CUstream_st& stream_of(cudaStream_t stream) { return stream == nullptr ? default_stream : *stream; }

/// The result of a call that came to `error`: after a fault of the device the fault, until the process ends.
cudaError_t result(cudaError_t error) {
  if (lost != cudaSuccess) return lost;
  if (error != cudaSuccess) last_error = error;
  return error;
}

#define STAND_IN_CALL()                                                     \
  if (const int wanted_ = stand_in::wanted_failure(__func__); wanted_ != 0) \
    return result(static_cast<cudaError_t>(wanted_));                       \
  if (lost != cudaSuccess) return lost
/// The result of a call that ends something, which it does all the same.
#define STAND_IN_END()                                                      \
  if (const int wanted_ = stand_in::wanted_failure(__func__); wanted_ != 0) \
  return result(static_cast<cudaError_t>(wanted_))

/// Whether a stream is being captured: then the call is none that a capture allows.
bool breaks_capture() {
  bool any = false;
  for (const cudaStream_t each : streams) {
    if (each->capture == nullptr) continue;
    each->broken = any = true;
  }
  return any;
}

/// The first work of a stream. Its failure is the device's, which does nothing more.
void do_first(CUstream_st& stream) {
  const Work work = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (lost != cudaSuccess) return;
  try {
    work();
  } catch (const std::exception& error) {
    last_words = error.what();
    lost = cudaErrorLaunchFailure;
  }
}
cudaError_t finish(CUstream_st& stream) {
  while (!stream.queue.empty()) do_first(stream);
  return lost;
}
void finish(const Mark& mark) {
  if (mark.done) return;  // its stream may be no more
  CUstream_st& stream = stream_of(mark.stream);
  while (!mark.done && !stream.queue.empty()) do_first(stream);
}
cudaError_t finish_all() {
  cudaError_t status = finish(default_stream);
  for (const cudaStream_t each : streams)
    if (const cudaError_t own = finish(*each); own != cudaSuccess) status = own;
  return status;
}

bool lies_in(const std::map<const std::byte*, std::size_t>& memory, const void* address) {
  const auto* at = static_cast<const std::byte*>(address);
  auto next = memory.upper_bound(at);
  if (next == memory.begin()) return false;
  --next;
  return at < next->first + next->second;
}

void put_copy(cudaStream_t stream, void* to, const void* from, std::size_t bytes) {
  stand_in::put(stream, [=] { std::memcpy(to, from, bytes); });
}
/// Host memory that is not pinned is read before the call returns; it arrives later.
void put_copy_of_contents(cudaStream_t stream, void* to, const void* from, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(from);
  stand_in::put(stream, [to, contents = std::vector<std::byte>(first, first + bytes)] {
    std::memcpy(to, contents.data(), contents.size());
  });
}

}  // namespace

namespace stand_in {

void put(cudaStream_t stream, Work work, double milliseconds, const void* written) {
  CUstream_st& to = stream_of(stream);
  if (to.capture != nullptr) {
    to.capture->nodes.emplace_back(std::move(work), milliseconds);
    return;
  }
  if (written != nullptr && written == to.result && !to.queue.empty())
    to.queue.back() = [&to, time = to.last_milliseconds] { to.milliseconds += time; };
  to.result = written;
  to.last_milliseconds = milliseconds;
  to.queue.push_back([&to, work = std::move(work), milliseconds] {
    work();
    to.milliseconds += milliseconds;
  });
}

void release(cudaStream_t stream, Work work) {
  CUstream_st& of = stream_of(stream);
  if (of.queue.empty()) {
    work();
  } else {
    of.queue.push_back(std::move(work));
    of.result = nullptr;
  }
}

void catch_up(cudaStream_t stream) {
  CUstream_st& of = stream_of(stream);
  if (of.capture != nullptr) of.broken = true;
  finish(of);
}

int wanted_failure(const std::string& call) {
  ++call_counts[call];
  const auto found = failures.find(call);
  if (found == failures.end() || found->second.first-- > 0) return 0;
  const int error = found->second.second;
  failures.erase(found);
  return error;
}
void count_object(int change) { objects += change; }

void fail(const std::string& call, int error, int calls) { failures[call] = {calls, error}; }
int calls(const std::string& call) { return call_counts[call]; }
int living() { return objects; }

void* take_pinned(std::size_t bytes) {
  void* memory = std::malloc(std::max<std::size_t>(bytes, 1));
  std::memset(memory, 0xff, bytes);
  pinned_memory[static_cast<const std::byte*>(memory)] = bytes;
  return memory;
}
void return_pinned(void* memory) {
  pinned_memory.erase(static_cast<const std::byte*>(memory));
  std::free(memory);
}

Machine& machine() {
  static Machine value;
  return value;
}
CublasLt& cublas_lt() {
  static CublasLt value;
  return value;
}

void reset() {
  failures.clear();
  call_counts.clear();
  machine() = {};
  cublas_lt() = {};
  last_error = lost = cudaSuccess;
}

}  // namespace stand_in

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorUnknown";
}
const char* cudaGetErrorString(cudaError_t error) {
  if (error == cudaErrorLaunchFailure) return last_words.c_str();
  return error == cudaErrorMemoryAllocation ? "out of memory" : "a failure";
}
cudaError_t cudaGetLastError() {
  const cudaError_t error = std::exchange(last_error, cudaSuccess);
  return lost != cudaSuccess ? lost : error;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  STAND_IN_CALL();
  *version = stand_in::machine().runtime;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  STAND_IN_CALL();
  *version = stand_in::machine().driver;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  STAND_IN_CALL();
  *count = stand_in::machine().gpus;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  STAND_IN_CALL();
  if (device >= stand_in::machine().gpus) return result(cudaErrorInvalidValue);
  std::strcpy(properties->name, "stand-in");
  properties->major = stand_in::machine().major;
  properties->minor = 0;
  properties->multiProcessorCount = 132;
  properties->totalGlobalMem = std::size_t{80} << 30;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  STAND_IN_CALL();
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr /*what*/, int /*device*/) {
  STAND_IN_CALL();
  *value = 1 << 16;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  STAND_IN_CALL();
  if (breaks_capture()) return result(cudaErrorStreamCaptureUnsupported);
  return result(finish_all());
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  STAND_IN_CALL();
  if (breaks_capture()) return result(cudaErrorStreamCaptureUnsupported);
  *memory = std::aligned_alloc(256, (bytes / 256 + 1) * 256);
  std::memset(*memory, 0xff, bytes);
  device_memory[static_cast<const std::byte*>(*memory)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  STAND_IN_END();
  if (breaks_capture()) return result(cudaErrorStreamCaptureUnsupported);
  const cudaError_t status = finish_all();
  device_memory.erase(static_cast<const std::byte*>(memory));
  std::free(memory);
  return result(status);
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind /*kind*/) {
  STAND_IN_CALL();
  if (breaks_capture()) return result(cudaErrorStreamCaptureUnsupported);
  cudaError_t status = finish(default_stream);
  for (const cudaStream_t each : streams)
    if (each->waits_for_default && status == cudaSuccess) status = finish(*each);
  if (status != cudaSuccess) return result(status);
  if (lies_in(device_memory, to) && !lies_in(device_memory, from)) {
    put_copy_of_contents(nullptr, to, from, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  STAND_IN_CALL();
  if (kind == cudaMemcpyHostToDevice && !lies_in(pinned_memory, from)) {
    put_copy_of_contents(stream, to, from, bytes);
  } else {
    put_copy(stream, to, from, bytes);
    if (kind == cudaMemcpyDeviceToHost && !lies_in(pinned_memory, to))
      return result(finish(stream_of(stream)));
  }
  return cudaSuccess;
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  STAND_IN_CALL();
  if (breaks_capture()) return result(cudaErrorStreamCaptureUnsupported);
  stand_in::put(nullptr, [=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  STAND_IN_CALL();
  stand_in::put(stream, [=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  STAND_IN_CALL();
  ++objects;
  *stream = new CUstream_st;
  (*stream)->waits_for_default = flags != cudaStreamNonBlocking;
  streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  STAND_IN_END();
  const cudaError_t status = finish(*stream);
  --objects;
  streams.erase(stream);
  delete stream;
  return result(status);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  STAND_IN_CALL();
  if (breaks_capture()) return result(cudaErrorStreamCaptureUnsupported);
  return result(finish(stream_of(stream)));
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  STAND_IN_CALL();
  if (stream_of(stream).capture != nullptr) {
    stream_of(stream).broken = true;  // the event is of work outside
    return result(cudaErrorStreamCaptureUnsupported);
  }
  if (event == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (event->mark != nullptr)  // one that was never recorded holds nothing back
    stand_in::put(
        stream, [mark = event->mark] { finish(*mark); }, 0);
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  STAND_IN_CALL();
  if (stream == nullptr || stream->capture != nullptr)
    return result(cudaErrorStreamCaptureUnsupported);
  ++objects;
  stream->capture = new CUgraph_st;
  stream->broken = false;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = std::exchange(stream->capture, nullptr);
  if (*graph == nullptr) return result(cudaErrorInvalidValue);
  if (stand_in::wanted_failure(__func__) == 0 && !stream->broken) return cudaSuccess;
  cudaGraphDestroy(std::exchange(*graph, nullptr));
  return result(cudaErrorStreamCaptureInvalidated);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  STAND_IN_CALL();
  ++objects;
  *event = new CUevent_st;
  (*event)->timed = flags != cudaEventDisableTiming;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  STAND_IN_END();
  --objects;
  delete event;
  return lost;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  STAND_IN_CALL();
  auto mark = std::make_shared<Mark>();
  mark->stream = stream;
  event->mark = mark;
  stand_in::put(
      stream,
      [mark, stream] {
        mark->done = true;
        mark->milliseconds = stream_of(stream).milliseconds;
      },
      0);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  STAND_IN_CALL();
  if (breaks_capture()) return result(cudaErrorStreamCaptureUnsupported);
  if (event == nullptr || event->mark == nullptr) return result(cudaErrorInvalidResourceHandle);
  finish(*event->mark);
  return lost;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  STAND_IN_CALL();
  for (const cudaEvent_t each : {begin, end}) {
    if (each == nullptr || !each->timed || each->mark == nullptr)
      return result(cudaErrorInvalidResourceHandle);
    if (!each->mark->done) return result(cudaErrorNotReady);
  }
  *milliseconds = static_cast<float>(end->mark->milliseconds - begin->mark->milliseconds);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  STAND_IN_CALL();
  ++objects;
  *executable = new CUgraphExec_st{*graph};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  STAND_IN_CALL();
  for (const auto& [work, milliseconds] : executable->graph.nodes)
    stand_in::put(stream, work, milliseconds);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  STAND_IN_END();
  --objects;
  delete graph;
  return lost;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  STAND_IN_END();
  --objects;
  delete executable;
  return lost;
}

cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                             size_t /*shared_bytes*/, cudaStream_t stream) {
  STAND_IN_CALL();
  const auto& code = *static_cast<const emulator::KernelCode*>(kernel);
  const auto* first = static_cast<const std::byte*>(arguments[0]);
  const hydrascope::kernels::device::Geometry geometry{{grid.x, grid.y, grid.z},
                                                       {block.x, block.y, block.z}};
  // On the heap, whose alignment serves any type.
  auto call = std::make_shared<std::vector<std::byte>>(first, first + code.call_bytes);
  stand_in::put(stream, [&code, geometry, call, name = stand_in::range()] {
    code.run(name.c_str(), geometry, call->data());
  });
  return cudaSuccess;
}
}
