// hydrascope convert: another checkpoint out of one that is there.
#include "app/command.h"
#include "app/console.h"
#include "app/model_metadata.h"
#include "app/model_source.h"
#include "kernels/error.h"
#include "model/vision_transformer.h"

#include <ATen/Context.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <system_error>
#include <utility>

namespace hydrascope::app {
namespace {

namespace fs = std::filesystem;

struct Files {
  std::string from;
  std::string to;
};

/// IN OUT, or --from and --output in their places.
Files files_of(const ParsedOptions& options) {
  std::vector<std::string> words = options.positionals();
  if (options.given("from")) words.insert(words.begin(), options.text("from"));
  if (options.given("output")) words.push_back(options.text("output"));
  if (words.size() != 2) {
    throw Error(ErrorCode::invalid_argument,
                "expected a checkpoint and the file to write, found " +
                    std::to_string(words.size()) + " names",
                "convert", "hydrascope convert --format-only in.pth out.safetensors");
  }
  if (!words[1].ends_with(".safetensors")) {
    throw Error(ErrorCode::invalid_argument, "what is written is a safetensors file", words[1],
                "give it that extension: " + fs::path(words[1]).stem().string() + ".safetensors");
  }
  return {words[0], words[1]};
}

void prepare_output(const fs::path& file, bool force) {
  std::error_code error;
  if (fs::exists(file, error) && !force) {
    throw Error(ErrorCode::invalid_argument, "the file exists", file.string(),
                "--force replaces it");
  }
  if (!file.has_parent_path()) return;
  fs::create_directories(file.parent_path(), error);
  if (error) {
    throw Error(ErrorCode::unreadable, "the folder cannot be created: " + error.message(),
                file.parent_path().string());
  }
}

std::optional<checkpoint::Dtype> parse_precision(const std::string& word) {
  if (word == "float32") return checkpoint::Dtype::F32;
  if (word == "float16") return checkpoint::Dtype::F16;
  if (word == "bfloat16") return checkpoint::Dtype::BF16;
  return std::nullopt;
}

int run_convert(const ParsedOptions& options) {
  if (dump_config_requested(options)) return kExitOk;
  if (!options.flag("format-only")) {
    throw Error(ErrorCode::invalid_argument, "distillation is not in this build", "convert",
                "--format-only rewrites a checkpoint as it is");
  }
  const Files files = files_of(options);
  const Console console(options);
  const ModelSource source = open_weights(options, files.from, files.from, options.text("model"));
  prepare_output(files.to, options.flag("force"));
  for (const std::string& note : source.notes) console.note("note: " + note);

  const ResolvedTransform transform = resolve_transform(options, source);
  if (options.flag("print-transform")) std::cout << transform.describe() << '\n';

  // Building the model proves that the file is complete and makes what it lacks.
  at::manual_seed(static_cast<std::uint64_t>(options.integer("seed")));
  model::VisionTransformer model(source.config);
  const checkpoint::LoadReport report = source.weights.load_into(*model, source.head);
  for (const std::string& note : describe(report)) console.note("note: " + note);
  checkpoint::convert_checkpoint(files.to, source.weights, *model, report,
                                 parse_precision(options.text("precision")),
                                 describe_descendant(source, "convert --format-only", transform,
                                                     resolve_named_labels(options, source)));
  console.note("wrote " + files.to + ": " + source.config.arch + ", attention " +
               model::to_text(source.config.attention) + ", from " + source.weights.format() +
               " with names of " + std::string(source.weights.layout()));
  return kExitOk;
}

}  // namespace

Command convert_command() {
  // What makes sense of the shared options: the checkpoint itself is a positional.
  std::vector<Option> model = model_options();
  std::erase_if(model, [](const Option& option) {
    return option.name == "checkpoint" || option.name == "pos-interp";
  });
  for (Option& option : model) {
    if (option.name != "model") continue;
    option.help = "architecture of the checkpoint";
    option.placeholder = "NAME";
    option.default_note = "what its names and shapes show";
    option.completes_files = false;
  }
  // Only what the file's transform can hold.
  std::vector<Option> preprocessing = preprocessing_options();
  std::erase_if(preprocessing, [](const Option& option) { return option.name == "exif"; });
  std::vector<Option> labels = label_options();
  std::erase_if(labels, [](const Option& option) { return option.name == "label-type"; });
  CommandSpec spec;
  spec.name = "convert";
  spec.aliases = {"distill"};
  spec.summary = "rewrite a checkpoint of timm, DeiT or Hugging Face as this program's safetensors";
  spec.positionals = "IN OUT";
  spec.options = join({{{.name = "format-only",
                         .kind = ValueKind::flag,
                         .help = "keep the weights as they are, bit for bit",
                         .group = "Conversion"},
                        {.name = "from",
                         .placeholder = "FILE|FOLDER",
                         .help = "the checkpoint, in the place of IN",
                         .group = "Conversion",
                         .completes_files = true},
                        {.name = "output",
                         .short_name = 'o',
                         .placeholder = "FILE.safetensors",
                         .help = "the file to write, in the place of OUT",
                         .group = "Conversion",
                         .completes_files = true},
                        {.name = "precision",
                         .help = "number format of the weights",
                         .default_note = "what the checkpoint has",
                         .choices = {"float32", "float16", "bfloat16"},
                         .aliases = {{"dtype"}, {"fp16", "float16"}, {"bf16", "bfloat16"}},
                         .group = "Conversion"},
                        {.name = "force",
                         .kind = ValueKind::flag,
                         .help = "replace a file that exists",
                         .group = "Conversion"},
                        {.name = "seed",
                         .kind = ValueKind::integer,
                         .placeholder = "N",
                         .help = "start of the random numbers of what the checkpoint lacks",
                         .default_value = "42",
                         .minimum = 0,
                         .group = "Conversion"}},
                       std::move(model),
                       std::move(preprocessing),
                       std::move(labels),
                       general_options()});
  spec.examples = {
      "hydrascope convert --format-only deit_base.pth deit_base.safetensors",
      "hydrascope convert --format-only --use-ema checkpoint.pth.tar averaged.safetensors",
      "hydrascope convert --format-only --precision float16 vit-base-patch16-224/ vit.safetensors",
  };
  return {std::move(spec), run_convert};
}

}  // namespace hydrascope::app
