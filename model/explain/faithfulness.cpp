#include "model/explain/faithfulness.h"

#include "kernels/error.h"
#include "model/explain/blur.h"
#include "model/inference/overlap.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <numeric>
#include <string>
#include <utility>

namespace hydrascope::model::explain {
namespace {

using Clock = std::chrono::steady_clock;

/// One of the pictures of a curve: `base` with the first `count` patches of `order` taken from
/// `source`.
struct Variant {
  const at::Tensor* base;
  const at::Tensor* source;
  const std::vector<std::int64_t>* order;
  std::int64_t count;
  std::size_t curve;
  std::size_t point;
};

at::Tensor picture_of(const Variant& variant, std::int64_t patch_size) {
  const at::Tensor& base = *variant.base;
  if (variant.count == 0) return base;
  const std::int64_t rows = base.size(1) / patch_size;
  const std::int64_t columns = base.size(2) / patch_size;
  at::Tensor replaced = at::zeros({rows * columns}, at::kBool);
  bool* flags = replaced.mutable_data_ptr<bool>();
  for (std::int64_t i = 0; i < variant.count; ++i)
    flags[(*variant.order)[static_cast<std::size_t>(i)]] = true;
  const auto cells = {base.size(0), rows, patch_size, columns, patch_size};
  return at::where(replaced.view({1, rows, 1, columns, 1}), variant.source->view(cells),
                   base.view(cells))
      .view(base.sizes());
}

/// The model at work on a list of variants.
class VariantRun {
 public:
  VariantRun(inference::Engine& model, const WatchedPicture& picture,
             const FaithfulnessOptions& options)
      : model_(model), picture_(picture), options_(options) {}

  /// Calls done(variant, class's probability, seconds) for each; false when stopped.
  template <class Done>
  bool run(std::span<const Variant> variants, const Done& done) {
    auto batch_size = static_cast<std::size_t>(most_in_a_batch());
    std::size_t next = 0;
    while (next < variants.size() || !under_way_.empty()) {
      if (options_.stop_requested && options_.stop_requested()) return false;
      if (next < variants.size() && std::ssize(under_way_) < most_under_way(model_)) {
        const std::size_t count = std::min(batch_size, variants.size() - next);
        try {
          start(variants.subspan(next, count));
          next += count;
        } catch (const Error& error) {
          if (error.code() != ErrorCode::out_of_memory || count == 1) throw;
          batch_size = count / 2;
        }
      } else {
        finish_oldest(done);
      }
    }
    return true;
  }

 private:
  [[nodiscard]] std::int64_t most_in_a_batch() const {
    if (options_.batch_size > 0) return options_.batch_size;
    constexpr std::int64_t kMost = 256;
    const std::int64_t tokens = model_.num_tokens(picture_.image.size(1), picture_.image.size(2));
    return std::clamp<std::int64_t>(model_.enough_tokens() / tokens, 1, kMost);
  }

  struct Batch {
    std::span<const Variant> variants;
    Clock::time_point begin;
    inference::PendingBatch outputs;
  };

  void start(std::span<const Variant> variants) {
    const Clock::time_point begin = Clock::now();
    inference::ImageBatch batch;
    batch.height = picture_.image.size(1);
    batch.width = picture_.image.size(2);
    for (const Variant& variant : variants)
      batch.images.push_back(picture_of(variant, options_.patch_size));
    under_way_.push_back({variants, begin, inference::start(model_, batch)});
  }

  template <class Done>
  void finish_oldest(const Done& done) {
    Batch batch = std::move(under_way_.front());
    under_way_.pop_front();
    const at::Tensor logits = batch.outputs.get().logits.to(at::kDouble);
    const at::Tensor probabilities = at::softmax(logits, -1).select(1, picture_.class_index);
    // Batches that overlap share their time.
    const std::chrono::duration<double> elapsed = Clock::now() - std::max(batch.begin, last_end_);
    last_end_ = Clock::now();
    const double seconds = elapsed.count() / static_cast<double>(batch.variants.size());
    for (std::size_t i = 0; i < batch.variants.size(); ++i) {
      const auto index = static_cast<std::int64_t>(i);
      done(batch.variants[i], probabilities[index].item<double>(), seconds);
    }
  }

  inference::Engine& model_;
  const WatchedPicture& picture_;
  const FaithfulnessOptions& options_;
  std::deque<Batch> under_way_;
  Clock::time_point last_end_{};  ///< of a batch
};

void check_maps(const WatchedPicture& picture, std::span<const at::Tensor> maps,
                std::int64_t patch_size) {
  const std::int64_t rows = picture.image.size(1) / patch_size;
  const std::int64_t columns = picture.image.size(2) / patch_size;
  for (const at::Tensor& map : maps) {
    if (map.dim() == 2 && map.size(0) == rows && map.size(1) == columns) continue;
    std::string shape;
    for (const std::int64_t size : map.sizes())
      shape += (shape.empty() ? "" : "x") + std::to_string(size);
    throw Error(ErrorCode::invalid_argument,
                "expected a map of " + std::to_string(rows) + "x" + std::to_string(columns) +
                    " patches, found " + shape,
                "score_maps");
  }
}

}  // namespace

std::vector<std::int64_t> order_of(std::span<const float> heat) {
  std::vector<std::int64_t> order(heat.size());
  std::iota(order.begin(), order.end(), 0);
  const auto end = std::stable_partition(order.begin(), order.end(), [&](std::int64_t patch) {
    return !std::isnan(heat[static_cast<std::size_t>(patch)]);
  });
  std::stable_sort(order.begin(), end, [&](std::int64_t a, std::int64_t b) {
    return heat[static_cast<std::size_t>(a)] > heat[static_cast<std::size_t>(b)];
  });
  return order;
}

std::vector<std::int64_t> replaced_counts(std::int64_t patches, std::int64_t steps) {
  const std::int64_t last = std::clamp<std::int64_t>(steps, 1, patches);
  std::vector<std::int64_t> counts;
  for (std::int64_t step = 0; step <= last; ++step)
    counts.push_back((step * patches + last / 2) / last);
  return counts;
}

double area_under(std::span<const double> curve) {
  const double sum = std::accumulate(curve.begin(), curve.end(), 0.0);
  return (sum - curve.front() / 2 - curve.back() / 2) / static_cast<double>(curve.size() - 1);
}

std::optional<std::vector<FaithfulnessScore>> score_maps(inference::Engine& model,
                                                         const WatchedPicture& picture,
                                                         std::span<const at::Tensor> maps,
                                                         const FaithfulnessOptions& options) {
  const at::NoGradGuard no_grad;
  check_maps(picture, maps, options.patch_size);
  // The mean colour, normalised, and the blurred picture.
  const at::Tensor flat = at::zeros_like(picture.image);
  at::Tensor blur;
  if (std::ranges::find(options.measures, Measure::insertion) != options.measures.end())
    blur = blurred(picture.image, blur_sigma(picture.image.size(1), picture.image.size(2)));

  struct Curve {
    std::vector<std::int64_t> order;
    std::vector<double> values;
    double seconds = 0;
  };
  std::vector<Curve> curves;
  for (const at::Tensor& map : maps) {
    const at::Tensor heat = map.to(at::kFloat).contiguous();
    const std::span values(heat.const_data_ptr<float>(), static_cast<std::size_t>(heat.numel()));
    curves.insert(curves.end(), options.measures.size(), {order_of(values), {}, 0});
  }

  // With nothing or everything replaced, all maps show the model the same picture, so only the
  // first map's runs.
  const std::size_t num_measures = options.measures.size();
  const auto is_shared = [&](std::int64_t count, const Curve& curve) {
    return count == 0 || std::cmp_equal(count, curve.order.size());
  };
  std::vector<Variant> variants;
  for (std::size_t c = 0; c < curves.size(); ++c) {
    const bool inserts = options.measures[c % num_measures] == Measure::insertion;
    const at::Tensor* base = inserts ? &blur : &picture.image;
    const at::Tensor* source = inserts ? &picture.image : &flat;
    Curve& curve = curves[c];
    const std::vector<std::int64_t> counts =
        replaced_counts(std::ssize(curve.order), options.steps);
    curve.values.resize(counts.size());
    for (std::size_t point = 0; point < counts.size(); ++point) {
      if (c >= num_measures && is_shared(counts[point], curve)) continue;
      variants.push_back({base, source, &curve.order, counts[point], c, point});
    }
  }

  VariantRun run(model, picture, options);
  const bool finished =
      run.run(variants, [&](const Variant& variant, double value, double seconds) {
        const std::size_t measure = variant.curve % num_measures;
        Curve& own = curves[variant.curve];
        own.values[variant.point] = value;
        if (!is_shared(variant.count, own)) {
          own.seconds += seconds;
          return;
        }
        for (std::size_t c = measure; c < curves.size(); c += num_measures)
          curves[c].values[variant.point] = value;
      });
  if (!finished) return std::nullopt;
  std::vector<FaithfulnessScore> scores;
  for (const Curve& curve : curves) scores.push_back({area_under(curve.values), curve.seconds});
  return scores;
}

}  // namespace hydrascope::model::explain
