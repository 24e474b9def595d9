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
  spec.options = join(
      {model_options(),
       class_vector_options(),
       input_options(),
       preprocessing_options(),
       views_options(),
       runtime_options(),
       output_options(record_formats()),
       label_options(),
       vote_options(),
       {integer("topk", "number of classes for every input", into(&ClassifyRequest::topk),
                takes("K"), by_default("5"), at_least(1), in("Output"), role(Role::task)),
        text("save-logits", "file of float32 logits (inputs, classes); NaN where one failed",
             into(&ClassifyRequest::save_logits), takes("FILE.npy"), in("Output"), written,
             role(Role::place)),
        text("save-input", "also write the model's input tensor, float32 (inputs, 3, H, W)",
             into(&ClassifyRequest::save_input), takes("FILE.npy"), in("Output"), written,
             role(Role::place)),
        flag("resume", "go on with a stopped run: skip inputs with a record in --output",
             into(&ClassifyRequest::resume), in("Output"), role(Role::place)),
        integer("video-stride", "classify every Nth frame of a video",
                into(&ClassifyRequest::video_stride), otherwise("one frame per second"),
                at_least(1), in("Input"), role(Role::task), keyed("video.stride")),
        number("video-average", "mean over frames: weight of a frame over the next",
               into(&ClassifyRequest::video_average), takes("SHARE"), by_default("0"), at_least(0),
               at_most(0.99), in("Input"), role(Role::task), keyed("video.average"))},
       memory_options("Input"),
       general_options()});
  spec.common = {&ModelRequest::word,         &ModelRequest::attention, &TransformRequest::views,
                 &TransformRequest::img_size, &RunRequest::precision,   &RunRequest::device,
                 &PicturesRequest::recursive, &ClassifyRequest::topk,   &OutputRequest::file,
                 &OutputRequest::format};
  spec.examples = {
      "hydrascope classify photo.jpg",
      "hydrascope classify --recursive pictures --format jsonl -o records.jsonl",
      "find . -name '*.jpg' | hydrascope classify -",
      "hydrascope classify --views native --set fit=pad photo.jpg",
  };
  return spec;
}

CommandSpec embed_spec() {
  CommandSpec spec;
  spec.name = "embed";
  spec.summary = "store the vectors of pictures: to search, to vote, to learn from";
  spec.group = "Look at pictures";
  spec.positionals = "[INPUT...]";
  std::vector<Option> output = output_options();
  Option& file = row_of(output, &OutputRequest::file);
  file.placeholder = "STORE";
  file.help = "file of the vectors, NAME.safetensors";
  file.default_note = "";
  row_of(output, &OutputRequest::format).help = "form of the summary on standard output";
  spec.options = join(
      {model_options(),
       input_options(),
       preprocessing_options(),
       one_view_options(),
       runtime_options(),
       output,
       without(label_options(), {&PicturesRequest::label_type}),
       {text("features",
             "pooled: input of the classifier; class: class token after the last norm; mean: mean "
             "of "
             "the patches after it; patches: all of them; projected: output of the last layer "
             "(CLIP)",
             into(&EmbedRequest::features), by_default("pooled"),
             one_of({"pooled", "class", "mean", "patches", "projected"}), in("Output"),
             role(Role::task)),
        flag("label-folders",
             "label each picture by its class folder, as train and evaluate do; a folder below the "
             "set",
             into(&EmbedRequest::label_folders), in("Labels"), role(Role::task)),
        text("labels-csv", "table of files and their classes, for one folder",
             into(&EmbedRequest::labels_csv), takes("FILE"), reads, in("Labels"),
             role(Role::source)),
        flag("force", "begin anew: replace the file, a store of other inputs or of another model",
             into(&EmbedRequest::force), in("Output"), role(Role::place))},
       general_options()});
  spec.common = {&ModelRequest::word,          &TransformRequest::views,    &EmbedRequest::features,
                 &EmbedRequest::label_folders, &EmbedRequest::labels_csv,   &RunRequest::precision,
                 &RunRequest::device,          &PicturesRequest::recursive, &OutputRequest::file,
                 &EmbedRequest::force};
  spec.examples = {
      "hydrascope embed photos/ -o photos.safetensors",
      "hydrascope embed imagenette/train --label-folders -o labelled.safetensors",
      "hydrascope embed photos/ --views native --features mean -o means.safetensors",
  };
  return spec;
}

CommandSpec search_spec() {
  CommandSpec spec;
  spec.name = "search";
  spec.summary = "find the stored pictures that are nearest to others";
  spec.group = "Look at pictures";
  spec.positionals = "STORE PICTURE...";
  std::vector<Option> output = output_options();
  row_of(output, &OutputRequest::file).help =
      "file of the results; NAME.html is a page of the pictures";
  spec.options =
      join({model_options(),
            input_options(),
            preprocessing_options(),
            one_view_options(),
            runtime_options(),
            output,
            {integer("top", "number of stored pictures for every input", into(&SearchRequest::top),
                     takes("N"), by_default("5"), at_least(1), in("Output"), role(Role::task))},
            general_options()});
  spec.common = {&ModelRequest::word,  &TransformRequest::views,    &RunRequest::precision,
                 &RunRequest::device,  &PicturesRequest::recursive, &SearchRequest::top,
                 &OutputRequest::file, &OutputRequest::format};
  spec.examples = {
      "hydrascope search photos.safetensors photo.jpg",
      "hydrascope search photos.safetensors queries/ --top 20 --format jsonl",
      "hydrascope search photos.safetensors photo.jpg -o nearest.html",
  };
  return spec;
}

}  // namespace hydrascope::app
