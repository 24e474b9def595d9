#include "model/checkpoint/formats/torch/pickle_value.h"

#include "kernels/error.h"

#include <array>

namespace hydrascope::checkpoint::pickle {

std::string_view describe(const Value& value) {
  constexpr std::array<std::string_view, 17> kDescriptions{
      "None",
      "an opaque value",
      "a boolean",
      "an integer",
      "a number",
      "an integer",
      "text",
      "bytes",
      "a tuple",
      "a list",
      "a dict",
      "a namespace",
      "an object of unknown code",
      "a storage",
      "a tensor",
      "a function or class",
      "a function or class that is not on the allow-list"};
  static_assert(kDescriptions.size() == std::variant_size_v<Value>);
  return kDescriptions.at(value.index());
}

const Value* find(const Dict& dict, std::string_view key) {
  for (auto item = dict.items.rbegin(); item != dict.items.rend(); ++item) {
    const auto* text = std::get_if<Text>(&item->first);
    if (text != nullptr && text->text == key) return &item->second;
  }
  return nullptr;
}

void Heap::fail_full() const {
  fail("the pickle holds more than " + std::to_string(kMaxObjects) + " objects or " +
       std::to_string(kMaxTensors) + " tensors");
}

void Heap::fail(const std::string& what) const {
  throw Error(ErrorCode::decode_failed, what, subject_,
              "the file is damaged: download or copy it again");
}

}  // namespace hydrascope::checkpoint::pickle
