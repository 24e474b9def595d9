// The words of earlier versions that a command line may still hold, and what to use instead: the list of CHANGELOG.
#include "app/options/option_table.h"

#include <algorithm>
#include <array>

namespace hydrascope::app {
namespace {

struct Gone {
  std::string_view words;  ///< between commas; behind a command's name of that command alone
  std::string_view instead;
};
constexpr std::array kGone{
    Gone{",inspect,", "hydrascope models info FILE"},
    Gone{",models download,", "hf download NAME"},
    Gone{",-j,--num-workers,", "`set` workers=N"},
    Gone{",convert --source,convert --data-dir,", "`input` PATH"},
    Gone{",-i,--input,--source,--data-dir,", "pictures are arguments: hydrascope COMMAND PICTURES"},
    Gone{",--input-size,", "`img_size` HxW"},
    Gone{",--weights,--initial-checkpoint,--pretrained-path,", "`checkpoint` FILE"},
    Gone{",--eval-crop-ratio,", "`set` crop-pct=X"},
    Gone{",--results-file,", "`output` FILE"},
    Gone{",--results-format,", "`format` FORMAT"},
    Gone{",--plot,", "`html` FILE"},
    Gone{",--amp,", "`set` amp-dtype=bfloat16"},
    Gone{",--isolate-decoding,", "hydrascope serve decodes in other processes"},
    Gone{",--num-classes,--reset-head,", "for train, convert and models create"},
    Gone{",--strict,", "`set` on-error=fail"},
    Gone{",--no-progress,", "`set` progress=off"},
    Gone{",--print-transform,", "hydrascope models info MODEL, or `verbose`"},
    Gone{",--check-precision,", "hydrascope compare PICTURES `against_precision` float32"},
    Gone{",--save-errors,", "`html` FILE is a page that shows them"},
    Gone{",embed --resume,", "a stopped store goes on by itself"},
    Gone{",help --man,", "hydrascope help COMMAND lists every option"},
    Gone{",--ddp-timeout,", "processes wait ten minutes for each other"},
    Gone{",--smooth,--frames-as-video,", "ffmpeg -framerate 25 -i frame_%d.png clip.mp4"},
    Gone{",--keep-tokens,--keep-layer,", "`precision` int8 is faster"},
    Gone{",faithfulness --maps,", "`method` NAME"},
    Gone{",evaluate --most-errors,", "`html` FILE shows 100"},
    Gone{",benchmark --preset,", "`attn` 'softmax;hedgehog' `img_size` 1080x1920"},
    Gone{",--train-only,", "`set` freeze=GLOB of the others"},
    Gone{",--ratio,--opt-eps,--model-ema-warmup,", "it is a constant"},
    Gone{",convert --from,", "`model` MODEL"},
    Gone{",convert --report,", "`format` json or html, and >FILE"},
    Gone{",convert --require-cosine,", "the report has eval_pooled_cosine and eval_patch_cosine"},
    Gone{",convert --stage,",
         "maps: `epochs` 0; finetune: `set` steps-maps=0 `set` steps-outputs=0"},
    Gone{",serve --against,", "hydrascope visualize PICTURE `against` MODEL `html` FILE"},
    Gone{",benchmark --compare,", "`baseline` FILE"},
    Gone{",evaluate --real-labels,", "the column real_labels of `labels_csv` FILE"},
    Gone{",--fade,--no-fade,--grey,--blocks,--colorbar,--colorbar-numbers,--outlier-perc,"
         "--threshold,--font,",
         "their defaults are drawn; `save_raw` has the values"},
    Gone{",--image-format,--quality,", "`output` NAME.png or NAME.jpg"},
    Gone{",--views tiles,--views pyramid,--views look,", "`views` zoom"},
    Gone{",--set look-model,", "`model` MODEL with `views` zoom"},
    Gone{",--format tsv,--format npz,--format md,", "`format` csv"},
    Gone{",--timed both,", "`timed` model, then `timed` end_to_end"},
    Gone{",--measure positive,--measure negative,", "`measure` deletion,insertion"},
    Gone{",--sched step,--sched multistep,", "`set` sched=cosine"},
    Gone{",--set train-split,--set val-split,", "name the folders train and val"},
    Gone{",--set train-head,", "hydrascope train learns a classifier"},
    Gone{",--set patience,", "the best state is kept; `set` evaluations=N looks more often"},
    Gone{",--set confusions,", "`per_class` FILE has taken_for"},
    Gone{",--set substrate,--set explained-class,", "the predicted class is explained"},
};

}  // namespace

std::string instead_of(const std::string& words, const std::string& command) {
  for (const auto& [gone, instead] : kGone)
    for (const std::string& wanted : {words, command + " " + words})
      if (gone.find("," + wanted + ",") != gone.npos) return std::string(instead);
  return "";
}

}  // namespace hydrascope::app
