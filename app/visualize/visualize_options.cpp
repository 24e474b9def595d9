#include "app/visualize/visualize_options.h"

#include "app/evaluate/evaluate_options.h"
#include "app/options/option_builders.h"
#include "app/run/output_file.h"
#include "app/run/usage_error.h"
#include "viz/picture/encode.h"
#include "viz/scale/colormap.h"

#include <algorithm>
#include <array>
#include <string>
#include <system_error>

namespace hydrascope::app {
namespace {

namespace fs = std::filesystem;

/// `heat.png` is the file of one heatmap, `records.jsonl` neither that nor the name of a folder.
void take_output(const GivenOption& given, OutputOptions& outputs) {
  const fs::path output = given.text();
  const std::string place = given.origin + " " + output.string();
  if (output == "-")
    throw UsageError("heatmaps are files, expected a folder or NAME.png", place,
                     "records go to standard output in any case");
  std::error_code none;
  outputs.folder = output;
  if (fs::is_directory(output, none)) return;
  const std::string extension = viz::lower_extension(output.native());
  static constexpr std::array kPictures{".png", ".jpg", ".jpeg"};
  if (std::ranges::find(kPictures, extension) != kPictures.end()) {
    check_output_file(output.string(), given.origin, FileKind::picture);
    outputs.folder = output.parent_path();
    outputs.file = output;
    if (outputs.save_raw)
      refuse_to_replace(outputs.file_of_maps(), FileKind::array,
                        "`save_raw` " + outputs.file_of_maps().string());
    return;
  }
  static constexpr std::array kOthers{".webp",  ".gif", ".bmp", ".tif",  ".tiff", ".json",
                                      ".jsonl", ".csv", ".txt", ".html", ".npy",  ".mp4"};
  if (std::ranges::find(kOthers, extension) == kOthers.end()) return;
  throw UsageError("names a folder, or the heatmap of one picture: NAME.png or NAME.jpg", place,
                   "records go to standard output");
}

}  // namespace

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
  report.alpha = figure.alpha;
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
  options.fill(request, request.maps, outputs);
  request.vote = vote_request(options, request);
  take_output(options[&OutputRequest::file], outputs);
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
  if (!outputs.file.empty() && num_maps > 1)
    throw UsageError("is the file of one map, and there are " + std::to_string(num_maps),
                     "`output` " + outputs.file.string(), "`output` FOLDER takes their sheet");
  outputs.threads = threads;
  return outputs;
}

}  // namespace hydrascope::app
