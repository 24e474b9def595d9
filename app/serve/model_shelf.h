// The models that a server answers with: the one that it was started with, and others that are opened when somebody
// asks for them.
#pragma once

#include "app/session/service.h"

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace hydrascope::app {

/// A model by its name, and how it sees pictures; "": as the server was started.
struct ServedWords {
  std::string model = {};
  std::string views = {};
  [[nodiscard]] bool are_empty() const { return model.empty() && views.empty(); }
  friend bool operator==(const ServedWords&, const ServedWords&) = default;
};

class ModelShelf {
 public:
  using Open = std::function<std::unique_ptr<Service>(const ServedWords&)>;

  /// `first` is the server's own, which `own` names, too. `open` opens one of `models`, by name, in one of `views`; at most `most` are open
  /// beside the first, and the one that was asked longest ago makes room.
  ModelShelf(std::unique_ptr<Service> first, ServedWords own, std::vector<std::string> models,
             std::vector<std::string> views, Open open, std::size_t most);

  /// Throws Error(invalid_argument) for words that are none of these.
  void check(const ServedWords& words) const;
  [[nodiscard]] Service& first() { return *first_; }
  [[nodiscard]] const std::vector<std::string>& models() const noexcept { return models_; }
  [[nodiscard]] const std::vector<std::string>& views() const noexcept { return views_; }
  /// Calls `use`, which asks it and does not wait, with the service of these words; opens it where it is not open,
  /// which may take seconds. Throws what `check`, `open` and `use` throw, Error(out_of_memory) where all places are
  /// at work.
  void with(const ServedWords& words, const std::function<void(Service&)>& use);
  /// Answers what has been asked, then has no service any more.
  void close();

 private:
  struct Opened {
    ServedWords words;
    std::unique_ptr<Service> service;
  };

  std::unique_ptr<Service> first_;
  ServedWords own_;
  std::vector<std::string> models_;
  std::vector<std::string> views_;
  Open open_;
  std::size_t most_;
  std::mutex mutex_;
  bool is_closed_ = false;    // guarded
  std::list<Opened> opened_;  // the same; the one that was asked last first
};

}  // namespace hydrascope::app
