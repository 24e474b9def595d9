// The table of `hydrascope train`.
#include "app/options/option_builders.h"
#include "app/specs/specs.h"
#include "app/specs/training.h"
#include "model/training/schedule.h"

namespace hydrascope::app {

namespace training = model::training;

namespace {

bool is_hard(const std::string& word) { return word == "hard"; }

std::vector<Option> data_options() {
  return in_group(
      "Input", Role::task,
      {
          number("held-out",
                 "held-out pictures for the validation: about this number, or a share "
                 "below 1; only without a validation folder",
                 into(&TrainOptions::held_out), takes("N|SHARE"), by_default("0"), at_least(0)),
          text("store",
               "learn the classifier alone from a store of `embed`; in the place of FOLDER, by "
               "logistic regression (L-BFGS)",
               into(&TrainOptions::store), takes("STORE"), reads, role(Role::source)),
      });
}

std::vector<Option> schedule_options() {
  return in_group(
      "Schedule", Role::task,
      {
          // A run may go on for more epochs.
          integer("epochs", "times through the training pictures", into(&TrainOptions::epochs),
                  by_default("300"), at_least(1), role(Role::step)),
          number("lr", "largest learning rate", into(&TrainOptions::learning_rate),
                 otherwise("5e-4 x pictures per update / 512"), at_least(0)),
          text("sched", "course of the learning rate over the run, updated every step",
               into(&training::ScheduleOptions::kind), by_default("cosine"),
               one_of({"cosine", "linear", "constant"}), keyed("schedule.sched")),
          number("min-lr", "smallest learning rate", into(&TrainOptions::min_learning_rate),
                 otherwise("1e-5, but at most a hundredth of --lr"), at_least(0),
                 keyed("schedule.min-lr")),
          integer("warmup-epochs", "epochs of growing learning rate at the start",
                  into(&TrainOptions::warmup_epochs),
                  otherwise("5, or all but one of fewer --epochs"), at_least(0),
                  keyed("schedule.warmup-epochs")),
      });
}

std::vector<Option> loss_options() {
  return in_group(
      "Loss", Role::task,
      {
          number("smoothing", "label smoothing", into(&training::MixupOptions::label_smoothing),
                 by_default("0.1"), at_least(0), at_most(0.99), keyed("loss.smoothing")),
          number("drop-path",
                 "stochastic depth: share of dropped paths in the last block, growing from 0",
                 into(&training::ClassificationOptions::drop_path_rate), by_default("0"),
                 at_least(0), at_most(0.9), keyed("loss.drop-path")),
          text("teacher", "model to learn from besides the labels: a bundled name, file or folder",
               into(&TrainOptions::teacher), takes("MODEL"), completes_files),
          text("distillation-type",
               "learn from the probabilities of --teacher (soft: T^2 KL, the mean over pictures), "
               "or its decisions (hard)",
               into(&training::ClassificationOptions::distillation_is_hard, is_hard),
               by_default("hard"), one_of({"soft", "hard"}), keyed("loss.distillation-type")),
          number("distillation-alpha", "share of --teacher in the loss",
                 into(&training::ClassificationOptions::distillation_weight), by_default("0.5"),
                 at_least(0), at_most(1), keyed("loss.distillation-alpha")),
          number("distillation-tau", "temperature of --set distillation-type=soft",
                 into(&training::ClassificationOptions::temperature), takes("T"), by_default("1"),
                 at_least(0.01), keyed("loss.distillation-tau")),
      });
}

std::vector<Option> parameter_options() {
  return {text("freeze", "parameters that do not learn: 'blocks.0.*', 'patch_embed.*'",
               into(&training::ParameterGroupOptions::freeze), takes("GLOB"), repeatable,
               in("Optimizer"), role(Role::task), keyed("optimizer.freeze")),
          flag("grad-checkpointing", "save memory: compute blocks again in the backward pass",
               into(&training::ClassificationOptions::recompute_blocks), in("Run"),
               role(Role::step), keyed("run.grad-checkpointing"))};
}

/// Rows that few runs change.
std::vector<Option> train_settings() {
  return join(
      {training_settings("train"),
       in_group(
           "Model", Role::task,
           in_section(
               "model",
               {text("residual", "how a new model's blocks join their stream",
                     into(&ModelRequest::residual, model::find_word<model::Residual>),
                     otherwise("add"), one_of({"add", "reversible", "gru"})),
                integer("share-blocks", "blocks that a new model's layers share in turn; 0: none",
                        into(&ModelRequest::share_blocks), otherwise("0"), at_least(0)),
                text("step-embed", "each pass through shared blocks adds the signal of its number",
                     into(&ModelRequest::step_embed, is_on), otherwise("off"),
                     one_of({"on", "off"})),
                text("halting", "tokens leave when their scores say so",
                     into(&ModelRequest::halting, is_on), otherwise("off"), one_of({"on", "off"})),
                number("gate-scale", "scale of the halting scores", into(&ModelRequest::gate_scale),
                       otherwise("10")),
                number("gate-center", "centre of the halting scores; large: no token leaves",
                       into(&ModelRequest::gate_center), otherwise("30"))})),
       in_group("Loss", Role::task,
                {number("ponder", "weight of the layers that a token takes, where tokens halt",
                        into(&training::ClassificationOptions::ponder_weight), otherwise("5e-4"),
                        at_least(0), keyed("loss.ponder")),
                 integer("mlp-chunks", "parts in which MLPs take the tokens, to save memory",
                         into(&training::ClassificationOptions::mlp_chunks), otherwise("1"),
                         at_least(1), keyed("run.mlp-chunks"), role(Role::step))})});
}

std::vector<Option> output() {
  std::vector<Option> options = output_options();
  Option& output = row_of(options, &OutputRequest::file);
  output.placeholder = "FOLDER";
  output.help = "folder of the run: weights, states, logs";
  output.default_note = "output/train/MODEL-ATTENTION";
  output.aliases = {};
  row_of(options, &OutputRequest::format).help = "form of the summary on standard output";
  options.push_back(flag("force", "begin anew in a folder that already holds a run",
                         into(&ResumeRequest::force), in("Output"), role(Role::place)));
  return options;
}

}  // namespace

CommandSpec train_spec() {
  CommandSpec spec;
  spec.name = "train";
  spec.program = kTrainer;
  spec.summary = "train a model from scratch, or fine-tune one, on a folder of classes";
  spec.group = "Make and describe models";
  spec.positionals = "FOLDER";
  spec.options =
      join({data_options(), training_input_options(), new_head_options(), model_options(), output(),
            schedule_options(), training_run_options(), train_settings(),
            training_runtime_options("64", "1"), loss_options(), optimizer_options(),
            parameter_options(), average_options(), augmentation_options(), mixing_options(),
            resolution_options(), preprocessing_options(),
            without(label_options(), {&PicturesRequest::label_type}), general_options()});
  spec.common = {&ModelRequest::word,   &ModelRequest::attention,     &TransformRequest::img_size,
                 &TrainOptions::epochs, &TrainOptions::learning_rate, &RunRequest::batch_size,
                 &OutputRequest::file,  &ResumeRequest::word,         &TrainingOptions::processes,
                 &RunRequest::device};
  spec.examples = {
      "hydrascope train photos/ -m deit_tiny_patch16_224.softmax --reset-head --epochs 10 --lr "
      "1e-4",
      "hydrascope train imagenette/ -m deit_tiny_patch8_64 --attn hydra --epochs 30 -o runs/hydra",
      "torchrun --nproc-per-node 2 --no-python hydrascope train imagenette/ -m deit_tiny_patch8_64 "
      "-o runs/two",
      "hydrascope train imagenette/ -o runs/hydra --resume auto -m deit_tiny_patch8_64 --attn "
      "hydra",
  };
  return spec;
}

}  // namespace hydrascope::app
