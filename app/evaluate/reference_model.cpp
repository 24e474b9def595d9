#include "app/evaluate/reference_model.h"

#include "app/console.h"
#include "app/evaluate/evaluate_options.h"
#include "app/evaluate/evaluated_set.h"
#include "kernels/error.h"

#include <utility>

namespace hydrascope::app {
namespace {

std::vector<std::string> words_of(const ParsedOptions& options, std::string_view name) {
  return options.given(name) ? options.texts(name) : std::vector<std::string>();
}

/// `--calibration` is of the one that runs in int8.
ParsedOptions with_calibration_where_wanted(const ParsedOptions& options) {
  return options.text("precision") == "int8" ? options : options.with("calibration", {});
}

/// What opens the reference.
ParsedOptions options_of_reference(const ParsedOptions& options) {
  ParsedOptions own = options;
  if (options.given("against")) {
    own = own.with("model", options.texts("against"));
    for (const char* name : {"checkpoint", "use-ema", "num-classes", "reset-head", "attn",
                             "attn-opt", "pos-interp", "overview"})
      own = own.with(name, {});
  }
  if (options.given("against-attn"))
    own = own.with("attn", options.texts("against-attn")).with("attn-opt", {});
  if (options.given("against-attn-opt"))
    own = own.with("attn-opt", words_of(options, "against-attn-opt"));
  return own;
}

/// And what runs it.
ParsedOptions run_options_of_reference(const ParsedOptions& options) {
  ParsedOptions own = options_of_reference(options).with("keep-tokens", {}).with("keep-layer", {});
  if (options.given("against-precision"))
    own = own.with("precision", options.texts("against-precision"));
  return with_calibration_where_wanted(own);
}

/// `--attn` of the reference's own options was written `--against-attn`.
ModelSource open_as_reference(const ParsedOptions& own) {
  try {
    return open_model(own);
  } catch (const Error& error) {
    const std::string flag = with_flags(error.subject());
    if (!flag.starts_with("--attn")) throw;
    throw Error(error.code(), error.what(), "--against-" + flag.substr(2), error.hint(),
                error.where());
  }
}

}  // namespace

ParsedOptions options_beside_reference(const ParsedOptions& options) {
  return options.text("against-precision") == "int8" ? with_calibration_where_wanted(options)
                                                     : options;
}

ModelSource open_reference(const ParsedOptions& options, const ModelSource& model) {
  ModelSource source = open_as_reference(options_of_reference(options));
  if (source.config.num_classes != model.config.num_classes) {
    throw Error(ErrorCode::invalid_argument,
                "has " + std::to_string(source.config.num_classes) + " classes, " + model.name +
                    " has " + std::to_string(model.config.num_classes),
                "--against " + source.name);
  }
  return source;
}

ReferenceModel::ReferenceModel(const ParsedOptions& options, const ModelSource& model)
    : options_(run_options_of_reference(options)),
      source_(open_reference(options, model)),
      transform_(resolve_transform(options_, source_)) {}

void ReferenceModel::load(const Console& console) {
  for (const std::string& note : source_.notes) console.note("note: --against: " + note);
  console.detail("against: " + transform_.describe());
  classifier_.emplace(make_classifier(options_, source_));
}

std::vector<at::Tensor> ReferenceModel::classify(
    std::span<const LabelledPicture> pictures,
    const std::function<void(const std::string&)>& notice) {
  PipelineOptions pipeline = pipeline_options(options_, transform_, apply_exif_if_asked(options_));
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
  if (const auto values = model::attention_options(source_.config.attention); !values.empty())
    summary.add("against_attention_options", values);
  summary.add_size("against_img_size", transform.img_size.height, transform.img_size.width);
  summary.add("against_precision", std::string(classifier_->options().precision.name()));
}

}  // namespace hydrascope::app
