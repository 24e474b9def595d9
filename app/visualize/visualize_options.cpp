#include "app/visualize/visualize_options.h"

#include "app/assets.h"
#include "app/option_builders.h"
#include "app/option_table.h"
#include "kernels/error.h"
#include "viz/colormap.h"

#include <algorithm>
#include <array>
#include <memory>
#include <system_error>
#include <utility>

namespace hydrascope::app {
namespace {

namespace fs = std::filesystem;

/// "hydra (what each token ...); attention (...)".
std::string method_help() {
  std::string help;
  for (const model::explain::MethodEntry& entry : model::explain::methods())
    help +=
        (help.empty() ? "" : "; ") + std::string(entry.name) + ": " + std::string(entry.summary);
  return "how tokens get their heat, one or several methods. " + help;
}

std::vector<std::string> colormap_names() {
  std::vector<std::string> names;
  for (const viz::Colormap& colormap : viz::colormaps()) names.emplace_back(colormap.name);
  return names;
}

/// `--font` first, then those that come along: what one lacks, the next may have.
std::shared_ptr<const viz::Font> open_font(const std::string& given) {
  std::vector<fs::path> files = bundled_fonts();
  if (!given.empty()) files.insert(files.begin(), given);
  if (files.empty())
    throw Error(ErrorCode::failed, "no font comes with this build", "captions", "give --font FILE");
  return std::make_shared<const viz::Font>(files);
}

}  // namespace

std::vector<Option> map_options() {
  return in_group(
      "Maps",
      {
          {.name = "method",
           .placeholder = "NAME,...",
           .help = method_help(),
           .default_value = "auto",
           .default_note = "chosen by the layer's attention; the record says why",
           .comma_list = true,
           .suggestions = method_words()},
          {.name = "layer",
           .placeholder = "last|all|N,...",
           .help = "layers, from 0; of rollouts the last one that is rolled through",
           .default_value = "last",
           .comma_list = true,
           .suggestions = {"last", "all"}},
          {.name = "head",
           .placeholder = "mean|max|all|N,...",
           .help = "what becomes of the heads: mean (of hydra the sum, which is the exact map), "
                   "maximum by cell, a map each, or head N alone",
           .default_value = "mean",
           .comma_list = true,
           .suggestions = {"mean", "max", "all"}},
          {.name = "class",
           .placeholder = "pred|INDEX|NAME|SYNSET",
           .help = "class that is explained: the predicted one, or the one named",
           .default_note = "pred",
           .repeatable = true,
           .suggestions = {"pred"}},
          {.name = "topk",
           .kind = ValueKind::integer,
           .placeholder = "K",
           .help = "explain the K best classes of an input",
           .default_note = "1",
           .minimum = 1},
          {.name = "mapless",
           .help = "rollouts through a layer without an attention map: skip it, or take the "
                   "cosine of its queries and keys",
           .default_value = "skip",
           .choices = {"skip", "cosine"}},
      });
}

std::vector<Option> drawing_options() {
  return in_group(
      "Drawing",
      {
          {.name = "sign",
           .help = "of maps with two signs: show both, what speaks for the class, or magnitudes",
           .default_value = "both",
           .choices = {"both", "positive", "absolute"}},
          {.name = "cmap",
           .help = "colours",
           .default_note = std::string(viz::kDefaultColormap) + "; " +
                           std::string(viz::kDefaultDivergingColormap) +
                           " where there are two signs",
           .choices = colormap_names()},
          {.name = "alpha",
           .kind = ValueKind::number,
           .placeholder = "SHARE",
           .help = "share of the colours over the picture, 0 to 1",
           .default_value = "0.5",
           .minimum = 0,
           .maximum = 1},
          flag("fade", "let little heat show more of the picture"),
          flag("blocks", "every patch in one colour, nothing between them"),
          flag("colorbar", "a bar that says which colour is which value"),
          flag("caption", "class, probability, method, layer and head below the picture"),
          flag("beside", "the picture as it is beside the map"),
          {.name = "outlier-perc",
           .kind = ValueKind::number,
           .placeholder = "P",
           .help = "percentage of the cells that may lie beyond the colours",
           .default_value = "0",
           .minimum = 0,
           .maximum = 99},
          {.name = "threshold",
           .kind = ValueKind::number,
           .placeholder = "MASS",
           .help = "outline the smallest set of patches that holds this share of the positive "
                   "heat, 0 to 1",
           .minimum = 0,
           .maximum = 1},
          {.name = "font",
           .placeholder = "FILE.ttf",
           .help = "font of captions, asked before the one that comes along; a font file is "
                   "trusted: take none from strangers",
           .completes_files = true},
      });
}

std::vector<Option> heatmap_output_options() {
  std::vector<Option> options = output_options();
  for (Option& option : options) {
    if (option.name == "output") {
      option.placeholder = "FOLDER";
      option.help = "where heatmaps and raw maps are written; it is made if need be";
      option.default_value = "heatmaps";
      std::erase_if(option.aliases,
                    [](const OptionAlias& alias) { return alias.name == "results-file"; });
      option.default_note = "";
    } else if (option.name == "format") {
      option.help = "form of the records on standard output";
      option.default_value = "text";
      option.default_note = "";
    }
  }
  const std::vector<Option> more = in_group(
      "Output",
      {
          {.name = "image-format",
           .help = "of the heatmaps",
           .default_value = "png",
           .choices = {"png", "jpeg", "webp"},
           .synonyms = {{"jpg", "jpeg"}}},
          {.name = "quality",
           .kind = ValueKind::integer,
           .placeholder = "N",
           .help = "of jpeg and webp, 1 to 100",
           .default_value = "90",
           .minimum = 1,
           .maximum = 100},
          flag("save-raw",
               "also write the numbers: NAME.map.npy, float32 (rows, columns); "
               "NAME.map.npz where an input has several maps; of a video a row a frame"),
          {.name = "html",
           .placeholder = "FILE.html",
           .help = "also write one page with all pictures, their maps and classes; of a video "
                   "at most one frame a second",
           .completes_files = true},
      });
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

std::vector<Option> heatmap_video_options() {
  return in_group(
      "Video", {
                   {.name = "video-stride",
                    .kind = ValueKind::integer,
                    .placeholder = "N",
                    .help = "take every Nth frame of a video",
                    .default_value = "1",
                    .minimum = 1},
                   {.name = "smooth",
                    .kind = ValueKind::number,
                    .placeholder = "S",
                    .help = "how much a frame keeps of the maps before it, 0 to below 1; what is "
                            "saved and recorded is smoothed, too. What the colours stand for "
                            "always keeps at least 0.9",
                    .default_value = "0",
                    .minimum = 0,
                    .maximum = 0.999},
                   {.name = "frames-as-video",
                    .kind = ValueKind::number,
                    .placeholder = "FPS",
                    .help = "make one video of all pictures, so many a second; folders and globs "
                            "give them by number: frame_2 before frame_10",
                    .minimum = 0.01,
                    .maximum = 1000},
               });
}

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
  if (output.figure.has_extras(num_maps) || options.given("font"))
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
