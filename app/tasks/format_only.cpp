#include "app/tasks/format_only.h"

#include "app/model/model_metadata.h"
#include "app/model/model_source.h"
#include "app/model/running_model.h"
#include "app/options/option_fields.h"
#include "app/options/written_files.h"
#include "app/run/console.h"
#include "app/run/exit_code.h"
#include "app/run/usage_error.h"
#include "app/specs/training.h"
#include "kernels/file_place.h"
#include "model/device.h"
#include "model/vision_transformer.h"

#include <system_error>
#include <vector>

namespace hydrascope::app {
namespace fs = std::filesystem;

void prepare_output(const fs::path& file, bool force, FileKind kind) {
  if (file.extension() != ".safetensors") {
    throw UsageError("weights are written as safetensors", file.string(),
                     "give the file that extension: " + file.stem().string() + ".safetensors");
  }
  if (open_stream(file)) throw UsageError("expected a file, found an open stream", file.string());
  std::error_code error;
  if (fs::exists(file, error) && !force) {
    throw UsageError("the file exists", file.string(), "`force` replaces it");
  }
  if (error == std::errc::filename_too_long)
    throw UsageError("the name is too long", file.string());
  refuse_to_replace(file, kind, file.string());
  if (!file.has_parent_path()) return;
  fs::create_directories(file.parent_path(), error);
  if (error) {
    throw Error(ErrorCode::unwritable, "the folder cannot be created: " + error.message(),
                file.parent_path().string());
  }
}

RewriteRequest rewrite_request(const ParsedOptions& options) {
  const ModelRequest model = model_request(options);
  std::vector<std::string> words = options.positionals();
  if (!model.word.empty()) words.insert(words.begin(), model.word);
  if (options.given(&OutputRequest::file)) words.push_back(options[&OutputRequest::file].text());
  if (words.size() != 2) {
    throw UsageError("expected a checkpoint and the file to write, found " +
                         std::to_string(words.size()) + " names",
                     "convert", "hydrascope convert in.pth out.safetensors");
  }
  if (const GivenOption* given = given_of(options, {Role::task, Role::step, Role::report}))
    throw UsageError("a checkpoint that is only rewritten learns nothing", given->origin,
                     "name the pictures to learn from by `input`");
  RewriteRequest request{.console = console_request(options),
                         .model = model,
                         .architecture = options[&ConvertOptions::architecture].text(),
                         .from = words[0],
                         .to = words[1],
                         .transform = transform_request(options),
                         .dtype = weights_request(options).dtype,
                         .labels = options[&PicturesRequest::labels].text()};
  request.model.may_be_random = true;
  take(options[&ResumeRequest::force], request.force);
  take(options[&RunRequest::seed], request.seed);
  return request;
}

int rewrite_checkpoint(const RewriteRequest& request) {
  const Console& console = request.console;
  const std::string& to = request.to;
  const ModelSource source =
      open_weights(request.model, request.from, request.from, request.architecture);
  refuse_input(to, to, source.weights.file());
  prepare_output(to, request.force);
  for (const std::string& note : source.notes) console.note("note: " + note);

  const ResolvedTransform transform = resolve_transform(request.transform, source);
  transform.say_assumed(console);

  // Building the model proves that the file is complete and makes what it lacks.
  model::seed_generators(request.seed);
  model::VisionTransformer modules(source.config);
  const checkpoint::LoadReport report = source.weights.load_into(*modules, source.head);
  for (const std::string& note : describe(report)) console.note("note: " + note);
  checkpoint::convert_checkpoint(to, source.weights, *modules, report, request.dtype,
                                 describe_descendant(source, "convert --format-only", transform,
                                                     resolve_labels(request.labels, source)));
  console.note("wrote " + to + ": " + source.config.arch + ", attention " +
               model::to_text(source.config.attention) + ", from " + source.weights.format() +
               " with names of " + std::string(source.weights.layout()));
  return kExitOk;
}

}  // namespace hydrascope::app
