#include "app/pipeline/picture_records.h"

#include "app/model/model_metadata.h"
#include "app/pipeline/predictions.h"
#include "model/registry/attention_spec.h"

#include <iterator>
#include <string>

namespace hydrascope::app {

InputRecord facts_of_run(const model::Classifier& classifier) {
  InputRecord run;
  run.attention = model::to_text(classifier.config().attention);
  run.attention_options = computed_options(classifier.config());
  run.approximations = classifier.approximations();
  run.device = classifier.options().device.str();
  run.precision = classifier.options().precision.name();
  return run;
}

void add_result(InputRecord& record, const PipelineResult& result,
                const image::TransformConfig& transform) {
  record.input = result.input.given;
  record.frame = result.frame;
  record.time = result.time;
  record.error = result.error;
  record.message = result.message;
  record.width = result.picture.width;
  record.height = result.picture.height;
  record.model_size = {result.model_size.height, result.model_size.width};
  if (result.views) {
    record.views = image::views_name(transform);
    record.num_views = std::ssize(result.views->plans);
  }
  record.note = result.note;
  record.seconds = result.seconds;
}

ClassifyRecords::ClassifyRecords(const model::Classifier& classifier,
                                 const image::TransformConfig& transform,
                                 const image::Labels& labels)
    : classifier_(classifier),
      transform_(transform),
      labels_(labels),
      run_(facts_of_run(classifier)) {}

ClassifyRecord ClassifyRecords::of(const PipelineResult& result, std::int64_t topk) const {
  ClassifyRecord record;
  static_cast<InputRecord&>(record) = run_;
  add_result(record, result, transform_);
  if (result.error) return record;
  record.tokens =
      classifier_.engine().num_tokens(result.model_size.height, result.model_size.width);
  record.top = top_classes(result, topk, labels_);
  // A GPU's plan chooses some of them in its first batch.
  if (const std::string kernels = classifier_.engine().describe().kernels; kernels != "fused")
    record.kernels = kernels;
  return record;
}

}  // namespace hydrascope::app
