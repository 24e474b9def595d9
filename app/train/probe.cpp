#include "app/train/probe.h"

#include "app/model/model_metadata.h"
#include "app/model/running_model.h"
#include "app/options/option_fields.h"
#include "app/results/report.h"
#include "app/run/usage_error.h"
#include "app/specs/training.h"
#include "app/store/vector_store.h"
#include "app/tasks/features.h"
#include "app/train/session.h"
#include "app/train/training_options.h"
#include "kernels/stopwatch.h"
#include "model/training/training_state.h"
#include "model/vision_transformer.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <torch/optim/lbfgs.h>

#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

namespace hydrascope::app {
namespace {

namespace fs = std::filesystem;

struct LinearClassifier {
  at::Tensor weight;  ///< (classes, D)
  at::Tensor bias;    ///< (classes)
  double loss = 0;    ///< mean cross-entropy of the pictures
  double top1 = 0;    ///< in %, of the same
  std::int64_t evaluations = 0;
};

LinearClassifier learn(const at::Tensor& vectors, const at::Tensor& targets, std::int64_t classes) {
  constexpr std::int64_t kMostIterations = 500;
  LinearClassifier result;
  result.weight = at::zeros({classes, vectors.size(1)}).requires_grad_();
  result.bias = at::zeros({classes}).requires_grad_();
  const auto penalty = 1 / (2 * static_cast<double>(vectors.size(0)));
  torch::optim::LBFGS optimizer(std::vector<at::Tensor>{result.weight, result.bias},
                                torch::optim::LBFGSOptions(1)
                                    .max_iter(kMostIterations)
                                    .tolerance_grad(1e-6)
                                    .tolerance_change(1e-9)
                                    .line_search_fn("strong_wolfe"));
  optimizer.step([&] {
    optimizer.zero_grad();
    at::Tensor loss =
        at::cross_entropy_loss(at::linear(vectors, result.weight, result.bias), targets) +
        result.weight.square().sum() * penalty;
    loss.backward();
    ++result.evaluations;
    return loss;
  });
  const at::NoGradGuard no_grad;
  result.weight = result.weight.detach();
  result.bias = result.bias.detach();
  const at::Tensor logits = at::linear(vectors, result.weight, result.bias);
  result.loss = at::cross_entropy_loss(logits, targets).item<double>();
  result.top1 = 100 * (logits.argmax(1) == targets).to(at::kDouble).mean().item<double>();
  return result;
}

}  // namespace

int run_probe(const ParsedOptions& options) {
  const TrainingRequest request = training_request(options, "train");
  const VectorStore store(options[&TrainOptions::store].text());
  if (!request.words.empty())
    throw UsageError("pictures are learned from, or a store",
                     request.words.front() + " with `store`");
  if (const GivenOption* given = given_of(options, {Role::task, Role::step}))
    throw UsageError("a classifier of stored vectors is fitted at once, without that",
                     given->origin + " with `store`");
  store.require_one_vector_each();
  store.require_labels();
  const auto classes = std::ssize(store.labels());
  if (classes < 2) throw UsageError("has one label, of which nothing is learned", store.file());
  ModelRequest wanted = request.model;
  wanted.num_classes = classes;
  wanted.reset_head = true;
  const ModelSource source = open_model(wanted);
  const ResolvedTransform transform = resolve_transform(request.transform, source);
  // No picture is read.
  const bool upright = is_upright(store.facts());
  store.facts().require_same(
      facts_of(source, transform.config, upright, store.facts().features, ""), store.file());
  const auto features = find_features(store.facts().features);
  if (!features || !model::are_pooled(source.config, *features))
    throw UsageError("holds other features than the classifier is given", store.file(),
                     "`features` pooled");
  const fs::path folder =
      request.output.file.empty()
          ? fs::path("output") / "train" / (fs::path(source.name).stem().string() + "-probe")
          : fs::path(request.output.file);
  model::training::StateFolder states(folder);
  std::error_code ignored;
  if (fs::exists(states.best(), ignored) && !request.resume.force)
    throw UsageError("the folder holds a model", states.best().string(), "`force` replaces it");
  if (!request.resume.force) refuse_other_files(folder);

  const int threads = model_threads(request.run);
  at::set_num_threads(threads);
  model::seed_generators(request.run.seed);
  const Clock::time_point begin = Clock::now();
  at::Tensor targets = at::empty({store.size()}, at::kLong);
  for (std::int64_t i = 0; i < store.size(); ++i)
    targets.mutable_data_ptr<std::int64_t>()[i] = store.class_of(i);
  const LinearClassifier learned = learn(store.vectors(), targets, classes);
  const double seconds = seconds_since(begin);

  model::VisionTransformer network(source.config);
  source.weights.load_into(*network, source.head);
  {
    const at::NoGradGuard no_grad;
    for (auto& [name, tensor] : model::named_tensors(*network)) {
      if (name == "head.weight" || name == "head_dist.weight") tensor.copy_(learned.weight);
      if (name == "head.bias" || name == "head_dist.bias") tensor.copy_(learned.bias);
    }
  }
  std::string lines;
  for (const std::string& label : store.labels()) lines += label + '\n';
  const ResolvedLabels labels{image::Labels::parse(lines, store.file()), LabelOrigin::names, ""};
  states.save_best(*network, describe_descendant(source, "train", transform, labels), 1);
  states.name_best();

  Report report("hydrascope train");
  report.add("model", source.name);
  report.add("store", store.file());
  report.add("pictures", store.size());
  report.add("classes", classes);
  report.add("evaluations", learned.evaluations);
  report.add("train_loss", learned.loss, 4);
  report.add("train_top1", learned.top1);
  report.add("seconds", seconds, 2);
  report.add("best", states.best().string());
  report.write(request.output.format, std::cout);
  return 0;
}

}  // namespace hydrascope::app
