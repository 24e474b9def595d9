#include "app/tasks/diagnostics_run.h"

#include "app/evaluate/evaluated_set.h"
#include "app/model/running_model.h"
#include "app/run/progress.h"
#include "app/run/terminal_text.h"
#include "app/session/map_explainer.h"
#include "kernels/error.h"
#include "model/device.h"
#include "model/explain/diagnostics.h"
#include "model/inference/one_torch_thread.h"
#include "model/vision_transformer.h"

#include <ATen/ops/zeros.h>

#include <cstdint>
#include <utility>

namespace hydrascope::app {
namespace {

namespace explain = model::explain;

model::VisionTransformer load_modules(const Session& session, c10::Device device) {
  const ModelSource& source = session.source();
  model::seed_generators(session.run_request().seed);
  model::VisionTransformer modules(source.config, model::Initialisation::for_loading);
  source.weights.load_into(*modules, source.head);
  modules->eval();
  for (at::Tensor& parameter : modules->parameters()) parameter.set_requires_grad(false);
  modules->to(at::kFloat);
  modules->to(device);
  return modules;
}

/// For pictures whose input alone is wanted.
class NoModel final : public model::inference::Engine {
 public:
  explicit NoModel(const model::VitConfig& config) : Engine(config) {}

 private:
  model::inference::EngineOutputs run(const model::inference::ImageBatch& batch) override {
    return {at::zeros({batch.size(), 1}), {}};
  }
};

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

DiagnosticsReport run_diagnostics(Session& session, const Session* reference, LabelledSet set,
                                  std::int64_t images) {
  const ModelSource& source = session.source();
  const c10::Device device = model::resolve_device(session.run_request().device);
  DiagnosticsReport report;
  report.model = source.name;
  report.attention = model::to_text(source.config.attention);
  if (reference != nullptr &&
      !explain::AttentionDiagnostics::comparable(source.config, reference->config())) {
    report.notes.push_back("layers are not compared: " + reference->source().name +
                           " has another shape");
    reference = nullptr;
  }
  model::VisionTransformer modules = load_modules(session, device);
  model::VisionTransformer reference_modules{nullptr};
  if (reference != nullptr) {
    report.against = reference->source().name;
    report.against_attention = model::to_text(reference->config().attention);
    reference_modules = load_modules(*reference, device);
  }
  explain::AttentionDiagnostics diagnostics(*modules,
                                            reference == nullptr ? nullptr : &*reference_modules);
  thin_out(set, static_cast<std::size_t>(images));
  NoModel none(source.config);
  std::vector<Input> inputs;
  for (const LabelledPicture& picture : set.pictures) inputs.push_back(input_of(picture));
  Progress progress("diagnostics", std::ssize(set.pictures), session.console().progress);
  session.hide_for_notes(progress);
  session.pipeline().keep_input = true;
  session.pipeline().trained_size.reset();  // it is not classified
  session.run_on(none, one_by_one(std::move(inputs)), [&](const PipelineResult& result) {
    try {
      if (result.error) throw Error(*result.error, result.message);
      const image::Size& size = result.model_size;
      const model::inference::OneTorchThread one(
          has_few_tokens(source.config.depth * none.num_tokens(size.height, size.width)));
      diagnostics.add(result.tensor);
    } catch (const Error& error) {
      ++report.failed;
      session.pipeline().notice("note: not in the diagnostics: " +
                                printable(result.input.given + ": " + error.what()));
    }
    progress.advance();
    return true;
  });
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
