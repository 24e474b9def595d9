#include "app/visualize/visualize_options.h"

#include "app/model/assets.h"
#include "app/options/option_builders.h"
#include "app/options/option_table.h"
#include "kernels/error.h"
#include "viz/scale/colormap.h"

#include <algorithm>
#include <array>
#include <memory>
#include <system_error>
#include <utility>

namespace hydrascope::app {
namespace {

namespace fs = std::filesystem;

/// `--font` first, then those that come along: what one lacks, the next may have.
std::shared_ptr<const viz::Font> open_font(const std::string& given) {
  std::vector<fs::path> files = bundled_fonts();
  if (!given.empty()) files.insert(files.begin(), given);
  if (files.empty())
    throw Error(ErrorCode::failed, "no font comes with this build", "captions", "give --font FILE");
  return std::make_shared<const viz::Font>(files);
}

}  // namespace

MapWords map_words(const ParsedOptions& options) {
  MapWords words{options.texts("method"), options.texts("layer"), options.texts("head")};
  if (options.text("mapless") == "cosine") words.mapless = model::explain::MaplessLayers::cosine;
  return words;
}

std::optional<std::int64_t> topk(const ParsedOptions& options) {
  if (!options.given("topk")) return std::nullopt;
  return options.integer("topk");
}

FigureOptions figure_options(const ParsedOptions& options) {
  FigureOptions figure;
  const std::string& sign = options.text("sign");
  if (sign == "positive") figure.sign = viz::Sign::positive;
  if (sign == "absolute") figure.sign = viz::Sign::absolute;
  if (options.given("cmap")) figure.colormap = viz::find_colormap_or_null(options.text("cmap"));
  figure.alpha = options.number("alpha");
  figure.fade = options.flag("fade");
  if (options.flag("blocks")) figure.sampling = viz::Sampling::nearest;
  figure.colorbar = options.flag("colorbar");
  figure.colorbar_numbers = options.flag("colorbar-numbers");
  figure.caption = options.flag("caption");
  figure.beside = options.flag("beside");
  figure.outlier_percent = options.number("outlier-perc");
  if (options.given("threshold")) figure.outlined_mass = options.number("threshold");
  figure.label_type = parse_label_type(options.text("label-type"));
  return figure;
}

namespace {

/// `-o maps.png` or `-o records.jsonl` means something else than a folder of that name.
void refuse_file_for_folder(const std::filesystem::path& folder) {
  std::error_code none;
  if (std::filesystem::is_directory(folder, none)) return;
  static constexpr std::array kFiles{".png", ".jpg", ".jpeg", ".webp", ".json", ".jsonl", ".csv",
                                     ".tsv", ".txt", ".html", ".npy",  ".npz",  ".mp4"};
  if (std::ranges::find(kFiles, folder.extension().string()) == kFiles.end()) return;
  throw Error(ErrorCode::invalid_argument, "names a folder, not a file",
              "--output " + folder.string(), "records go to standard output");
}

}  // namespace

OutputOptions heatmap_outputs(const ParsedOptions& options, std::size_t num_maps, int threads) {
  OutputOptions output;
  output.folder = options.text("output");
  if (output.folder == "-")
    throw Error(ErrorCode::invalid_argument, "heatmaps are files, expected a folder", "--output -",
                "records go to standard output in any case");
  refuse_file_for_folder(output.folder);
  output.image_format = viz::image_format("." + options.text("image-format"));
  viz::require_encoder(output.image_format);
  output.encode.quality = static_cast<int>(options.integer("quality"));
  output.figure = figure_options(options);
  // A font that is named is opened in any case: what is wrong with it is said.
  if (output.figure.has_extras(num_maps) || has_several_views(options) || options.given("font"))
    output.font = open_font(options.text("font"));
  output.save_raw = options.flag("save-raw");
  output.html = options.text("html");
  if (const std::string ending = output.html.extension().string();
      !output.html.empty() && ending != ".html" && ending != ".htm")
    throw Error(ErrorCode::invalid_argument, "the page's name must end in .html",
                "--html " + output.html.string());
  if (output.figure.colormap != nullptr)
    output.report.colormap = output.report.signed_colormap = output.figure.colormap->name;
  output.report.sign = output.figure.sign;
  output.report.outlined_mass = output.figure.outlined_mass.value_or(0);
  output.report.outlier_percent = output.figure.outlier_percent;
  output.report.alpha = output.figure.alpha;
  output.report.blocks = options.flag("blocks");
  output.report.fade = output.figure.fade;
  output.report.beside = output.figure.beside;
  output.threads = threads;
  return output;
}

}  // namespace hydrascope::app
