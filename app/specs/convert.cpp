// The table of `hydrascope convert`.
#include "app/options/option_builders.h"
#include "app/options/option_table.h"
#include "app/specs/specs.h"
#include "app/specs/training.h"
#include "kernels/error.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace hydrascope::app {

namespace training = model::training;

namespace {

training::Target parse_target(const std::string& word) {
  return word == name(training::Target::features) ? training::Target::features
                                                  : training::Target::logits;
}

const std::array<RecipeDefault, 4>& recipe_defaults() {
  static const std::array<RecipeDefault, 4> kAll{{
      {&ConvertOptions::learning_rate, "1e-3", "6e-5"},
      {&ConvertOptions::mechanism_rate_scale, "3", "20"},
      {&RunRequest::batch_size, "32", "16", true},
      {&ConvertOptions::steps_outputs, "100", "0"},
  }};
  return kAll;
}

/// The shared options that make sense here, with `-m` as the model to convert.
std::vector<Option> parent_options() {
  std::vector<Option> options = without(model_options(), {&ModelRequest::checkpoint});
  Option& model = row_of(options, &ModelRequest::word);
  model.help = "model to convert and learn from";
  model.default_note = "the bundled softmax model";
  model.aliases = {};
  Option& attention = row_of(options, &ModelRequest::attention);
  attention.help = "attention to convert to" + attention.help.substr(attention.help.find(", as "));
  attention.default_note = "with --sizes the checkpoint's";
  model.role = Role::place;  // a recipe knows the parent by its weights alone
  return join(
      {options, new_head_options(),
       in_group(
           "Model", Role::source,
           {text("adapter", "folder of a LoRA adapter of PEFT, which is added to the weights",
                 into(&ModelRequest::adapter), takes("FOLDER"), completes_files, role(Role::model)),
            text("arch", "architecture", into(&ConvertOptions::architecture), takes("NAME"),
                 otherwise("what names and shapes of the checkpoint show"))})});
}

std::vector<Option> result_options() {
  return in_group(
      "Conversion", Role::task,
      {text("output", "safetensors file to write; FILE.training beside it has states and logs",
            into(&OutputRequest::file), letter('o'), takes("FILE"), written, role(Role::place)),
       number("epochs",
              "epochs end to end, at the model's own size; 0: converted layers learn alone",
              into(&ConvertOptions::epochs), "5"),
       integer("steps-sizes", "steps of the stage that learns --sizes",
               into(&ConvertOptions::steps_sizes), by_default("400"), at_least(1),
               keyed("sizes.steps")),
       text("exits", "layers that learn exits, or auto: some of the last half",
            for_field(&ConvertOptions::exits), takes("LAYER,...|auto"), comma_list),
       integer("steps-exits", "steps of the stage that learns --exits",
               into(&ConvertOptions::steps_exits), by_default("1000"), at_least(1),
               keyed("exits.steps")),
       text("start",
            "earlier conversion, whose layers of the same attention are taken; the last of several "
            "wins",
            into(&ConvertOptions::starts), takes("FILE"), repeatable, reads),
       stored_dtype("float32; the checkpoint's when it is only rewritten"),
       flag("force", "replace a file that exists, begin a run anew", into(&ResumeRequest::force),
            role(Role::place)),
       flag("format-only", "rewrite IN as OUT, weights bit for bit; as IN OUT without --attn",
            into(&ConvertOptions::format_only), role(Role::place))});
}

std::vector<Option> picture_options() {
  return in_group(
      "Input", Role::task,
      {text("input",
            "pictures to learn from; labels are not needed: folder, file, quoted glob or @list.txt",
            for_field(&PicturesRequest::words), letter('i'), takes("PATH"), repeatable,
            completes_files, as_argument),
       number("held-out",
              "held-out pictures that choose the best state: their number, or a share below 1; at "
              "most a quarter of each --input",
              into(&ConvertOptions::held_out), takes("N|SHARE"), by_default("480"),
              at_least(0.001)),
       flag("balance-sources", "draw from every --input equally often, whatever its size",
            into(&ConvertOptions::balances_sources), keyed("data.balance-sources")),
       text("eval", "labelled pictures for the finished model's top-1, any for features",
            into(&ConvertOptions::evaluated_folder), takes("FOLDER"), completes_files,
            role(Role::report)),
       text("labels-csv", "labels of --eval: a table of file and label (id, name or index)",
            into(&ConvertOptions::labels_csv), takes("FILE"), reads, role(Role::report))});
}

/// The recipe, whose defaults are those of the bundled models.
std::vector<Option> recipe_options() {
  return in_group(
      "Advanced", Role::task,
      {integer("steps-maps", "steps of stage 1: learned maps imitate attention rows",
               into(&ConvertOptions::steps_maps), by_default("1600"), at_least(0),
               keyed("maps.steps")),
       integer("steps-outputs", "steps of stage 2: layers imitate attention outputs",
               into(&ConvertOptions::steps_outputs), at_least(0), keyed("outputs.steps")),
       number("lr", "largest learning rate of the last stage", into(&ConvertOptions::learning_rate),
              ""),
       number("min-lr", "smallest learning rate of the last stage, at its end",
              into(&ConvertOptions::min_learning_rate), by_default("0"), at_least(0),
              keyed("last.min-lr")),
       number("kl-weight", "weight of the answers' distance in the loss",
              into(&ConvertOptions::answers_weight), by_default("1"), at_least(0),
              keyed("last.kl-weight")),
       number("blocks-weight", "weight of the blocks' relative errors in the loss",
              into(&ConvertOptions::blocks_weight), by_default("4"), at_least(0),
              keyed("last.blocks-weight")),
       number("mechanism-lr-scale", "learning rate of learned maps and scales, relative to --lr",
              into(&ConvertOptions::mechanism_rate_scale), at_least(0),
              keyed("last.mechanism-lr-scale")),
       integer("train-from", "first block that learns in the last stage; embeddings never do",
               into(&ConvertOptions::train_from), takes("LAYER"),
               otherwise("the first converted one"), at_least(0), keyed("last.train-from"))});
}

/// Rows of the stages that few runs change.
std::vector<Option> convert_settings() {
  return join(
      {training_settings("convert"),
       in_group(
           "Advanced", Role::task,
           {integer("batch-size-maps", "pictures per batch and process in stage 1",
                    into(&ConvertOptions::batch_size_maps), at_least(1), keyed("maps.batch-size"),
                    role(Role::step)),
            integer("evaluations", "looks at the held-out pictures in the last stages",
                    into(&ConvertOptions::evaluations), by_default("10"), at_least(1),
                    keyed("last.evaluations")),
            number("lr-sizes", "largest learning rate of --sizes",
                   into(&ConvertOptions::sizes_learning_rate), by_default("1e-4"), at_least(0),
                   keyed("sizes.lr")),
            text("target", "answers that are learned; a model without classes has features alone",
                 into(&ConvertOptions::target, parse_target),
                 otherwise("logits where there are classes"),
                 one_of({std::string(name(training::Target::logits)),
                         std::string(name(training::Target::features))}),
                 keyed("last.target")),
            number("lr-exits", "largest learning rate of --exits",
                   into(&ConvertOptions::exits_learning_rate), by_default("4e-4"), at_least(0),
                   keyed("exits.lr"))})});
}

std::vector<Option> optimizer() {
  return with_defaults(optimizer_options(),
                       {{&training::ParameterGroupOptions::weight_decay, "0.02"},
                        {&training::OptimizerOptions::betas, "0.9,0.99"},
                        {&TrainingOptions::clip_norm, "1"}});
}

std::vector<Option> report_options() {
  std::vector<Option> options = without(output_options(), {&OutputRequest::file});
  row_of(options, &OutputRequest::format).help = "form of the summary on standard output";
  options.push_back(
      number("require-top1", "exit with code 4 if top-1 on --eval is below PCT percent",
             into(&ConvertOptions::required_top1), takes("PCT"), in("Output"), role(Role::report)));
  return options;
}

}  // namespace

CommandSpec convert_spec() {
  CommandSpec spec;
  spec.name = "convert";
  spec.program = kTrainer;
  spec.aliases = {"distill"};
  spec.summary = "give a trained model another attention, or rewrite a checkpoint";
  spec.group = "Make and describe models";
  spec.positionals = "[PICTURES...|IN OUT]";
  const std::vector<Option> runtime = training_runtime_options(
      "", "one per core, up to 4, on a CPU without --threads and --batch-size");
  spec.options = join(
      {parent_options(), result_options(), resolution_options(), picture_options(),
       training_input_options(), report_options(), training_run_options(), convert_settings(),
       runtime, preprocessing_options(), without(label_options(), {&PicturesRequest::label_type}),
       with_defaults(augmentation_options(), {{&training::AugmentOptions::scale, "0.3,1"}}),
       with_defaults(mixing_options(), {{&training::MixupOptions::mixup_alpha, "1"},
                                        {&training::MixupOptions::cutmix_alpha, "1"}}),
       optimizer(), with_defaults(average_options(), {{&TrainingOptions::average_decay, "0.99"}}),
       recipe_options(), general_options()});
  Option& minutes = row_of(spec.options, &TrainingOptions::max_minutes);
  minutes.help = "minutes to fit the whole run to";
  minutes.minimum = 1e-6;  // no limit is left out, not 0
  Option& batch = row_of(spec.options, &RunRequest::batch_size);
  batch.group = "Advanced";
  row_of(spec.options, &PicturesRequest::labels).role = Role::place;  // the new file has the names
  for (const RecipeDefault& entry : recipe_defaults()) {
    std::string& note = row_of(spec.options, entry.field).default_note;
    note = entry.value;
    if (entry.with_learned_maps != entry.value)
      note += "; with learned feature maps: " + std::string(entry.with_learned_maps);
    if (entry.is_shared) note += ", shared among the processes";
  }
  spec.common = {
      &ModelRequest::word,     &ModelRequest::attention,          &PicturesRequest::words,
      &OutputRequest::file,    &ConvertOptions::epochs,           &TrainingOptions::max_minutes,
      &TrainingOptions::sizes, &ConvertOptions::evaluated_folder, &ConvertOptions::required_top1,
      &ResumeRequest::word,    &TrainingOptions::processes};
  spec.examples = {
      "hydrascope convert --attn hydra:last2 -i photos/ -o hydra_last2.safetensors",
      "hydrascope convert in.pth out.safetensors",
      "hydrascope convert --attn window --set attn-opt=window.prefix_rows=learned --set "
      "pos-interp=tile "
      "--set overview=on --set steps-outputs=0 --epochs 0 -i photos/ --sizes 224,512,1088x1920 "
      "--scenes "
      "large/ -o window.safetensors",
      "hydrascope convert --exits auto -i photos/ -o exits.safetensors",
      "hydrascope convert -m softmax.safetensors --attn hedgehog,hydra:last2 -i photos/ -i "
      "'@more.txt' -o mixed.safetensors --dtype float16 --resume auto",
      "hydrascope convert --attn hydra:last4 -i photos/ -o out.safetensors --eval labelled/ "
      "--require-top1 75",
  };
  return spec;
}

double RecipeDefault::of(bool learns_maps, int processes) const {
  const double number = to_number(learns_maps ? with_learned_maps : value, "a default");
  return is_shared ? std::max(1.0, std::floor(number / processes)) : number;
}

const RecipeDefault& recipe_default(const Field& field) {
  const auto* found = std::ranges::find(recipe_defaults(), field, &RecipeDefault::field);
  if (found == recipe_defaults().end())
    throw Error(ErrorCode::internal, "no default depends on the model");
  return *found;
}

}  // namespace hydrascope::app
