#include "app/evaluate/diagnostics_run.h"

#include "app/evaluate/evaluated_set.h"
#include "app/run/explanation_threads.h"
#include "app/run/progress.h"
#include "app/run/signal_stop.h"
#include "app/run/terminal_text.h"
#include "kernels/error.h"
#include "model/device.h"
#include "model/explain/diagnostics.h"

#include <cstdint>
#include <utility>

namespace hydrascope::app {
namespace {

namespace explain = model::explain;

model::VisionTransformer load_modules(const RunRequest& run, const ModelSource& source,
                                      c10::Device device) {
  model::seed_generators(run.seed);
  model::VisionTransformer modules(source.config, model::Initialisation::for_loading);
  source.weights.load_into(*modules, source.head);
  modules->eval();
  for (at::Tensor& parameter : modules->parameters()) parameter.set_requires_grad(false);
  modules->to(at::kFloat);
  modules->to(device);
  return modules;
}

/// means: (depth, H + 1, diagnostics), the layer's own row last.
std::vector<DiagnosticsReport::Row> rows_of(const at::Tensor& means,
                                            const model::VitConfig& config) {
  std::vector<DiagnosticsReport::Row> rows;
  const std::int64_t heads = means.size(1) - 1;
  for (std::int64_t layer = 0; layer < means.size(0); ++layer) {
    for (std::int64_t head = -1; head < heads; ++head) {
      const at::Tensor numbers = means[layer][head < 0 ? heads : head].contiguous();
      const double* values = numbers.const_data_ptr<double>();
      rows.push_back(
          {layer, config.attention_of(layer).mechanism, head, {values, values + numbers.numel()}});
    }
  }
  return rows;
}

}  // namespace

DiagnosticsReport run_diagnostics(const RunRequest& run, const ModelSource& source,
                                  const ModelSource* reference, LabelledSet set,
                                  std::int64_t images, const image::TransformConfig& transform,
                                  const Console& console) {
  const c10::Device device = choose_device(run);
  DiagnosticsReport report;
  report.model = source.name;
  report.attention = model::to_text(source.config.attention);
  if (reference != nullptr &&
      !explain::AttentionDiagnostics::comparable(source.config, reference->config)) {
    report.notes.push_back("layers are not compared: " + reference->name + " has another shape");
    reference = nullptr;
  }
  model::VisionTransformer modules = load_modules(run, source, device);
  model::VisionTransformer reference_modules{nullptr};
  if (reference != nullptr) {
    report.against = reference->name;
    report.against_attention = model::to_text(reference->config.attention);
    reference_modules = load_modules(run, *reference, device);
  }
  explain::AttentionDiagnostics diagnostics(*modules,
                                            reference == nullptr ? nullptr : &*reference_modules);
  thin_out(set, static_cast<std::size_t>(images));
  Progress progress("diagnostics", std::ssize(set.pictures), console.progress);
  for (const LabelledPicture& picture : set.pictures) {
    if (stop_requested()) break;
    try {
      if (picture.error) throw Error(*picture.error, picture.message);
      const at::Tensor image =
          image::apply_transform(transform, image::read_picture(picture.file, run.decode));
      const std::int64_t patch = source.config.patch_size;
      const ExplanationThreads threads(source.config.depth * (image.size(1) / patch) *
                                       (image.size(2) / patch));
      diagnostics.add(image);
    } catch (const Error& error) {
      ++report.failed;
      progress.hide();
      console.note("note: not in the diagnostics: " +
                   printable(picture.file.string() + ": " + error.what()));
    }
    progress.advance();
  }
  progress.finish();
  report.images = diagnostics.images();
  report.queries = diagnostics.queries();
  for (const explain::DiagnosticEntry& entry : explain::diagnostics()) {
    report.columns.push_back(
        {std::string(entry.name), std::string(entry.title), std::string(entry.summary)});
  }
  if (report.images == 0)
    report.notes.push_back("none of the pictures could be looked at");
  else
    report.rows = rows_of(diagnostics.means(), source.config);
  report.drop_empty_columns();
  return report;
}

}  // namespace hydrascope::app
