// The table of `hydrascope visualize`.
#include "app/command.h"
#include "app/option_builders.h"
#include "app/visualize/visualize_options.h"
#include "viz/colormap.h"

namespace hydrascope::app {
namespace {

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

}  // namespace

std::vector<Option> map_options() {
  return in_group(
      "Maps",
      {
          {.name = "method",
           .placeholder = "NAME,...",
           .help = method_help(),
           .default_value = "hydra",
           .synonyms = {{"auto", "hydra"}},
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
           .default_value = "positive",
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
           .default_value = "0.8",
           .minimum = 0,
           .maximum = 1},
          {.name = "fade",
           .kind = ValueKind::flag,
           .help = "let little heat show more of the picture",
           .default_value = "true",
           .aliases = {{"no-fade", "false"}}},
          flag("blocks", "every patch in one colour, nothing between them"),
          flag("colorbar", "a bar of the colours from low to high beside the map"),
          flag("colorbar-numbers", "the bar with the values of the map's colours"),
          flag("caption", "class, probability, method, layer and head below the picture"),
          flag("beside", "the picture as it is beside the map"),
          {.name = "outlier-perc",
           .kind = ValueKind::number,
           .placeholder = "P",
           .help = "percentage of the cells that may lie beyond the colours, half at each end",
           .default_value = "4",
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

CommandSpec visualize_spec() {
  CommandSpec spec;
  spec.name = "visualize";
  spec.aliases = {"attn"};
  spec.summary = "heatmaps over images and video, HTML report, raw arrays";
  spec.positionals = "[INPUT...]";
  spec.options = join({model_options(), input_options(), map_options(), drawing_options(),
                       heatmap_output_options(), heatmap_video_options(), preprocessing_options(),
                       runtime_options(), label_options(), general_options()});
  spec.examples = {
      "hydrascope visualize photo.jpg",
      "hydrascope visualize photo.jpg --method hydra --topk 3 --colorbar",
      "hydrascope visualize --native --attn hydra:last2 photo_1920x1080.jpg --save-raw",
      "hydrascope visualize pictures --layer all --html maps.html -o maps",
      "hydrascope visualize clip.mp4 --smooth 0.6",
  };
  return spec;
}

}  // namespace hydrascope::app
