// The tables of `hydrascope evaluate`, `compare`, `faithfulness` and `diagnose`.
#include "app/evaluate/evaluate_options.h"
#include "app/options/option_builders.h"
#include "app/specs/specs.h"

namespace hydrascope::app {

CommandSpec evaluate_spec() {
  CommandSpec spec;
  spec.name = "evaluate";
  spec.aliases = {"eval", "validate"};
  spec.summary = "measure top-1, top-5 and calibration over a labelled set";
  spec.group = "Measure";
  spec.positionals = "FOLDER";
  spec.options =
      join({model_options(), class_vector_options(), input_options(), labelled_set_options(),
            without(label_options(), {&PicturesRequest::label_type}), score_options(),
            preprocessing_options(), views_options(), set_runtime_options(), output_options(),
            general_options()});
  spec.common = {
      &ModelRequest::word,         &ModelRequest::attention, &TransformRequest::views,
      &TransformRequest::img_size, &RunRequest::precision,   &RunRequest::device,
      &SetRequest::labels_csv,     &SetRequest::limit,       &ScoreRequest::required_top1,
      &ScoreRequest::html,         &OutputRequest::file,     &OutputRequest::format};
  spec.examples = {
      "hydrascope evaluate imagenet/val --html scores.html",
      "hydrascope evaluate pictures --labels-csv pictures/images.csv --format json",
      "hydrascope evaluate imagenet/val --img-size 384 --require-top1 70",
      "hydrascope evaluate imagenet/val --per-class classes.csv",
  };
  return spec;
}

CommandSpec compare_spec() {
  CommandSpec spec;
  spec.name = "compare";
  spec.summary = "measure how often two models, or two settings of one, agree";
  spec.group = "Measure";
  spec.positionals = "PICTURES...";
  spec.options =
      join({model_options(), agreement_options(), input_options(), labelled_set_options(),
            without(label_options(), {&PicturesRequest::label_type}), preprocessing_options(),
            one_view_options(), set_runtime_options(), output_options(), general_options()});
  spec.common = {
      &ModelRequest::word,        &ModelRequest::attention,   &AgainstRequest::word,
      &AgainstRequest::attention, &AgainstRequest::precision, &TransformRequest::img_size,
      &SetRequest::limit,         &OutputRequest::file,       &OutputRequest::format};
  spec.examples = {
      "hydrascope compare photos/ -m converted.safetensors --against deit_tiny_patch16_224.softmax",
      "hydrascope compare photos/ --against-precision bfloat16",
      "hydrascope compare photos/ --attn hydra:last2 --against-attn softmax",
      "hydrascope compare imagenet/val -m a.safetensors --against b.safetensors --format json",
  };
  return spec;
}

CommandSpec faithfulness_spec() {
  CommandSpec spec;
  spec.name = "faithfulness";
  spec.summary = "measure whether heatmaps mark the patches that the model used";
  spec.group = "Measure";
  spec.positionals = "PICTURES...";
  spec.options =
      join({model_options(), faithfulness_options(), input_options(), labelled_set_options(),
            without(label_options(), {&PicturesRequest::label_type}), preprocessing_options(),
            one_view_options(), set_runtime_options(), output_options(), general_options()});
  spec.common = {&ModelRequest::word,
                 &ModelRequest::attention,
                 &FaithfulnessRequest::methods,
                 &FaithfulnessRequest::measures,
                 &FaithfulnessRequest::layer,
                 &TransformRequest::img_size,
                 &SetRequest::limit,
                 &OutputRequest::file,
                 &OutputRequest::format};
  spec.examples = {
      "hydrascope faithfulness photos/",
      "hydrascope faithfulness photos/ --method hydra,attention,gradcam --set steps=7",
      "hydrascope faithfulness imagenet/val --limit-images 500 --measure deletion --format json",
  };
  return spec;
}

namespace {

std::vector<Option> table_options() {
  std::vector<Option> options = output_options();
  row_of(options, &OutputRequest::file).placeholder = "FILE";
  row_of(options, &OutputRequest::file).help =
      "file of the table; a name that ends in .html gives a page with charts";
  options.push_back(integer("limit-images", "number of used pictures, evenly spread",
                            into(&EvaluateRequest::diagnosed_images), by_default("32"), at_least(1),
                            in("Input"), role(Role::task)));
  return options;
}

}  // namespace

CommandSpec diagnose_spec() {
  CommandSpec spec;
  spec.name = "diagnose";
  spec.summary = "measure every head's attention, and its distance from softmax";
  spec.group = "Measure";
  spec.positionals = "PICTURES...";
  spec.options =
      join({model_options(), layer_reference_options(),
            without(input_options(), {&PicturesRequest::recursive, &RunRequest::fail_fast}),
            table_options(), preprocessing_options(), one_view_options(),
            without(runtime_options(),
                    {&RunRequest::batch_size, &RunRequest::workers, &RunRequest::precision,
                     &RunRequest::calibration, &RunRequest::kernels, &RunRequest::deterministic}),
            general_options()});
  spec.common = {&ModelRequest::word,         &ModelRequest::attention,
                 &AgainstRequest::word,       &AgainstRequest::attention,
                 &TransformRequest::img_size, &EvaluateRequest::diagnosed_images,
                 &OutputRequest::file,        &OutputRequest::format};
  spec.examples = {
      "hydrascope diagnose photos/",
      "hydrascope diagnose photos/ -m deit_tiny_patch16_224.hydra_last2 -o attention.html",
      "hydrascope diagnose photos/ --attn hedgehog --against-attn softmax --format json",
  };
  return spec;
}

}  // namespace hydrascope::app
