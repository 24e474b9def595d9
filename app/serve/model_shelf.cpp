#include "app/serve/model_shelf.h"

#include "app/run/words.h"
#include "kernels/error.h"

#include <algorithm>
#include <utility>

namespace hydrascope::app {
namespace {

void check_word(const std::string& word, const std::vector<std::string>& known, const char* field) {
  if (word.empty() || std::ranges::find(known, word) != known.end()) return;
  throw Error(
      ErrorCode::invalid_argument,
      "expected one of " + join_words(known, ", ", ", ") + ", found '" + word.substr(0, 100) + "'",
      field);
}

}  // namespace

ModelShelf::ModelShelf(std::unique_ptr<Service> first, ServedWords own,
                       std::vector<std::string> models, std::vector<std::string> views, Open open,
                       std::size_t most)
    : first_(std::move(first)),
      own_(std::move(own)),
      models_(std::move(models)),
      views_(std::move(views)),
      open_(std::move(open)),
      most_(most) {}

void ModelShelf::check(const ServedWords& words) const {
  check_word(words.model, models_, "`model`");
  check_word(words.views, views_, "`views`");
}

void ModelShelf::with(const ServedWords& words, const std::function<void(Service&)>& use) {
  check(words);
  const bool is_own = (words.model.empty() || words.model == own_.model) &&
                      (words.views.empty() || words.views == own_.views);
  if (is_own) return use(*first_);
  const std::lock_guard lock(mutex_);
  if (is_closed_) throw Error(ErrorCode::out_of_memory, "the server is closing");
  const auto found = std::ranges::find(opened_, words, &Opened::words);
  if (found != opened_.end()) {
    opened_.splice(opened_.begin(), opened_, found);
  } else {
    if (opened_.size() >= most_) {
      const auto idle = std::find_if(opened_.rbegin(), opened_.rend(), [](const Opened& one) {
        return one.service->counts().unanswered == 0;
      });
      if (idle == opened_.rend())
        throw Error(ErrorCode::out_of_memory, "as many models as may be open are at work");
      opened_.erase(std::next(idle).base());
    }
    opened_.push_front({words, open_(words)});
  }
  use(*opened_.front().service);
}

void ModelShelf::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  opened_.clear();
  first_.reset();
}

}  // namespace hydrascope::app
