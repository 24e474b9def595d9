#include "app/convert/format_only.h"

#include "app/command.h"
#include "app/model/model_metadata.h"
#include "app/model/model_source.h"
#include "app/run/console.h"
#include "kernels/error.h"
#include "model/vision_transformer.h"

#include <ATen/Context.h>

#include <iostream>
#include <system_error>
#include <utility>
#include <vector>

namespace hydrascope::app {
namespace {

namespace fs = std::filesystem;

/// IN and OUT, or `--model` and `--output` in their places.
std::pair<std::string, std::string> files_of(const ParsedOptions& options,
                                             const ModelRequest& model) {
  std::vector<std::string> words = options.positionals();
  if (!model.word.empty()) words.insert(words.begin(), model.word);
  if (options.given("output")) words.push_back(options.text("output"));
  if (words.size() != 2) {
    throw Error(ErrorCode::invalid_argument,
                "expected a checkpoint and the file to write, found " +
                    std::to_string(words.size()) + " names",
                "convert", "hydrascope convert in.pth out.safetensors");
  }
  return {words[0], words[1]};
}

}  // namespace

void prepare_output(const fs::path& file, bool force) {
  if (file.extension() != ".safetensors") {
    throw Error(ErrorCode::invalid_argument, "convert writes safetensors files", file.string(),
                "give the file that extension: " + file.stem().string() + ".safetensors");
  }
  std::error_code error;
  if (fs::exists(file, error) && !force) {
    throw Error(ErrorCode::invalid_argument, "the file exists", file.string(),
                "--force replaces it");
  }
  if (!file.has_parent_path()) return;
  fs::create_directories(file.parent_path(), error);
  if (error) {
    throw Error(ErrorCode::unwritable, "the folder cannot be created: " + error.message(),
                file.parent_path().string());
  }
}

std::optional<checkpoint::Dtype> weights_dtype(const ParsedOptions& options) {
  const std::string& word = options.text("save-dtype");
  if (word == "float32") return checkpoint::Dtype::F32;
  if (word == "float16") return checkpoint::Dtype::F16;
  if (word == "bfloat16") return checkpoint::Dtype::BF16;
  return std::nullopt;
}

int rewrite_checkpoint(const ParsedOptions& options, const ModelRequest& model,
                       const std::string& architecture) {
  const auto [from, to] = files_of(options, model);
  const Console console(options);
  const TransformRequest wanted = transform_request(options);
  const ModelSource source = open_weights(model, from, from, architecture);
  prepare_output(to, options.flag("force"));
  for (const std::string& note : source.notes) console.note("note: " + note);

  const ResolvedTransform transform = resolve_transform(wanted, source);
  if (wanted.is_printed) std::cout << transform.describe() << '\n';

  // Building the model proves that the file is complete and makes what it lacks.
  at::manual_seed(static_cast<std::uint64_t>(options.integer("seed")));
  model::VisionTransformer modules(source.config);
  const checkpoint::LoadReport report = source.weights.load_into(*modules, source.head);
  for (const std::string& note : describe(report)) console.note("note: " + note);
  checkpoint::convert_checkpoint(
      to, source.weights, *modules, report, weights_dtype(options),
      describe_descendant(source, "convert --format-only", transform,
                          resolve_labels(options.text("labels"), source)));
  console.note("wrote " + to + ": " + source.config.arch + ", attention " +
               model::to_text(source.config.attention) + ", from " + source.weights.format() +
               " with names of " + std::string(source.weights.layout()));
  return kExitOk;
}

}  // namespace hydrascope::app
