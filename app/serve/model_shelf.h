// The models that a server answers with: the one that it was started with, and others that are opened when a
// request names them.
#pragma once

#include "app/run/ordered_workers.h"
#include "app/session/service.h"

#include <compare>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::app {

/// A model by its name, and how it sees pictures; "": as the server was started.
struct ServedWords {
  std::string model = {};
  std::string views = {};
  friend auto operator<=>(const ServedWords&, const ServedWords&) = default;
};

class ModelShelf {
 public:
  using Open = std::function<std::unique_ptr<Service>(const ServedWords&)>;
  using Use = std::function<void(Service&)>;
  using Refuse = std::function<void(const std::exception_ptr&)>;

  /// `first` is the server's own, which `own` names, too. `open` opens one of `models`, by name, in one of `views`; at most `most` are open
  /// beside the first, and the one that was asked longest ago makes room.
  ModelShelf(std::unique_ptr<Service> first, ServedWords own, std::vector<std::string> models,
             std::vector<std::string> views, Open open, std::size_t most);

  /// Throws Error(invalid_argument) for words that are none of these.
  void check(const ServedWords& words) const;
  [[nodiscard]] Service& first() { return *first_; }
  [[nodiscard]] const std::vector<std::string>& models() const noexcept { return models_; }
  [[nodiscard]] const std::vector<std::string>& views() const noexcept { return views_; }
  /// Calls `use`, which asks it and does not wait, with the service of these words: at once where it is open. Else a
  /// thread of its own opens it, after those that were asked for before, once for all calls that come meanwhile. Then
  /// `use` is called on that thread. `refuse` is given the exceptions of `check`, `open` and `use`, and Error(out_of_memory)
  /// where all places are at work; the next call tries anew.
  void with(const ServedWords& words, const Use& use, const Refuse& refuse);
  /// Refuses calls whose model is not open, lets open services answer, then has no service any more.
  void close();

 private:
  struct Opened {
    ServedWords words;
    std::unique_ptr<Service> service;
  };
  using Asker = std::pair<Use, Refuse>;
  /// On the opener's thread, the only one that closes services to make room.
  void open(const ServedWords& words);

  std::unique_ptr<Service> first_;
  ServedWords own_;
  std::vector<std::string> models_;
  std::vector<std::string> views_;
  Open open_;
  std::size_t most_;
  std::mutex mutex_;
  // Guarded by the mutex.
  bool is_closed_ = false;
  std::list<Opened> opened_;                        // the one that was asked last first
  std::map<ServedWords, std::list<Asker>> askers_;  // of a model that is being opened
  // Ends before what it uses.
  OrderedWorkers opener_{1, std::numeric_limits<std::int64_t>::max()};
};

}  // namespace hydrascope::app
