// The table of `hydrascope visualize`.
#include "app/command.h"
#include "app/option_builders.h"
#include "app/visualize/visualize_options.h"
#include "viz/scale/colormap.h"

namespace hydrascope::app {
namespace {

/// "hydra (what each token ...); attention (...)".
std::string method_help() {
  std::string help;
  for (const model::explain::MethodEntry& entry : model::explain::methods())
    help +=
        (help.empty() ? "" : "; ") + std::string(entry.name) + ": " + std::string(entry.summary);
  return "how tokens get their heat, by one or several methods; " + help;
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
           .help = "layers that are explained, from 0; rollouts go up to them",
           .default_value = "last",
           .comma_list = true,
           .suggestions = {"last", "all"}},
          {.name = "head",
           .placeholder = "mean|max|all|N,...",
           .help = "heads in a map: their mean, their maximum, each in its own (all), or head N; "
                   "of hydra "
                   "mean is the sum, which is the exact map",
           .default_value = "mean",
           .comma_list = true,
           .suggestions = {"mean", "max", "all"}},
          {.name = "class",
           .placeholder = "CLASS",
           .help = "class that is explained, by index, name or synset; pred is the predicted one",
           .default_note = "pred",
           .repeatable = true,
           .suggestions = {"pred"}},
          {.name = "topk",
           .kind = ValueKind::integer,
           .placeholder = "K",
           .help = "explain the K best classes of every input",
           .default_note = "1",
           .minimum = 1},
          {.name = "mapless",
           .help = "what rollouts do at a layer without attention map; skip it, or take the cosine "
                   "of its queries and keys",
           .default_value = "skip",
           .choices = {"skip", "cosine"}},
      });
}

std::vector<Option> drawing_options() {
  return in_group(
      "Drawing",
      {
          {.name = "sign",
           .help = "draw what speaks for the class, what speaks against it too, or magnitudes",
           .default_value = "positive",
           .choices = {"both", "positive", "absolute"}},
          {.name = "cmap",
           .help = "colours of the heat",
           .default_note = std::string(viz::kDefaultColormap) + "; " +
                           std::string(viz::kDefaultDivergingColormap) +
                           " where there are two signs",
           .choices = colormap_names()},
          {.name = "alpha",
           .kind = ValueKind::number,
           .placeholder = "SHARE",
           .help = "opacity of the colours, 0 to 1",
           .default_value = "0.8",
           .minimum = 0,
           .maximum = 1},
          {.name = "fade",
           .kind = ValueKind::flag,
           .help = "let little heat show more of the picture",
           .default_value = "true",
           .aliases = {{"no-fade", "false"}}},
          flag("blocks", "draw patches in one colour each, without smoothing"),
          flag("colorbar", "a bar of the colours from low to high beside the map"),
          flag("colorbar-numbers", "the bar with the values of the map's colours"),
          flag("caption", "write class, probability, method, layer and head below the picture"),
          flag("beside", "draw the picture as it is beside the heatmap"),
          {.name = "outlier-perc",
           .kind = ValueKind::number,
           .placeholder = "P",
           .help = "percentage of the heat that may lie beyond the colours",
           .default_value = "30",
           .minimum = 0,
           .maximum = 99},
          {.name = "threshold",
           .kind = ValueKind::number,
           .placeholder = "MASS",
           .help = "outline the fewest patches that hold this share of the positive heat, 0 to 1",
           .minimum = 0,
           .maximum = 1},
          {.name = "font",
           .placeholder = "FILE.ttf",
           .help =
               "font of captions; the bundled ones draw what it lacks; take no font from strangers",
           .completes_files = true},
      });
}

std::vector<Option> heatmap_output_options() {
  std::vector<Option> options = output_options();
  for (Option& option : options) {
    if (option.name == "output") {
      option.placeholder = "FOLDER";
      option.help = "folder for heatmaps and raw maps";
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
  const std::vector<Option> more =
      in_group("Output", {
                             {.name = "image-format",
                              .help = "file format of the heatmaps",
                              .default_value = "png",
                              .choices = {"png", "jpeg", "webp"},
                              .synonyms = {{"jpg", "jpeg"}}},
                             {.name = "quality",
                              .kind = ValueKind::integer,
                              .placeholder = "N",
                              .help = "quality of jpeg and webp heatmaps, 1 to 100",
                              .default_value = "90",
                              .minimum = 1,
                              .maximum = 100},
                             flag("save-raw",
                                  "also write the numbers, float32 (rows, columns), as "
                                  "NAME.map.npy; NAME.map.npz if an "
                                  "input has several maps, and one row per frame of a video"),
                             {.name = "html",
                              .placeholder = "FILE.html",
                              .help = "also write one page with all pictures, their maps and "
                                      "classes; of a video at most one "
                                      "frame per second",
                              .completes_files = true},
                         });
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

std::vector<Option> heatmap_video_options() {
  return in_group(
      "Video",
      {
          {.name = "video-stride",
           .kind = ValueKind::integer,
           .placeholder = "N",
           .help = "take every Nth frame of a video only",
           .default_value = "1",
           .minimum = 1},
          {.name = "smooth",
           .kind = ValueKind::number,
           .placeholder = "S",
           .help = "share of the earlier frames in the map of a frame, 0 to below 1; also in what "
                   "is saved "
                   "and recorded",
           .default_value = "0",
           .minimum = 0,
           .maximum = 0.999},
          {.name = "frames-as-video",
           .kind = ValueKind::number,
           .placeholder = "FPS",
           .help = "make one video of all pictures, FPS per second; frame_2 comes before frame_10",
           .minimum = 0.01,
           .maximum = 1000},
      });
}

CommandSpec visualize_spec() {
  CommandSpec spec;
  spec.name = "visualize";
  spec.aliases = {"attn"};
  spec.summary = "draw heatmaps over pictures and videos: what the model looked at";
  spec.group = "Look at pictures";
  spec.positionals = "[INPUT...]";
  spec.options = join({model_options(), input_options(), map_options(), drawing_options(),
                       heatmap_output_options(), heatmap_video_options(), preprocessing_options(),
                       views_options(), runtime_options(), label_options(), general_options()});
  spec.common = {"model", "attn",      "native", "method", "layer",
                 "class", "precision", "output", "html",   "save-raw"};
  spec.examples = {
      "hydrascope visualize photo.jpg",
      "hydrascope visualize photo.jpg --method hydra --topk 3 --colorbar",
      "hydrascope visualize -m deit_tiny_patch16_224.hydra_last2 photo.jpg --save-raw",
      "hydrascope visualize pictures --layer all --html maps.html -o maps",
      "hydrascope visualize clip.mp4 --smooth 0.6",
  };
  return spec;
}

}  // namespace hydrascope::app
