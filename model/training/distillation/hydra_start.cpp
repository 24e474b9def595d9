#include "model/training/distillation/hydra_start.h"

#include "kernels/error.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <string>

namespace hydrascope::model::training {
namespace {

using Images = std::function<std::optional<at::Tensor>(std::int64_t)>;

/// A parameter of a layer's attention by its name below `attn.`; undefined where there is none.
at::Tensor parameter_of(VisionTransformerImpl& model, std::int64_t layer, const std::string& name) {
  for (const auto& item : model.block(layer).attention().named_parameters()) {
    if (item.key() == name) return item.value();
  }
  return {};
}

/// Whether the layer adds softmax within windows, which reads the same queries and keys.
bool has_windows(VisionTransformerImpl& model, std::int64_t layer) {
  TokenMixer& mixer = model.block(layer).attention().mixer();
  return &mixer.global_part() != &mixer;
}

/// Sums over tokens (B, n, D), in double.
at::Tensor sum_of_tokens(const at::Tensor& x) { return x.to(at::kDouble).flatten(0, 1).sum(0); }

/// Mean and deviation of each feature over all tokens of all images.
class Moments {
 public:
  void add(const at::Tensor& tokens) {  // (B, N, D)
    const at::Tensor x = tokens.to(at::kDouble);
    const at::Tensor sum = sum_of_tokens(x);
    const at::Tensor squares = sum_of_tokens(x.square());
    sum_ = sum_.defined() ? sum_ + sum : sum;
    squares_ = squares_.defined() ? squares_ + squares : squares;
    count_ += x.size(0) * x.size(1);
  }
  void sum_over(ProcessGroup& group) {
    at::Tensor count = at::full({1}, count_, sum_.options());
    group.sum({sum_, squares_, count});
    count_ = static_cast<std::int64_t>(count.item<double>());
  }
  [[nodiscard]] at::Tensor mean() const { return sum_ / count_; }
  [[nodiscard]] at::Tensor deviation() const {
    return (squares_ / count_ - mean().square()).clamp_min(0).sqrt();
  }

 private:
  at::Tensor sum_;
  at::Tensor squares_;
  std::int64_t count_ = 0;
};

/// Rows from `first` of qkv become the rows of 0.3 (x - mean) / deviation + 1. A constant feature
/// becomes 1.
void standardise(const at::Tensor& weight, const at::Tensor& bias, std::int64_t first,
                 const Moments& moments) {
  constexpr double kDeviation = 0.3;
  constexpr double kOffset = 1;
  constexpr double kSmallestDeviation = 1e-6;
  const at::Tensor mean = moments.mean();
  const at::Tensor factor = kDeviation / moments.deviation().clamp_min(kSmallestDeviation);
  const std::int64_t dim = mean.size(0);
  const at::Tensor rows = weight.narrow(0, first, dim);
  const at::Tensor biases = bias.narrow(0, first, dim);
  rows.copy_(rows.to(at::kDouble) * factor.unsqueeze(1));
  biases.copy_((biases.to(at::kDouble) - mean) * factor + kOffset);
}

void standardise_queries_and_keys(Teacher& teacher, VisionTransformerImpl& student,
                                  const std::vector<std::int64_t>& layers, const Images& images,
                                  ProcessGroup& group) {
  std::vector<Moments> queries(layers.size());
  std::vector<Moments> keys(layers.size());
  std::int64_t batches = 0;
  for (auto batch = images(0); batch; batch = images(++batches)) {
    const TeacherPass seen = teacher.look(*batch, layers);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const auto [q, k] = queries_and_keys(teacher.model(), layers[i], seen.tokens[i]);
      queries[i].add(merge_heads(q));
      keys[i].add(merge_heads(k));
    }
  }
  if (batches == 0) throw Error(ErrorCode::empty, "no images to start Hydra layers from");
  const std::int64_t dim = student.config().embed_dim;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    queries[i].sum_over(group);
    keys[i].sum_over(group);
    const at::Tensor weight = parameter_of(student, layers[i], "qkv.weight");
    const at::Tensor bias = parameter_of(student, layers[i], "qkv.bias");
    standardise(weight, bias, 0, queries[i]);
    standardise(weight, bias, dim, keys[i]);
  }
}

/// Least squares of one weight for each feature of a layer's global term.
class OutputFit {
 public:
  /// term, wanted (B, n, D).
  void add(const at::Tensor& term, const at::Tensor& wanted) {
    const at::Tensor x = term.to(at::kDouble);
    const at::Tensor square = sum_of_tokens(x.square());
    const at::Tensor product = sum_of_tokens(x * wanted);
    squares_ = squares_.defined() ? squares_ + square : square;
    products_ = products_.defined() ? products_ + product : product;
  }
  /// (D): the best weights for the images of all ranks; 0 if the term is 0.
  [[nodiscard]] at::Tensor weights(ProcessGroup& group) {
    constexpr double kSmallestSquare = 1e-30;
    group.sum({squares_, products_});
    return products_ / squares_.clamp_min(kSmallestSquare);
  }

 private:
  at::Tensor squares_;   ///< (D)
  at::Tensor products_;  ///< (D)
};

/// The output of the layer's first `count` tokens without its global term.
at::Tensor local_output(VisionTransformerImpl& student, std::int64_t layer,
                        const at::Tensor& tokens, const TokenGrid& grid, std::int64_t count,
                        const at::Tensor& feature_scale) {
  const at::Tensor kept = feature_scale.clone();
  feature_scale.zero_();
  const at::Tensor output = mix_tokens(student, layer, tokens, grid, count);
  feature_scale.copy_(kept);
  return output;
}

void fit_outputs(Teacher& teacher, VisionTransformerImpl& student,
                 const std::vector<std::int64_t>& layers, const Images& images,
                 ProcessGroup& group) {
  std::vector<OutputFit> fits(layers.size());
  std::int64_t batches = 0;
  for (auto batch = images(0); batch; batch = images(++batches)) {
    const TeacherPass seen = teacher.look(*batch, layers);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const std::int64_t count =
          num_compared_tokens(teacher.config(), layers[i], seen.grid, teacher.target());
      const at::Tensor& tokens = seen.tokens[i];
      at::Tensor wanted = mix_tokens(teacher.model(), layers[i], tokens, seen.grid, count);
      at::Tensor term = mix_tokens(student, layers[i], tokens, seen.grid, count);
      if (has_windows(student, layers[i])) {
        const at::Tensor local = local_output(student, layers[i], tokens, seen.grid, count,
                                              parameter_of(student, layers[i], "feature_scale"));
        wanted = wanted - local;
        term = term - local;
      }
      fits[i].add(term, wanted);
    }
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const at::Tensor factor = fits[i].weights(group);
    if (const at::Tensor scale = parameter_of(student, layers[i], "feature_scale");
        scale.defined()) {
      scale.copy_(scale.to(at::kDouble) * factor);
    } else {
      const at::Tensor proj = parameter_of(student, layers[i], "proj.weight");  // (D, D): out, in
      proj.copy_(proj.to(at::kDouble) * factor);
    }
  }
}

}  // namespace

void start_hydra_layers(Teacher& teacher, VisionTransformerImpl& student,
                        const std::vector<std::int64_t>& layers, const Images& images,
                        ProcessGroup& group) {
  const at::NoGradGuard no_grad;
  std::vector<std::int64_t> standardised;
  std::vector<std::int64_t> fitted;
  for (const std::int64_t layer : layers) {
    const bool windows = has_windows(student, layer);
    if (!windows && student.config().qkv_bias) standardised.push_back(layer);
    if (!windows || parameter_of(student, layer, "feature_scale").defined())
      fitted.push_back(layer);
  }
  if (!standardised.empty())
    standardise_queries_and_keys(teacher, student, standardised, images, group);
  if (!fitted.empty()) fit_outputs(teacher, student, fitted, images, group);
}

}  // namespace hydrascope::model::training
