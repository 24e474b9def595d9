// The CPU plan's schedule on more threads than this machine has: the executor cuts its work for N threads and one
// thread does all of it, item by item (ThreadTeam's rehearsal); the team's own order of items gives the time until
// the last of N threads is done. No LibTorch, random weights of ViT-B's shape, or of another width.
//   schedule_bench [--mechanism softmax|window|hydra] [--height H] [--width W] [--batch B] [--threads 1,2,8]
//                  [--depth N] [--dim D] [--precision float32|bfloat16|int8] [--split auto|on|off|prefix]
//                  [--repeats N] [--meeting MICROSECONDS,...]
// A line of JSON for each number of threads:
//   one_thread_ms, work_ms   the items of one thread's own plan and of the plan of N threads, which are rehearsed in
//                            turns; an item's time is the shortest of the repeats
//   work_ratio               work_ms / one_thread_ms. A cut costs work; below 0.99 the machine was disturbed or shorter
//                            items met a quieter moment, and `is_less_work` says so
//   meetings                 for each `--meeting`, the time that is assumed for each pass over the items: `ms` of the
//                            rehearsed run, and `efficiency`, the less of both works over N times `ms`. So less work
//                            than one thread's flatters no efficiency
//   meeting_threads, meeting_us   a meeting as it was measured, of as many of the N threads as there are processors:
//                            the median of passes without work. Some 50 microseconds say that the threads shared a
//                            processor, on a machine that does other work
//   real_ms, real_efficiency if there are N processors: the same plan on N threads, the shortest of the repeats, in
//                            turns with the others
// A processor's threads share its memory and its caches outside the cores: only `real_ms` contains that. Exit codes:
// 0; 2 wrong usage. Test: schedule_bench_test.py.
#include "kernels/device/processors.h"
#include "kernels/device/thread_team.h"
#include "kernels/error.h"
#include "kernels/stopwatch.h"
#include "model/attention/token_grid.h"
#include "model/inference/cpu/mixings/hydra.h"
#include "model/inference/cpu/mixings/softmax.h"
#include "model/inference/cpu/mixings/windows.h"
#include "model/inference/cpu/precision_choice.h"
#include "model/inference/cpu/streaming_executor.h"

#include <cxxopts.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <limits>
#include <numeric>
#include <optional>
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
constexpr std::int64_t kHeadDim = 64;
constexpr std::int64_t kPatch = 16;
constexpr std::int64_t kClasses = 1000;
constexpr std::int64_t kWindow = 14;
// Share of one thread's work; a smaller difference is the clock's.
constexpr double kLeastWork = 0.99;

AlignedBuffer<float> random_values(std::int64_t count, float size) {
  static std::uint32_t state = 1;
  AlignedBuffer<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = size * (static_cast<float>(state >> 8) / static_cast<float>(1 << 23) - 1);
  }
  return values;
}

PackedLinear random_linear(Storage storage, std::int64_t out, std::int64_t in,
                           bool is_int8 = false) {
  PackedLinear linear;
  const AlignedBuffer<float> weights = random_values(out * in, 0.05F);
  if (is_int8)
    linear.quantised = kernels::quantised_linear::QuantisedWeight(weights.data(), out, in, in);
  else
    linear.weight = kernels::linear::PackedWeight(storage, weights.data(), out, in, in);
  linear.bias = random_values(out, 0.1F);
  return linear;
}

struct Asked {
  std::string mechanism;
  std::int64_t height, width, batch, depth, dim;
  std::string precision;
  std::string split;
  int repeats;
  std::vector<double> meetings;  ///< microseconds

  [[nodiscard]] bool is_int8() const { return precision == "int8"; }
  [[nodiscard]] Storage weights() const {
    return precision == "float32" ? Storage::float32 : Storage::bfloat16;
  }
  /// As the plan chooses it where processors do not multiply bfloat16.
  [[nodiscard]] Storage rows() const {
    return precision == "float32" ? Storage::float32 : row_storage();
  }
};

PackedNetwork make_network(const Asked& asked) {
  const std::int64_t dim = asked.dim;
  PackedNetwork network;
  network.storage = asked.rows();
  network.embed_dim = dim;
  network.hidden_dim = 4 * dim;
  network.num_heads = dim / kHeadDim;
  network.num_prefix = 1;
  network.patch_size = kPatch;
  network.in_chans = 3;
  network.num_classes = kClasses;
  network.layer_norm_eps = 1e-6F;
  if (asked.mechanism == "window") network.window = GridExtent{kWindow, kWindow};
  network.patch_embed = random_linear(asked.weights(), dim, network.patch_dim());
  for (std::int64_t layer = 0; layer < asked.depth; ++layer) {
    PackedBlock& block = network.blocks.emplace_back();
    const auto linear = [&](std::int64_t out, std::int64_t in) {
      return random_linear(asked.weights(), out, in, asked.is_int8());
    };
    block.query = linear(dim, dim);
    block.key_value = linear(2 * dim, dim);
    block.proj = linear(dim, dim);
    block.fc1 = linear(4 * dim, dim);
    block.fc2 = linear(dim, 4 * dim);
  }
  network.head.norm = {random_values(dim, 1), random_values(dim, 1)};
  network.head.classifier = random_linear(Storage::float32, kClasses, dim);
  return network;
}

AnyMixing make_mixing_of(const Asked& asked, const MixingSite& site) {
  if (asked.mechanism == "softmax") return make_mixing<SoftmaxMixing>(asked.rows(), site, 1.0F);
  if (asked.mechanism == "window")
    return make_mixing<WindowMixing>(asked.rows(), site, PrefixWeights{});
  if (asked.mechanism == "hydra")
    return make_mixing<HydraMixing>(asked.rows(), site, HydraParameters{});
  throw std::invalid_argument("--mechanism " + asked.mechanism);
}

/// A picture larger than a window has an overview that just covers 224 pixels, as `--set overview=on` makes it.
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
  geometry.prefix = random_values(asked.dim, 1);
  geometry.order = token_order(geometry.grid, network.window.value_or(whole));
  geometry.position = random_values(geometry.grid.num_image_tokens() * asked.dim, 1);
  const MixingSite site = site_of(network, geometry);
  for (std::size_t layer = 0; layer < network.blocks.size(); ++layer)
    geometry.layers.push_back({make_mixing_of(asked, site), {}, {}});
  return geometry;
}

/// A plan, and its executor on a team.
class Plan {
 public:
  Plan(const Asked& asked, const PackedNetwork& network, ThreadTeam& team,
       const ExecutionOptions& options)
      : batch_(asked.batch),
        logits_(static_cast<std::size_t>(asked.batch * kClasses)),
        executor_(
            make_executor(network, make_geometry(asked, network), asked.batch, team, options)) {}
  void run(const AlignedBuffer<float>& images) {
    std::visit([&](const auto& of) { of->run(images.data(), batch_, logits_.data(), {}); },
               executor_);
  }

 private:
  std::int64_t batch_;
  std::vector<float> logits_;
  AnyExecutor executor_;
};

/// A plan of some threads that one thread does. Its items' times, each the shortest of the runs.
class RehearsedPlan {
 public:
  RehearsedPlan(const Asked& asked, const PackedNetwork& network, int threads,
                const ExecutionOptions& options)
      : team_(threads, now_), plan_(asked, network, team_, options) {}
  RehearsedPlan(const RehearsedPlan&) = delete;
  RehearsedPlan& operator=(const RehearsedPlan&) = delete;
  ~RehearsedPlan() = default;

  void run(const AlignedBuffer<float>& images) {
    now_.clear();
    plan_.run(images);
    if (shortest_.empty()) shortest_ = now_;
    for (std::size_t pass = 0; pass < shortest_.size(); ++pass)
      for (std::size_t item = 0; item < shortest_[pass].size(); ++item)
        shortest_[pass][item] = std::min(shortest_[pass][item], now_[pass][item]);
  }
  [[nodiscard]] const Rehearsal& shortest() const { return shortest_; }

 private:
  Rehearsal now_;
  Rehearsal shortest_;
  ThreadTeam team_;
  Plan plan_;
};

/// Seconds of a pass of `threads` threads without work: the median of many.
double measure_meeting(int threads) {
  constexpr int kPasses = 20001;
  ThreadTeam team(threads);
  std::vector<double> seconds(kPasses);
  for (double& of_pass : seconds) {
    const Clock::time_point begin = Clock::now();
    team.run(threads, [](std::int64_t, int) {});
    of_pass = seconds_since(begin);
  }
  std::ranges::nth_element(seconds, seconds.begin() + kPasses / 2);
  return seconds[kPasses / 2];
}

double work_of(const Rehearsal& rehearsal) {
  double seconds = 0;
  for (const std::vector<double>& items : rehearsal)
    seconds += std::accumulate(items.begin(), items.end(), 0.0);
  return seconds;
}

/// Throws std::invalid_argument for what is no number.
std::vector<double> numbers_of(const std::vector<std::string>& words) {
  std::vector<double> numbers;
  for (const std::string& word : words) numbers.push_back(std::stod(word));
  return numbers;
}

Asked asked_of(const cxxopts::ParseResult& parsed) {
  const auto text = [&](const char* name) { return parsed[name].as<std::string>(); };
  const auto number = [&](const char* name) { return std::stoll(text(name)); };
  Asked asked{text("mechanism"),
              number("height"),
              number("width"),
              number("batch"),
              number("depth"),
              number("dim"),
              text("precision"),
              text("split"),
              static_cast<int>(number("repeats")),
              numbers_of(parsed["meeting"].as<std::vector<std::string>>())};
  if (asked.precision != "float32" && asked.precision != "bfloat16" && asked.precision != "int8")
    throw std::invalid_argument("--precision " + asked.precision);
  if (asked.split != "auto" && asked.split != "on" && asked.split != "off" &&
      asked.split != "prefix")
    throw std::invalid_argument("--split " + asked.split);
  if (asked.repeats < 1) throw std::invalid_argument("--repeats " + text("repeats"));
  return asked;
}

/// The line of a plan of `threads` threads.
nlohmann::ordered_json measure(const Asked& asked, const PackedNetwork& network, int threads,
                               const AlignedBuffer<float>& images) {
  ExecutionOptions options;
  if (asked.split != "auto") options.splits = asked.split == "on";
  if (asked.split == "prefix") options.splits_prefix = true;
  RehearsedPlan alone(asked, network, 1, {});
  RehearsedPlan plan(asked, network, threads, options);
  const int processors = kernels::device::available_processors();
  std::optional<ThreadTeam> team;
  std::optional<Plan> real;
  if (threads <= processors) real.emplace(asked, network, team.emplace(threads), options);
  double of_real = std::numeric_limits<double>::infinity();
  for (int repeat = 0; repeat < asked.repeats; ++repeat) {
    alone.run(images);
    plan.run(images);
    if (!real) continue;
    const Clock::time_point begin = Clock::now();
    real->run(images);
    of_real = std::min(of_real, seconds_since(begin));
  }
  const double of_one = work_of(alone.shortest());
  const double work = work_of(plan.shortest());
  const double least = std::min(of_one, work);
  double busy = 0;  // without meetings
  for (const std::vector<double>& items : plan.shortest())
    busy += kernels::device::end_of_run(items, threads);
  const std::size_t passes = plan.shortest().size();
  auto meetings = nlohmann::ordered_json::array();
  for (const double microseconds : asked.meetings) {
    const double seconds = busy + static_cast<double>(passes) * microseconds * 1e-6;
    meetings.push_back({{"assumed_us", microseconds},
                        {"ms", seconds * 1e3},
                        {"efficiency", least / (threads * seconds)}});
  }
  const int meeting_threads = std::min(threads, processors);
  nlohmann::ordered_json line{{"mechanism", asked.mechanism},
                              {"height", asked.height},
                              {"width", asked.width},
                              {"batch", asked.batch},
                              {"depth", asked.depth},
                              {"dim", asked.dim},
                              {"precision", asked.precision},
                              {"threads", threads},
                              {"split", asked.split},
                              {"repeats", asked.repeats},
                              {"passes", passes},
                              {"one_thread_ms", of_one * 1e3},
                              {"work_ms", work * 1e3},
                              {"work_ratio", work / of_one},
                              {"is_less_work", work < kLeastWork * of_one},
                              {"meetings", std::move(meetings)},
                              {"meeting_threads", meeting_threads},
                              {"meeting_us", measure_meeting(meeting_threads) * 1e6}};
  if (real) {
    line["real_ms"] = of_real * 1e3;
    line["real_efficiency"] = least / (threads * of_real);
  }
  return line;
}

int run(int count, char** words) {
  cxxopts::Options options("schedule_bench");
  options.add_options()("mechanism", "", cxxopts::value<std::string>()->default_value("softmax"))(
      "height", "", cxxopts::value<std::string>()->default_value("224"))(
      "width", "", cxxopts::value<std::string>()->default_value("224"))(
      "batch", "", cxxopts::value<std::string>()->default_value("1"))(
      "depth", "", cxxopts::value<std::string>()->default_value("12"))(
      "dim", "", cxxopts::value<std::string>()->default_value("768"))(
      "precision", "", cxxopts::value<std::string>()->default_value("float32"))(
      "threads", "", cxxopts::value<std::vector<std::string>>()->default_value("2,8,16,64,128"))(
      "split", "", cxxopts::value<std::string>()->default_value("auto"))(
      "repeats", "", cxxopts::value<std::string>()->default_value("3"))(
      "meeting", "", cxxopts::value<std::vector<std::string>>()->default_value("2,5,10,20"));
  const cxxopts::ParseResult parsed = options.parse(count, words);
  const Asked asked = asked_of(parsed);
  const PackedNetwork network = make_network(asked);
  const AlignedBuffer<float> images =
      random_values(asked.batch * 3 * asked.height * asked.width, 1);
  for (const std::string& word : parsed["threads"].as<std::vector<std::string>>()) {
    const int threads = std::stoi(word);
    if (threads < 1) throw std::invalid_argument("--threads " + word);
    std::cout << measure(asked, network, threads, images) << std::endl;
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
