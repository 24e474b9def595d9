#include "kernels/error.h"
#include "model/training/data/batch_loader.h"
#include "model/training/data/random_stream.h"

#include <algorithm>
#include <map>
#include <utility>

namespace hydrascope::model::training {
namespace {

constexpr std::uint64_t kOrderStream = 0x6F72646572;  // "order": not the stream of a picture

/// Fisher and Yates.
void shuffle(std::vector<std::int64_t>& items, RandomStream& stream) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[stream.below(i)]);
}

/// Appends `count` of `members`: all members in random order, then all again in another order.
void draw(const std::vector<std::int64_t>& members, std::int64_t count, RandomStream& stream,
          std::vector<std::int64_t>& drawn) {
  while (count > 0) {
    std::vector<std::int64_t> round = members;
    shuffle(round, stream);
    const std::int64_t taken = std::min(count, static_cast<std::int64_t>(round.size()));
    drawn.insert(drawn.end(), round.begin(), round.begin() + taken);
    count -= taken;
  }
}

void check(const std::vector<TrainingPicture>& pictures, const SamplerOptions& options) {
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw Error(ErrorCode::invalid_argument, what);
  };
  require(!pictures.empty(), "there are no pictures to train on");
  require(options.batch_size >= 1, "the batch size must be at least 1");
  require(options.batches_per_epoch >= 0, "batches of an epoch must not be negative");
  require(options.world_size >= 1 && options.rank >= 0 && options.rank < options.world_size,
          "the rank must be below the world size");
}

}  // namespace

struct Sampler::State {
  SamplerOptions options;
  std::vector<std::vector<std::int64_t>> groups;  ///< positions that are drawn equally often
  std::int64_t batches = 0;
  std::int64_t epoch = -1;          ///< the epoch of `order`
  std::vector<std::int64_t> order;  ///< all ranks'

  [[nodiscard]] std::int64_t global_batch() const {
    return options.batch_size * options.world_size;
  }

  void prepare(std::int64_t wanted) {
    if (epoch == wanted) return;
    RandomStream stream{options.seed, kOrderStream, static_cast<std::uint64_t>(wanted)};
    const std::int64_t total = batches * global_batch();
    const auto count = static_cast<std::int64_t>(groups.size());
    order.clear();
    order.reserve(total);
    for (std::int64_t g = 0; g < count; ++g) {
      // The groups take turns at the remainder of the division.
      const bool has_one_more = (g + wanted) % count < total % count;
      draw(groups[g], total / count + (has_one_more ? 1 : 0), stream, order);
    }
    if (count > 1) shuffle(order, stream);
    epoch = wanted;
  }
};

Sampler::Sampler(const std::vector<TrainingPicture>& pictures, SamplerOptions options)
    : state_(std::make_shared<State>()) {
  check(pictures, options);
  state_->options = options;
  std::map<std::int32_t, std::vector<std::int64_t>> groups;
  for (std::size_t i = 0; i < pictures.size(); ++i)
    groups[options.balance_sources ? pictures[i].source : 0].push_back(
        static_cast<std::int64_t>(i));
  for (auto& [source, members] : groups) state_->groups.push_back(std::move(members));
  const auto whole = static_cast<std::int64_t>(pictures.size()) / state_->global_batch();
  state_->batches =
      options.batches_per_epoch > 0 ? options.batches_per_epoch : std::max<std::int64_t>(1, whole);
}

std::int64_t Sampler::batches_per_epoch() const noexcept { return state_->batches; }

std::vector<std::int64_t> Sampler::batch(std::int64_t epoch, std::int64_t index) {
  if (epoch < 0 || index < 0 || index >= state_->batches) {
    throw Error(ErrorCode::invalid_argument,
                "there is no batch " + std::to_string(index) + " of epoch " +
                    std::to_string(epoch) + ": an epoch has " + std::to_string(state_->batches));
  }
  state_->prepare(epoch);
  const auto first = state_->order.begin() + position(index, 0);
  return {first, first + state_->options.batch_size};
}

std::int64_t Sampler::position(std::int64_t index, std::int64_t offset) const noexcept {
  const SamplerOptions& options = state_->options;
  return index * state_->global_batch() + options.rank * options.batch_size + offset;
}

}  // namespace hydrascope::model::training
