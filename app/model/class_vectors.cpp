#include "app/model/class_vectors.h"

#include "app/options/options.h"
#include "app/run/usage_error.h"
#include "model/checkpoint/formats/safetensors.h"
#include "model/checkpoint/scalar_type.h"
#include "model/image/labels.h"
#include "model/vision_transformer.h"

#include <ATen/ops/matmul.h>
#include <nlohmann/json.hpp>
#include <torch/nn/functional/normalization.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace hydrascope::app {
namespace {

double number_of(const checkpoint::Metadata& metadata, const std::string& key, double fallback,
                 const std::string& subject) {
  const auto entry = metadata.find(key);
  return entry == metadata.end() ? fallback : to_number(entry->second, subject + " " + key);
}

/// The classifier's weight (classes, D), float32.
at::Tensor projection_of(const ModelSource& source) {
  model::VisionTransformerImpl modules(source.config, model::Initialisation::for_loading);
  const checkpoint::Loading loading = source.weights.start_loading(modules, source.head);
  return loading.weights().get("head.weight").to(at::kFloat);
}

}  // namespace

void use_class_vectors(const std::string& file, ModelSource& source) {
  const std::string subject = "`classes` " + file;
  const checkpoint::SafetensorsFile contents = checkpoint::SafetensorsFile::open(file);
  const checkpoint::TensorView* vectors = contents.find("vectors");
  if (vectors == nullptr || vectors->dtype != checkpoint::Dtype::F32 || vectors->shape.size() != 2)
    throw UsageError("expected a tensor vectors, float32 (classes, D)", subject);
  const std::int64_t dim = source.config.embed_dim;
  const std::int64_t width = vectors->shape[1];
  const bool of_projection =
      width == source.config.num_classes && (width != dim || source.weights.has_projection());
  if (!of_projection && width != dim) {
    const std::string of_outputs =
        source.weights.has_projection()
            ? ", its projection gives " + std::to_string(source.config.num_classes)
            : "";
    throw UsageError("has vectors of " + std::to_string(width) + " numbers, the features of " +
                         source.name + " have " + std::to_string(dim) + of_outputs,
                     subject);
  }
  const checkpoint::Metadata& metadata = contents.metadata();
  const auto names = metadata.find("names");
  if (names == metadata.end())
    throw UsageError("its metadata have no names, a JSON array", subject);
  std::vector<std::string> lines;
  const auto listed = nlohmann::json::parse(names->second, nullptr, /*allow_exceptions=*/false);
  if (!listed.is_array() || !std::ranges::all_of(listed, &nlohmann::json::is_string))
    throw UsageError("its names are no JSON array of texts", subject);
  for (const nlohmann::json& name : listed) {
    lines.push_back(name.get<std::string>());
    image::require_class_name(lines.back(), subject);
  }
  if (std::cmp_not_equal(lines.size(), vectors->shape[0]) || lines.empty())
    throw UsageError("has " + std::to_string(lines.size()) + " names for " +
                         std::to_string(vectors->shape[0]) + " vectors",
                     subject);
  at::Tensor unit = checkpoint::copy_of(*vectors);
  if (!unit.isfinite().all().item<bool>())
    throw UsageError("has values that are no numbers", subject);
  const at::Tensor norms = unit.to(at::kDouble).norm(2, 1, /*keepdim=*/true);
  if (const std::int64_t zero = norms.argmin().item<std::int64_t>();
      norms[zero].item<double>() == 0)
    throw UsageError("the vector of " + lines[static_cast<std::size_t>(zero)] + " is zero",
                     subject);
  unit = (unit.to(at::kDouble) / norms).to(at::kFloat);
  const double scale = number_of(metadata, "logit_scale", 1, subject);
  if (!(scale > 0)) throw UsageError("its logit_scale is no positive number", subject);
  const double bias = number_of(metadata, "logit_bias", 0, subject);

  source.class_vectors = unit * scale;
  if (of_projection) source.class_vectors = at::matmul(source.class_vectors, projection_of(source));
  source.answer = model::FeatureAnswer{
      .model = source.config,
      .features = of_projection ? model::Features::projected : model::Features::pooled,
      .answer = [unit, scale, bias](const at::Tensor& features, const at::Tensor&) {
        return at::matmul(torch::nn::functional::normalize(features), unit.t()) * scale + bias;
      }};
  source.classes.clear();
  for (const std::string& line : lines) source.classes.push_back({"", line, line});
  leave_out_exits(source.config);
  source.config.num_classes = vectors->shape[0];
  source.head = {.num_classes = source.config.num_classes, .reset = true};
}

}  // namespace hydrascope::app
