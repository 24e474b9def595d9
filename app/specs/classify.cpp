// The table of `hydrascope classify`.
#include "app/options/option_builders.h"
#include "app/specs/requests.h"
#include "app/specs/specs.h"

namespace hydrascope::app {
CommandSpec classify_spec() {
  CommandSpec spec;
  spec.name = "classify";
  spec.aliases = {"predict"};
  spec.summary = "top-k classes of pictures, folders, globs, lists, video";
  spec.group = "Look at pictures";
  spec.positionals = "[INPUT...]";
  spec.options =
      join({model_options(),
            input_options(),
            preprocessing_options(),
            views_options(),
            runtime_options(),
            precision_check_options(),
            record_output_options(),
            label_options(),
            {integer("topk", "number of classes for every input", into(&ClassifyRequest::topk),
                     takes("K"), by_default("5"), at_least(1), in("Output"), role(Role::task)),
             text("save-logits", "file of float32 logits (inputs, classes); NaN where one failed",
                  into(&ClassifyRequest::save_logits), takes("FILE.npy"), in("Output"), written,
                  role(Role::place)),
             text("save-input", "also write the model's input tensor, float32 (inputs, 3, H, W)",
                  into(&ClassifyRequest::save_input), takes("FILE.npy"), in("Output"), written,
                  role(Role::place)),
             flag("resume",
                  "go on with a stopped run: inputs with a record in --output (jsonl) are skipped",
                  into(&ClassifyRequest::resume), in("Output"), role(Role::place)),
             integer("video-stride", "classify every Nth frame of a video",
                     into(&ClassifyRequest::video_stride), otherwise("one frame per second"),
                     at_least(1), in("Input"), role(Role::task))},
            general_options()});
  spec.common = {&ModelRequest::word,      &ModelRequest::attention,    &TransformRequest::native,
                 &TransformRequest::views, &TransformRequest::img_size, &RunRequest::precision,
                 &RunRequest::device,      &PicturesRequest::recursive, &ClassifyRequest::topk,
                 &OutputRequest::file,     &OutputRequest::format};
  spec.examples = {
      "hydrascope classify photo.jpg",
      "hydrascope classify --recursive pictures --format jsonl -o records.jsonl",
      "find . -name '*.jpg' | hydrascope classify -",
      "hydrascope classify --native --fit pad photo.jpg",
  };
  return spec;
}

}  // namespace hydrascope::app
