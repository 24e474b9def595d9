#include "app/visualize/visualize_options.h"

#include "app/evaluate/evaluate_options.h"
#include "app/options/option_builders.h"
#include "app/run/assets.h"
#include "app/run/output_file.h"
#include "app/run/usage_error.h"
#include "viz/scale/colormap.h"

#include <algorithm>
#include <array>
#include <memory>
#include <system_error>
#include <utility>

namespace hydrascope::app {
namespace {

namespace fs = std::filesystem;

/// `-o maps.png` or `-o records.jsonl` means something else than a folder of that name.
void refuse_file_for_folder(const fs::path& folder) {
  if (folder == "-")
    throw UsageError("heatmaps are files, expected a folder", "`output` -",
                     "records go to standard output in any case");
  std::error_code none;
  if (fs::is_directory(folder, none)) return;
  static constexpr std::array kFiles{".png", ".jpg", ".jpeg", ".webp", ".json", ".jsonl",
                                     ".csv", ".txt", ".html", ".npy",  ".mp4"};
  if (std::ranges::find(kFiles, folder.extension().string()) == kFiles.end()) return;
  throw UsageError("names a folder, not a file", "`output` " + folder.string(),
                   "records go to standard output");
}

}  // namespace

std::shared_ptr<const viz::Font> open_font(const std::string& given) {
  std::vector<fs::path> files = bundled_fonts();
  if (!given.empty()) files.insert(files.begin(), given);
  if (files.empty())
    throw Error(ErrorCode::failed, "no font comes with this build", "captions", "give `font` FILE");
  return std::make_shared<const viz::Font>(files);
}

std::shared_ptr<const viz::Font> font_of(const FigureOptions& figure, std::size_t num_maps,
                                         bool have_places) {
  // A font that is named is opened in any case: what is wrong with it is said.
  if (figure.has_extras(num_maps) || have_places || !figure.font.empty() ||
      (figure.title && !bundled_fonts().empty()))
    return open_font(figure.font);
  return nullptr;
}

FigureOptions figure_options(const ParsedOptions& options) {
  FigureOptions figure;
  options.fill(figure);
  figure.title = !options.given(&FigureOptions::caption);
  take(options[&PicturesRequest::label_type], figure.label_type, parse_label_type);
  return figure;
}

viz::ReportOptions report_options(const FigureOptions& figure) {
  constexpr double kHalf = 0.5;
  viz::ReportOptions report;
  if (figure.colormap != nullptr) report.colormap = report.signed_colormap = figure.colormap->name;
  report.sign = figure.sign;
  report.outlined_mass = figure.outlined_mass.value_or(0);
  report.outlier_percent = figure.outlier_percent;
  report.alpha = figure.alpha;
  report.blocks = figure.sampling == viz::Sampling::nearest;
  report.fade = figure.fade;
  report.grey = figure.grey;
  if (figure.beside) report.split = kHalf;
  return report;
}

VisualizeRequest visualize_request(const ParsedOptions& options) {
  VisualizeRequest request{pictures_request(
      options, AutoExif::upright,
      {&AgainstRequest::word, &AgainstRequest::attention, &AgainstRequest::attention_options,
       &VoteRequest::store, &RunRequest::memory, &RunRequest::memory_options})};
  check_frames(request);
  OutputOptions& outputs = request.outputs;
  options.fill(request, request.maps, outputs, outputs.encode);
  request.vote = vote_request(options, request);
  outputs.folder = request.output.file;
  refuse_file_for_folder(outputs.folder);
  outputs.figure = figure_options(options);
  outputs.report = report_options(outputs.figure);
  if (!outputs.html.empty()) check_output_file(outputs.html, options[&OutputOptions::html].origin);
  if (const std::string ending = outputs.html.extension().string();
      !outputs.html.empty() && ending != ".html" && ending != ".htm")
    throw UsageError("the page's name must end in .html", "`html` " + outputs.html.string());
  if (const GivenOption* asked = names_another_model(options)) {
    if (outputs.html.empty())
      throw UsageError("is for a page only", asked->origin, "add `html` FILE.html");
    if (!request.run.memory.empty())
      throw UsageError("the other model sees single frames", asked->origin + " with `memory`",
                       "leave one of them out");
    if (!request.vote.store.empty())
      throw UsageError("the other model has other classes than the store",
                       asked->origin + " with `knn`");
    request.against = reference_request(options, request.model, request.run).model;
  }
  return request;
}

OutputOptions heatmap_outputs(const VisualizeRequest& request, std::size_t num_maps, int threads) {
  OutputOptions outputs = request.outputs;
  if (outputs.image_format) viz::require_encoder(*outputs.image_format);
  const bool have_places = request.transform.views && request.transform.views->value.have_looks;
  outputs.font = font_of(outputs.figure, num_maps, have_places);
  outputs.threads = threads;
  return outputs;
}

}  // namespace hydrascope::app
