// A model that is opened once and then asked from any thread: classes, maps and embeddings of
// pictures in files and in memory. Pictures of several askers are classified together. Free of
// LibTorch, as its users are.
#pragma once

#include "app/options/requests.h"
#include "app/session/answer.h"
#include "model/config/config.h"
#include "model/image/labels.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::app {

struct ServiceRequest : PicturesRequest {  ///< its words and its output play no part
  std::optional<MapWords> maps = {};       ///< which maps can be asked for; nothing: none
  bool all_methods = false;                ///< other methods' maps can be asked for, too, by name
  bool embeds = false;                     ///< whether embeddings can be asked for
  std::size_t most_waiting = 1024;         ///< questions that have no answer yet
  std::optional<std::int64_t> most_maps = {};  ///< of one question; nothing: as many as it asks for
  /// Is told of every batch, on the service's thread: pictures or looks, and seconds of the model;
  /// may be empty.
  std::function<void(std::int64_t, double)> batch_done = {};
};
/// The request of a command line whose table has the options of a model that looks at pictures, and
/// perhaps those of maps, which are asked for where `wants_maps`. Throws Error(invalid_argument).
ServiceRequest service_request(const ParsedOptions& options, bool wants_maps);

/// The way of the work at hand through the model's layers: a batch's, then the way of a picture's maps. 0 of 0 while
/// there is none.
struct LayersDone {
  std::int32_t done = 0;
  std::int32_t all = 0;
};

class Service {
 public:
  /// Opens the model, on the thread that will run it. Throws what `open_model`, `choose_maps` and
  /// the like throw. LibTorch's generator of random numbers stays as it is.
  explicit Service(ServiceRequest request);
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  /// Answers what has been asked.
  ~Service();

  /// Waits for a place among those that are not answered. A fault of a picture is in its
  /// answer; Error(invalid_argument) says what is wrong with the question: a map that the service
  /// was not opened for, a class that there is not. A fault of the model is in the answers of
  /// the pictures that it was at work on.
  std::future<Answer> ask(Question question);
  /// The same; `done` is called once, on the service's thread, which it must not keep and into which it must not throw.
  void ask(Question question, std::function<void(Answer)> done);

  [[nodiscard]] const std::string& model_name() const noexcept;
  [[nodiscard]] const model::VitConfig& config() const noexcept;
  [[nodiscard]] const image::Labels& labels() const;
  /// The facts of the run in all records: device, precision, attention.
  [[nodiscard]] const InputRecord& run_facts() const noexcept;
  [[nodiscard]] const image::Views& views() const noexcept;
  /// "resize 256 (bicubic, antialias) -> ..."
  [[nodiscard]] std::string transform() const;
  /// Those whose patches can be asked about, ascending.
  [[nodiscard]] std::vector<std::int64_t> patch_layers() const;
  /// The maps that can be asked for, `usual_maps` first.
  [[nodiscard]] const std::vector<MapChoice>& maps() const noexcept;
  /// The maps that come unless some are named.
  [[nodiscard]] const std::vector<MapChoice>& usual_maps() const noexcept;
  /// The notes that the console was told so far, each once: of the model, and on the way of its answers.
  [[nodiscard]] std::vector<std::string> notes() const;
  /// Pictures of the model's own size that are classified together.
  [[nodiscard]] std::int64_t batch_size() const;
  /// Questions that have no answer yet, those that are being worked on included.
  [[nodiscard]] std::int64_t unanswered() const;
  [[nodiscard]] LayersDone layers_done() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydrascope::app
