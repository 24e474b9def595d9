// The CPU plan's schedule on more threads than this machine has: the executor cuts its work for N threads and one
// thread does all of it, item by item (ThreadTeam's rehearsal); the team's own order of items gives the time until
// the last of N threads is done. No LibTorch, random weights of ViT-B's shape.
//   schedule_bench [--mechanism softmax|window|hydra] [--height H] [--width W] [--batch B] [--threads 1,2,8]
//                  [--depth N] [--precision float32|bfloat16] [--split auto|on|off] [--repeats N]
//                  [--meeting MICROSECONDS]
// A line of JSON for each number of threads. `efficiency` is the time of one thread's own plan over N times that
// time; `meeting_us` is added for each pass over the items. A processor's threads share its memory and its caches
// outside the cores: that is not in these figures. Exit codes: 0; 2 wrong usage.
#include "kernels/device/thread_team.h"
#include "kernels/error.h"
#include "model/attention/token_grid.h"
#include "model/inference/cpu/mixings/hydra.h"
#include "model/inference/cpu/mixings/softmax.h"
#include "model/inference/cpu/mixings/windows.h"
#include "model/inference/cpu/streaming_executor.h"

#include <cxxopts.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace hydrascope::bench {
namespace {

using kernels::AlignedBuffer;
using kernels::Storage;
using kernels::device::Rehearsal;
using kernels::device::ThreadTeam;
using model::GridExtent;
using model::TokenGrid;
using namespace model::inference;

constexpr int kExitUsage = 2;
constexpr std::int64_t kDim = 768;
constexpr std::int64_t kHeads = 12;
constexpr std::int64_t kPatch = 16;
constexpr std::int64_t kClasses = 1000;
constexpr std::int64_t kWindow = 14;

AlignedBuffer<float> random_values(std::int64_t count, float size) {
  static std::uint32_t state = 1;
  AlignedBuffer<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = size * (static_cast<float>(state >> 8) / static_cast<float>(1 << 23) - 1);
  }
  return values;
}

PackedLinear random_linear(Storage storage, std::int64_t out, std::int64_t in) {
  PackedLinear linear;
  linear.weight =
      kernels::linear::PackedWeight(storage, random_values(out * in, 0.05F).data(), out, in, in);
  linear.bias = random_values(out, 0.1F);
  return linear;
}

struct Asked {
  std::string mechanism;
  std::int64_t height, width, batch, depth;
  Storage storage;
  ExecutionOptions execution;
  int repeats;
  double meeting;  ///< seconds
};

PackedNetwork make_network(const Asked& asked) {
  PackedNetwork network;
  network.storage = asked.storage;
  network.embed_dim = kDim;
  network.hidden_dim = 4 * kDim;
  network.num_heads = kHeads;
  network.num_prefix = 1;
  network.patch_size = kPatch;
  network.in_chans = 3;
  network.num_classes = kClasses;
  network.layer_norm_eps = 1e-6F;
  if (asked.mechanism == "window") network.window = GridExtent{kWindow, kWindow};
  network.patch_embed = random_linear(asked.storage, kDim, network.patch_dim());
  for (std::int64_t layer = 0; layer < asked.depth; ++layer) {
    PackedBlock& block = network.blocks.emplace_back();
    block.query = random_linear(asked.storage, kDim, kDim);
    block.key_value = random_linear(asked.storage, 2 * kDim, kDim);
    block.proj = random_linear(asked.storage, kDim, kDim);
    block.fc1 = random_linear(asked.storage, 4 * kDim, kDim);
    block.fc2 = random_linear(asked.storage, kDim, 4 * kDim);
  }
  network.head.norm = {random_values(kDim, 1), random_values(kDim, 1)};
  network.head.classifier = random_linear(Storage::float32, kClasses, kDim);
  return network;
}

AnyMixing make_mixing_of(const Asked& asked, const MixingSite& site) {
  if (asked.mechanism == "softmax") return make_mixing<SoftmaxMixing>(asked.storage, site, 1.0F);
  if (asked.mechanism == "window")
    return make_mixing<WindowMixing>(asked.storage, site, PrefixWeights{});
  if (asked.mechanism == "hydra")
    return make_mixing<HydraMixing>(asked.storage, site, HydraParameters{});
  throw std::invalid_argument("--mechanism " + asked.mechanism);
}

/// A picture larger than a window has an overview that just covers 224 pixels, as `--overview on` makes it.
TokenGrid make_grid(const Asked& asked) {
  const std::int64_t rows = asked.height / kPatch;
  const std::int64_t columns = asked.width / kPatch;
  if (asked.mechanism != "window" || std::min(rows, columns) <= kWindow) return {1, rows, columns};
  const std::int64_t shorter = std::min(rows, columns);
  const auto reduced = [&](std::int64_t n) { return (n * kWindow + shorter - 1) / shorter; };
  return {1, rows, columns, reduced(rows), reduced(columns)};
}

ImageGeometry make_geometry(const Asked& asked, const PackedNetwork& network) {
  ImageGeometry geometry;
  geometry.grid = make_grid(asked);
  const GridExtent whole{geometry.grid.rows, geometry.grid.columns};
  geometry.prefix = random_values(kDim, 1);
  geometry.order = token_order(geometry.grid, network.window.value_or(whole));
  geometry.position = random_values(geometry.grid.num_image_tokens() * kDim, 1);
  const MixingSite site{geometry.grid, geometry.order, network.window.has_value(), kHeads,
                        kDim / kHeads};
  for (std::size_t layer = 0; layer < network.blocks.size(); ++layer)
    geometry.layers.push_back({make_mixing_of(asked, site), {}, {}});
  return geometry;
}

/// The items' times, each the shortest of the repeats.
Rehearsal rehearse(const Asked& asked, const PackedNetwork& network, int threads,
                   const AlignedBuffer<float>& images) {
  Rehearsal rehearsal;
  ThreadTeam team(threads, rehearsal);
  const AnyExecutor executor =
      make_executor(network, make_geometry(asked, network), asked.batch, team, asked.execution);
  std::vector<float> logits(static_cast<std::size_t>(asked.batch * kClasses));
  Rehearsal shortest;
  for (int repeat = 0; repeat < asked.repeats; ++repeat) {
    rehearsal.clear();
    std::visit([&](const auto& of) { of->run(images.data(), asked.batch, logits.data(), {}); },
               executor);
    if (repeat == 0) shortest = rehearsal;
    for (std::size_t pass = 0; pass < shortest.size(); ++pass)
      for (std::size_t item = 0; item < shortest[pass].size(); ++item)
        shortest[pass][item] = std::min(shortest[pass][item], rehearsal[pass][item]);
  }
  return shortest;
}

double work_of(const Rehearsal& rehearsal) {
  double seconds = 0;
  for (const std::vector<double>& items : rehearsal)
    seconds += std::accumulate(items.begin(), items.end(), 0.0);
  return seconds;
}

int run(int count, char** words) {
  cxxopts::Options options("schedule_bench");
  options.add_options()("mechanism", "", cxxopts::value<std::string>()->default_value("softmax"))(
      "height", "", cxxopts::value<std::string>()->default_value("224"))(
      "width", "", cxxopts::value<std::string>()->default_value("224"))(
      "batch", "", cxxopts::value<std::string>()->default_value("1"))(
      "depth", "", cxxopts::value<std::string>()->default_value("12"))(
      "precision", "", cxxopts::value<std::string>()->default_value("float32"))(
      "threads", "", cxxopts::value<std::vector<std::string>>()->default_value("2,8,16,64,128"))(
      "split", "", cxxopts::value<std::string>()->default_value("auto"))(
      "repeats", "", cxxopts::value<std::string>()->default_value("3"))(
      "meeting", "", cxxopts::value<std::string>()->default_value("5"));
  const cxxopts::ParseResult parsed = options.parse(count, words);
  const auto number = [&](const char* name) { return std::stoll(parsed[name].as<std::string>()); };
  const std::string precision = parsed["precision"].as<std::string>();
  if (precision != "float32" && precision != "bfloat16")
    throw std::invalid_argument("--precision " + precision);
  const std::string split = parsed["split"].as<std::string>();
  ExecutionOptions execution;
  if (split != "auto") execution.splits = split == "on";
  const Asked asked{parsed["mechanism"].as<std::string>(),
                    number("height"),
                    number("width"),
                    number("batch"),
                    number("depth"),
                    precision == "float32" ? Storage::float32 : Storage::bfloat16,
                    execution,
                    static_cast<int>(number("repeats")),
                    std::stod(parsed["meeting"].as<std::string>()) * 1e-6};
  const PackedNetwork network = make_network(asked);
  const AlignedBuffer<float> images =
      random_values(asked.batch * 3 * asked.height * asked.width, 1);
  Asked of_one = asked;
  of_one.execution = {};
  const double alone = work_of(rehearse(of_one, network, 1, images));
  for (const std::string& word : parsed["threads"].as<std::vector<std::string>>()) {
    const int threads = std::stoi(word);
    const Rehearsal rehearsal = rehearse(asked, network, threads, images);
    double seconds = 0;
    for (const std::vector<double>& items : rehearsal)
      seconds += kernels::device::end_of_run(items, threads) + asked.meeting;
    std::cout << nlohmann::ordered_json{{"mechanism", asked.mechanism},
                                        {"height", asked.height},
                                        {"width", asked.width},
                                        {"batch", asked.batch},
                                        {"precision", precision},
                                        {"threads", threads},
                                        {"split", split},
                                        {"passes", rehearsal.size()},
                                        {"meeting_us", asked.meeting * 1e6},
                                        {"one_thread_ms", alone * 1e3},
                                        {"work_ms", work_of(rehearsal) * 1e3},
                                        {"ms", seconds * 1e3},
                                        {"efficiency", alone / (threads * seconds)}}
              << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace hydrascope::bench

int main(int count, char** words) {
  try {
    return hydrascope::bench::run(count, words);
  } catch (const std::exception& error) {
    std::cerr << "schedule_bench: " << error.what() << '\n';
    return hydrascope::bench::kExitUsage;
  }
}
