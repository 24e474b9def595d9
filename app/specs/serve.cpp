// The table of `hydrascope serve`.
#include "app/options/option_builders.h"
#include "app/specs/requests.h"
#include "app/specs/specs.h"
#include "app/visualize/visualize_options.h"

namespace hydrascope::app {
namespace {

/// Names as llama.cpp's server has them, where it has the same.
std::vector<Option> server_options() {
  return in_group(
      "Server", Role::speed,
      {
          text("host", "address to listen on; other machines reach all but 127.0.0.1",
               into(&ListenRequest::host), takes("ADDRESS"), by_default("127.0.0.1"),
               role(Role::place)),
          integer("port", "port to listen on; 0: a free port, printed on standard output",
                  into(&ListenRequest::port), by_default("8080"), at_least(0), at_most(65535),
                  role(Role::place)),
          number("timeout",
                 "most seconds for a request to arrive, and for a picture to reach the model",
                 into(&ListenRequest::timeout), by_default("60"), at_least(0.1), at_most(86400)),
          integer("max-waiting", "most requests without an answer; further ones get 503",
                  into(&ListenRequest::most_waiting), otherwise("two batches"), at_least(1),
                  at_most(65536), keyed("run.max-waiting")),
          integer("max-bytes", "most bytes of a request's body",
                  into(&image::DecodeOptions::max_bytes), by_default("33554432"), at_least(1),
                  at_most(2147483647), keyed("run.max-bytes")),
          integer("max-pixels", "most pixels of a picture; larger ones are refused before decoding",
                  into(&image::DecodeOptions::max_pixels), by_default("67108864"), at_least(1),
                  keyed("run.max-pixels")),
          number("decode-timeout",
                 "most seconds for decoding one picture; a process of its own decodes it, so a "
                 "crash costs one answer",
                 for_field(&image::DecodeOptions::reader), by_default("10"), at_least(0.1),
                 at_most(1e6), keyed("run.decode-timeout")),
      });
}

/// Which maps can be asked for; of which classes is asked with a picture.
std::vector<Option> served_map_options() {
  std::vector<Option> options =
      without(map_options(), {&VisualizeRequest::classes, &VisualizeRequest::topk});
  row_of(options, &MapWords::layers).default_value = "all";
  row_of(options, &MapWords::methods).help +=
      "; none: classes alone, without maps, embeddings and the page; sure pictures leave a model "
      "with exits early";
  return options;
}

}  // namespace

CommandSpec serve_spec() {
  CommandSpec spec;
  spec.name = "serve";
  spec.aliases = {"server"};
  spec.summary = "answer over HTTP: classes, maps, embeddings; a page to try them";
  spec.group = "Look at pictures";
  spec.options = join({model_options(), class_vector_options(), server_options(),
                       served_map_options(), drawing_options(), preprocessing_options(),
                       views_options(), runtime_options(), label_options(), general_options()});
  spec.common = {&ModelRequest::word,  &ModelRequest::attention, &TransformRequest::views,
                 &MapWords::methods,   &RunRequest::device,      &RunRequest::precision,
                 &ListenRequest::host, &ListenRequest::port};
  spec.examples = {
      "hydrascope serve",
      "hydrascope serve --port 8081 --method hydra,attention --views whole",
      "curl --data-binary @photo.jpg 'localhost:8080/v1/classify?topk=3'",
  };
  return spec;
}

}  // namespace hydrascope::app
