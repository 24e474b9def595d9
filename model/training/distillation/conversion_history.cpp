#include "model/training/distillation/conversion_history.h"

#include "kernels/error.h"
#include "model/checkpoint/formats/json_fields.h"

#include <nlohmann/json.hpp>

#include <concepts>
#include <limits>
#include <type_traits>
#include <utility>

namespace hydrascope::model::training {

namespace {

using Json = nlohmann::json;

/// A key that stands only where the number is not 0; older versions' files lack it.
struct OptionalKey {
  const char* key;
};

// Each struct's fields once, for reading and writing.
template <class Self, class Visitor>
requires std::same_as<std::remove_const_t<Self>, Evaluation>
void visit(Self& self, Visitor&& visitor) {
  visitor("stage", self.stage);
  visitor("step", self.step);
  visitor("seconds", self.seconds);
  visitor("target", self.agreement.target);
  if (self.agreement.target == Target::logits) {
    visitor("top1", self.agreement.top1);
    visitor("divergence", self.agreement.divergence);
  } else {
    visitor("pooled_cosine", self.agreement.pooled_cosine);
    visitor("patch_cosine", self.agreement.patch_cosine);
  }
}
template <class Self, class Visitor>
requires std::same_as<std::remove_const_t<Self>, StageSummary>
void visit(Self& self, Visitor&& visitor) {
  visitor("stage", self.stage);
  visitor("planned_steps", self.planned_steps);
  visitor("steps", self.steps);
  visitor("images", self.images);
  visitor("seconds", self.seconds);
  visitor("ended_early", self.ended_early);
  visitor(OptionalKey{"pictures_of_a_step"}, self.pictures_of_a_step);
}
template <class Self, class Visitor>
requires std::same_as<std::remove_const_t<Self>, LayerFidelity>
void visit(Self& self, Visitor&& visitor) {
  visitor("layer", self.layer);
  visitor("mechanism", self.mechanism);
  visitor("before", self.before);
  visitor("after", self.after);
}
template <class Self, class Visitor>
requires std::same_as<std::remove_const_t<Self>, ConversionHistory>
void visit(Self& self, Visitor&& visitor) {
  visitor("evaluations", self.evaluations);
  visitor("stages", self.stages);
  visitor("layers", self.layers);
  visitor("best", self.best);
  visitor("seconds", self.seconds);
  visitor("held_out_images", self.held_out_images);
  visitor("is_complete", self.is_complete);
}

struct Writer {
  Json& json;
  template <class Field>
  void operator()(const char* key, const Field& field) const {
    json[key] = field;
  }
  void operator()(OptionalKey optional, std::int64_t number) const {
    if (number != 0) json[optional.key] = number;
  }
  void operator()(const char* key, Target target) const { json[key] = name(target); }
  template <class Entry>
  void operator()(const char* key, const std::vector<Entry>& list) const {
    Json array = Json::array();
    for (const Entry& entry : list) visit(entry, Writer{array.emplace_back(Json::object())});
    json[key] = std::move(array);
  }
};

struct Reader {
  const Json& json;
  template <class Field>
  void operator()(const char* key, Field& field) const {
    field = json.at(key).get<Field>();
  }
  void operator()(const char* key, std::int64_t& field) const {
    field = checkpoint::whole_number(json.at(key));
  }
  void operator()(OptionalKey optional, std::int64_t& number) const {
    if (json.contains(optional.key)) (*this)(optional.key, number);
  }
  /// Older versions' files lack the field: they knew logits alone.
  void operator()(const char* key, Target& target) const {
    const std::string word = json.value(key, std::string(name(Target::logits)));
    target = word == name(Target::features) ? Target::features : Target::logits;
  }
  /// JSON has no NaN: it was written as null.
  void operator()(const char* key, double& field) const {
    const Json& value = json.at(key);
    field = value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
  }
  template <class Entry>
  void operator()(const char* key, std::vector<Entry>& list) const {
    for (const Json& entry : json.at(key)) visit(list.emplace_back(), Reader{entry});
  }
};

}  // namespace

std::string to_json(const ConversionHistory& history) {
  Json json = Json::object();
  visit(history, Writer{json});
  return json.dump();
}

ConversionHistory history_from_json(std::string_view text, const std::string& subject) {
  ConversionHistory history;
  checkpoint::with_json_errors(subject, [&] { visit(history, Reader{Json::parse(text)}); });
  const auto count = static_cast<std::int64_t>(history.evaluations.size());
  if (history.best < 0 || history.best >= count)
    throw Error(ErrorCode::decode_failed, "the best evaluation is none of its evaluations",
                subject);
  return history;
}

}  // namespace hydrascope::model::training
