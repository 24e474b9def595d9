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
  return "methods of the map; " + help;
}

model::explain::MaplessLayers parse_mapless(const std::string& word) {
  return word == "cosine" ? model::explain::MaplessLayers::cosine
                          : model::explain::MaplessLayers::skip;
}

viz::Sign parse_sign(const std::string& word) {
  if (word == "positive") return viz::Sign::positive;
  return word == "absolute" ? viz::Sign::absolute : viz::Sign::both;
}

std::vector<std::string> colormap_names() {
  std::vector<std::string> names;
  for (const viz::Colormap& colormap : viz::colormaps()) names.emplace_back(colormap.name);
  return names;
}

}  // namespace

std::vector<Option> map_options() {
  return in_group(
      "Maps", Role::task,
      {
          text("method", method_help(), into(&MapWords::methods), takes("NAME,..."),
               by_default("hydra"), synonyms({{"auto", "hydra"}}), comma_list),
          text("layer", "explained layers, from 0; rollouts go up to the layer",
               into(&MapWords::layers), takes("last|all|N,..."), by_default("last"), comma_list),
          text("head",
               "heads of a map: their mean, their maximum, one map for each (all), or head N; the "
               "mean of hydra is the sum over heads, the exact map",
               into(&MapWords::heads), takes("mean|max|all|N,..."), by_default("mean"), comma_list),
          text("class", "explained class by synset id, name or index; pred: the predicted class",
               into(&VisualizeRequest::classes), takes("CLASS"), otherwise("pred"), repeatable),
          integer("topk", "number of explained classes for every input",
                  into(&VisualizeRequest::topk), takes("K"), otherwise("1"), at_least(1)),
          text("mapless",
               "treatment of a layer without attention map by rollouts; skip it, or take the "
               "cosine of its queries and keys",
               into(&MapWords::mapless, parse_mapless), by_default("skip"),
               one_of({"skip", "cosine"}), keyed("maps.mapless")),
      });
}

std::vector<Option> drawing_options() {
  return in_group(
      "Drawing", Role::task,
      {
          text("sign", "drawn evidence: for the class, for and against it, or magnitudes",
               into(&FigureOptions::sign, parse_sign), by_default("positive"),
               one_of({"both", "positive", "absolute"})),
          text("cmap", "colours of the heat",
               into(&FigureOptions::colormap, viz::find_colormap_or_null),
               otherwise(std::string(viz::kDefaultColormap) + "; " +
                         std::string(viz::kDefaultDivergingColormap) + " with two signs"),
               one_of(colormap_names())),
          number("alpha", "opacity of the colour of the most heat, 0 to 1",
                 into(&FigureOptions::alpha), takes("SHARE"), by_default("0.8"), at_least(0),
                 at_most(1)),
          flag("caption",
               "write class, probability, method, layer and head below the picture; without it "
               "class and probability stand on the picture, with --no-caption nothing does",
               into(&FigureOptions::caption), also({{"no-caption", "false"}})),
          flag("beside", "draw the plain picture beside the heatmap", into(&FigureOptions::beside)),
      });
}

std::vector<Option> heatmap_output_options() {
  std::vector<Option> options = output_options(record_formats());
  Option& folder = row_of(options, &OutputRequest::file);
  folder.placeholder = "FOLDER|FILE";
  folder.help =
      "folder for heatmaps and raw maps; NAME.png or NAME.jpg is the heatmap of one picture and "
      "map";
  folder.default_value = "heatmaps";
  folder.default_note = "";
  folder.aliases = {};
  Option& format = row_of(options, &OutputRequest::format);
  format.help = "form of the records on standard output";
  format.default_value = "text";
  format.default_note = "";
  const std::vector<Option> more = in_group(
      "Output", Role::place,
      {
          flag(
              "save-raw",
              "also write the map, float32 (rows, columns), as NAME.map.npy; (maps, rows, columns) "
              "of several maps; of a video one row a frame",
              into(&OutputOptions::save_raw)),
          text("html",
               "also write one page with all pictures, maps and classes; a video has at "
               "most one frame a second there",
               into(&OutputOptions::html), takes("FILE.html"), written),
      });
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

std::vector<Option> heatmap_video_options() {
  return in_group("Video", Role::task,
                  {
                      integer("video-stride", "draw every Nth frame of a video",
                              into(&VisualizeRequest::video_stride), by_default("1"), at_least(1),
                              keyed("video.stride")),
                  });
}

namespace {

std::vector<Option> other_model_options() {
  std::vector<Option> options = layer_reference_options();
  row_of(options, &AgainstRequest::word).help = "another model, for its maps on the page of --html";
  return options;
}

}  // namespace

CommandSpec visualize_spec() {
  CommandSpec spec;
  spec.name = "visualize";
  spec.aliases = {"attn"};
  spec.summary = "draw the evidence for an answer over pictures and videos, as heatmaps";
  spec.group = "Look at pictures";
  spec.positionals = "[INPUT...]";
  spec.options = join({model_options(), class_vector_options(), input_options(), map_options(),
                       drawing_options(), heatmap_output_options(), other_model_options(),
                       heatmap_video_options(), memory_options("Video"), preprocessing_options(),
                       views_options(), runtime_options(), label_options(),
                       without(vote_options(), {&VoteRequest::share}), general_options()});
  spec.common = {&ModelRequest::word,    &ModelRequest::attention, &TransformRequest::views,
                 &MapWords::methods,     &MapWords::layers,        &VisualizeRequest::classes,
                 &RunRequest::precision, &OutputRequest::file,     &OutputOptions::html,
                 &AgainstRequest::word,  &OutputOptions::save_raw};
  spec.examples = {
      "hydrascope visualize photo.jpg -o heat.png",
      "hydrascope visualize photo.jpg --method hydra --topk 3 --caption",
      "hydrascope visualize -m deit_tiny_patch16_224.hydra_last2 photo.jpg --save-raw",
      "hydrascope visualize pictures --layer all --html maps.html -o maps",
      "hydrascope visualize pictures --html maps.html -m converted.safetensors --against "
      "deit_tiny_patch16_224",
      "hydrascope visualize clip.mp4",
      "hydrascope visualize clip.mp4 --method attention --memory xl",
  };
  return spec;
}

}  // namespace hydrascope::app
