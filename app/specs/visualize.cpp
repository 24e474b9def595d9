// The table of `hydrascope visualize`.
#include "app/evaluate/evaluate_options.h"
#include "app/options/option_builders.h"
#include "app/specs/specs.h"
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
          text("method", method_help(), takes("NAME,..."), by_default("hydra"),
               synonyms({{"auto", "hydra"}}), comma_list, suggests(method_words())),
          text("layer", "layers that are explained, from 0; rollouts go up to them",
               takes("last|all|N,..."), by_default("last"), comma_list, suggests({"last", "all"})),
          text("head",
               "heads in a map: their mean, their maximum, each in its own (all), or head N; of "
               "hydra mean is the sum, which is the exact map",
               takes("mean|max|all|N,..."), by_default("mean"), comma_list,
               suggests({"mean", "max", "all"})),
          text("class",
               "class that is explained, by synset id, name or index; pred is the predicted one",
               takes("CLASS"), otherwise("pred"), repeatable, suggests({"pred"})),
          integer("topk", "explain the K best classes of every input", takes("K"), otherwise("1"),
                  at_least(1)),
          text("mapless",
               "what rollouts do at a layer without attention map; skip it, or take the cosine of "
               "its queries and keys",
               by_default("skip"), one_of({"skip", "cosine"})),
      });
}

std::vector<Option> drawing_options() {
  return in_group(
      "Drawing",
      {
          text("sign", "draw what speaks for the class, what speaks against it too, or magnitudes",
               by_default("positive"), one_of({"both", "positive", "absolute"})),
          text(
              "cmap", "colours of the heat",
              otherwise(std::string(viz::kDefaultColormap) + "; " +
                        std::string(viz::kDefaultDivergingColormap) + " where there are two signs"),
              one_of(colormap_names())),
          number("alpha", "opacity of the colours, 0 to 1", takes("SHARE"), by_default("0.8"),
                 at_least(0), at_most(1)),
          flag("fade", "let little heat show more of the picture", by_default("true"),
               also({{"no-fade", "false"}})),
          flag("blocks", "draw patches in one colour each, without smoothing"),
          flag("colorbar", "a bar of the colours from low to high beside the map"),
          flag("colorbar-numbers", "the bar with the values of the map's colours"),
          flag("caption", "write class, probability, method, layer and head below the picture"),
          flag("beside", "draw the picture as it is beside the heatmap"),
          number("outlier-perc", "percentage of the heat that may lie beyond the colours",
                 takes("P"), by_default("30"), at_least(0), at_most(99)),
          number("threshold",
                 "outline the fewest patches that hold this share of the positive heat, 0 to 1",
                 takes("MASS"), at_least(0), at_most(1)),
          text("font",
               "font of captions; the bundled ones draw what it lacks; take no font from strangers",
               takes("FILE.ttf"), completes_files),
      });
}

std::vector<Option> heatmap_output_options() {
  std::vector<Option> options = record_output_options();
  Option& folder = named(options, "output");
  folder.placeholder = "FOLDER";
  folder.help = "folder for heatmaps and raw maps";
  folder.default_value = "heatmaps";
  folder.default_note = "";
  folder.aliases = {};
  Option& format = named(options, "format");
  format.help = "form of the records on standard output";
  format.default_value = "text";
  format.default_note = "";
  const std::vector<Option> more = in_group(
      "Output",
      {
          text("image-format", "file format of the heatmaps", by_default("png"),
               one_of({"png", "jpeg", "webp"}), synonyms({{"jpg", "jpeg"}})),
          integer("quality", "quality of jpeg and webp heatmaps, 1 to 100", by_default("90"),
                  at_least(1), at_most(100)),
          flag("save-raw",
               "also write the numbers, float32 (rows, columns), as NAME.map.npy; NAME.map.npz if "
               "an input has several maps, and one row per frame of a video"),
          text("html",
               "also write one page with all pictures, their maps and classes; of a video at most "
               "one frame per second",
               takes("FILE.html"), written),
      });
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

std::vector<Option> heatmap_video_options() {
  return in_group("Video", {
                               integer("video-stride", "take every Nth frame of a video only",
                                       by_default("1"), at_least(1)),
                           });
}

namespace {

std::vector<Option> other_model_options() {
  std::vector<Option> options = layer_reference_options();
  named(options, "against").help =
      "another model, whose maps stand beside these on the page of --html";
  return options;
}

}  // namespace

CommandSpec visualize_spec() {
  CommandSpec spec;
  spec.name = "visualize";
  spec.aliases = {"attn"};
  spec.summary = "draw heatmaps over pictures and videos: what the model looked at";
  spec.group = "Look at pictures";
  spec.positionals = "[INPUT...]";
  spec.options = join({model_options(), input_options(), map_options(), drawing_options(),
                       heatmap_output_options(), other_model_options(), heatmap_video_options(),
                       preprocessing_options(), views_options(), runtime_options(), label_options(),
                       general_options()});
  spec.common = {"model", "attn",      "native", "views", "method",  "layer",
                 "class", "precision", "output", "html",  "against", "save-raw"};
  spec.examples = {
      "hydrascope visualize photo.jpg",
      "hydrascope visualize photo.jpg --method hydra --topk 3 --colorbar",
      "hydrascope visualize -m deit_tiny_patch16_224.hydra_last2 photo.jpg --save-raw",
      "hydrascope visualize pictures --layer all --html maps.html -o maps",
      "hydrascope visualize pictures --html maps.html -m converted.safetensors --against "
      "deit_tiny_patch16_224",
      "hydrascope visualize clip.mp4",
  };
  return spec;
}

}  // namespace hydrascope::app
