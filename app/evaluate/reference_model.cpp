#include "app/evaluate/reference_model.h"

#include "app/evaluate/evaluated_set.h"
#include "app/model/model_metadata.h"
#include "app/run/console.h"
#include "kernels/error.h"

#include <utility>

namespace hydrascope::app {
namespace {

/// `--attn` of the reference's request was written `--against-attn`.
ModelSource open_as_reference(const ModelRequest& request) {
  try {
    return open_model(request);
  } catch (const Error& error) {
    const std::string flag = with_flags(error.subject());
    if (!flag.starts_with("--attn")) throw;
    throw Error(error.code(), error.what(), "--against-" + flag.substr(2), error.hint(),
                error.where());
  }
}

}  // namespace

ModelSource open_reference(const ModelRequest& request, const ModelSource& model) {
  ModelSource source = open_as_reference(request);
  if (source.config.num_classes != model.config.num_classes) {
    throw Error(ErrorCode::invalid_argument,
                "has " + std::to_string(source.config.num_classes) + " classes, " + model.name +
                    " has " + std::to_string(model.config.num_classes),
                "--against " + source.name);
  }
  return source;
}

ReferenceModel::ReferenceModel(ReferenceRequest request, const TransformRequest& transform,
                               const ModelSource& model)
    : run_(std::move(request.run)),
      source_(open_reference(request.model, model)),
      transform_(resolve_transform(transform, source_)) {}

void ReferenceModel::load(const Console& console) {
  for (const std::string& note : source_.notes) console.note("note: --against: " + note);
  console.detail("against: " + transform_.describe());
  classifier_.emplace(make_classifier(run_, source_, transform_.config, console));
}

std::vector<at::Tensor> ReferenceModel::classify(
    std::span<const LabelledPicture> pictures,
    const std::function<void(const std::string&)>& notice) {
  PipelineOptions pipeline = pipeline_options(run_, transform_.config);
  pipeline.keep_input = false;
  pipeline.notice = notice;
  std::size_t next = 0;
  std::vector<at::Tensor> logits;
  const auto next_input = [&]() -> std::optional<Input> {
    if (next == pictures.size()) return std::nullopt;
    return input_of(pictures[next++]);
  };
  run_pipeline(next_input, *classifier_, pipeline, [&](const PipelineResult& result) {
    logits.push_back(result.logits);
    return true;
  });
  return logits;
}

void ReferenceModel::add_facts(Summary& summary) const {
  const image::TransformConfig& transform = transform_.config;
  summary.add("against", source_.name);
  summary.add("against_attention", model::to_text(source_.config.attention));
  if (const auto values = computed_options(source_.config); !values.empty())
    summary.add("against_attention_options", values);
  summary.add_size("against_img_size", transform.img_size.height, transform.img_size.width);
  summary.add("against_precision", std::string(classifier_->options().precision.name()));
}

}  // namespace hydrascope::app
