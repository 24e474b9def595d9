#include "model/checkpoint/formats/torch/state_dict.h"

#include "kernels/error.h"
#include "model/checkpoint/formats/strict_json.h"
#include "model/checkpoint/formats/torch/pickle_globals.h"

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::checkpoint {
namespace {

using pickle::Value;

constexpr std::array<std::string_view, 2> kAveragedEntries{"state_dict_ema", "model_ema"};
constexpr std::array<std::string_view, 5> kEntries{"state_dict", "model", "module",
                                                   "model_state_dict", "model_state"};
constexpr std::size_t kShownKeys = 8;
constexpr std::size_t kShownNames = 4;
constexpr std::size_t kMostEntries = 64;
constexpr const char* kMakeTensors =
    "nothing of the file was executed; in Python, make plain tensors of the values (of arrays by "
    "torch.from_numpy) before torch.save";
constexpr const char* kSaveStateDict =
    "in Python, save its state_dict: torch.save(model.state_dict(), \"weights.pth\")";

[[noreturn]] void refuse_dict(const std::string& what, const pickle::Heap& heap,
                              const char* hint = kSaveStateDict) {
  throw Error(ErrorCode::unsupported_format, what, heap.subject(), hint);
}

/// The maker of `object`: a class, or a function of unknown code.
std::string maker_name(const pickle::Object& object) {
  constexpr int kMostCalls = 8;  // a pickle may chain a million calls of results
  const Value* maker = &object.maker;
  for (int i = 0; i < kMostCalls && std::holds_alternative<pickle::Object*>(*maker); ++i)
    maker = &std::get<pickle::Object*>(*maker)->maker;
  if (const auto* foreign = std::get_if<pickle::Foreign*>(maker)) return python_name(**foreign);
  const auto* global = std::get_if<const pickle::Global*>(maker);
  return global == nullptr ? std::string(describe(*maker)) : std::string((*global)->name);
}

/// Walks the values inside a value, without recursion and each of them once.
class Walk {
 public:
  /// Whether a tensor or a storage lies in `value`, outside the values of earlier calls.
  bool reaches_tensor(const Value& value) {
    std::vector<Value> open{value};
    while (!open.empty()) {
      const Value next = open.back();
      open.pop_back();
      if (std::holds_alternative<pickle::Tensor*>(next) ||
          std::holds_alternative<pickle::Storage*>(next)) {
        return true;
      }
      if (const auto* tuple = std::get_if<pickle::Tuple*>(&next))
        add((*tuple)->items, *tuple, open);
      if (const auto* list = std::get_if<pickle::List*>(&next)) add((*list)->items, *list, open);
      if (const auto* object = std::get_if<pickle::Object*>(&next)) {
        add((*object)->parts, *object, open);
      }
      const auto* name_space = std::get_if<pickle::Namespace*>(&next);
      const auto* dict = std::get_if<pickle::Dict*>(&next);
      const pickle::Dict* fields = dict != nullptr         ? *dict
                                   : name_space != nullptr ? (*name_space)->fields
                                                           : nullptr;
      if (fields == nullptr || !seen_.insert(fields).second) continue;
      for (const auto& [key, item] : fields->items) open.push_back(item);
    }
    return false;
  }

 private:
  void add(const std::vector<Value>& items, const void* owner, std::vector<Value>& open) {
    if (seen_.insert(owner).second) open.insert(open.end(), items.begin(), items.end());
  }
  std::set<const void*> seen_;
};

/// Attributes that every torch.nn.Module keeps, whatever its class.
bool is_module(const pickle::Object& object) {
  if (object.parts.empty()) return false;
  const auto* state = std::get_if<pickle::Dict*>(&object.parts.back());
  return state != nullptr && find(**state, "_modules") != nullptr &&
         find(**state, "_parameters") != nullptr;
}

/// NumPy's arrays hold numbers that nobody reads.
bool is_array(const pickle::Object& object) {
  const std::string name = maker_name(object);
  return name.starts_with("numpy.") &&
         (name.ends_with("._reconstruct") || name.ends_with("._frombuffer"));
}

std::string what_it_is(const pickle::Object& object) {
  if (is_module(object)) return "a whole pickled module of the class " + maker_name(object);
  if (is_array(object)) return "an array of NumPy";
  return "made by " + maker_name(object) + ", which hydrascope does not know";
}

const pickle::Dict* as_state_dict(const Value& value) {
  const auto* dict = std::get_if<pickle::Dict*>(&value);
  if (dict == nullptr) return nullptr;
  const bool has_tensors = std::ranges::any_of((*dict)->items, [](const auto& item) {
    return std::holds_alternative<pickle::Tensor*>(item.second);
  });
  return has_tensors ? *dict : nullptr;
}

/// The first of `entries` that holds tensors.
StateDict find_entry(const pickle::Dict& root, std::span<const std::string_view> entries,
                     const pickle::Heap& heap) {
  for (const std::string_view entry : entries) {
    const Value* value = find(root, entry);
    if (value == nullptr) continue;
    if (const pickle::Dict* dict = as_state_dict(*value)) return {std::string(entry), dict};
    const auto* object = std::get_if<pickle::Object*>(value);
    if (object != nullptr && Walk().reaches_tensor(*value))
      refuse_dict("\"" + std::string(entry) + "\" of the file is " + what_it_is(**object), heap);
  }
  return {};
}

/// The entries that hold tensors, whatever they are called.
StateDict find_only_entry(const pickle::Dict& root, const pickle::Heap& heap) {
  std::vector<StateDict> found;
  std::string names;
  std::set<const pickle::Dict*> seen;  // a pickle may repeat a dict at no cost
  for (const auto& [key, value] : root.items) {
    const auto* name = std::get_if<pickle::Text>(&key);
    const auto* inner = std::get_if<pickle::Dict*>(&value);
    if (name == nullptr || inner == nullptr || !seen.insert(*inner).second) continue;
    const pickle::Dict* dict = as_state_dict(value);
    if (dict == nullptr || find_bad_utf8(name->text) != name->text.size()) continue;
    if (found.size() < kShownKeys) names += (found.empty() ? "" : ", ") + quote(name->text);
    found.push_back({std::string(name->text), dict});
  }
  if (found.empty()) return {};
  if (found.size() > 1) {
    refuse_dict(std::to_string(found.size()) + " entries of the file hold tensors (" + names +
                    (found.size() > kShownKeys ? ", ..." : "") + "), and none is the state dict",
                heap, "in Python, save one of them alone: torch.save(file[NAME], \"weights.pth\")");
  }
  return found.front();
}

std::string list_keys(const pickle::Dict& dict) {
  std::string text;
  for (std::size_t i = 0; i < std::min(dict.items.size(), kShownKeys); ++i) {
    const auto* key = std::get_if<pickle::Text>(&dict.items[i].first);
    text +=
        (i == 0 ? "" : ", ") +
        (key != nullptr ? quote(key->text) : std::string(pickle::describe(dict.items[i].first)));
  }
  if (dict.items.size() > kShownKeys) {
    text += " and " + std::to_string(dict.items.size() - kShownKeys) + " more";
  }
  return text;
}

/// "blocks." of "blocks.0.norm1.weight"; the whole name where it has no dot.
std::string_view first_part(std::string_view name) { return name.substr(0, name.find('.') + 1); }

/// Refuses a dict with values of unknown code in the place of tensors, or with other values under
/// names of parts that have tensors. A None counts as absent.
StateDict checked(StateDict found, const pickle::Heap& heap) {
  constexpr std::array<std::string_view, 4> kTokens{"cls_token", "dist_token", "reg_token",
                                                    "pos_embed"};
  Walk walk;
  std::set<std::string_view> parts;
  for (const auto& [key, value] : found.dict->items) {
    const auto* name = std::get_if<pickle::Text>(&key);
    if (name != nullptr && std::holds_alternative<pickle::Tensor*>(value))
      parts.insert(first_part(name->text));
  }
  for (const auto& [key, value] : found.dict->items) {
    if (std::holds_alternative<pickle::Tensor*>(value) ||
        std::holds_alternative<pickle::None>(value))
      continue;
    const auto* name = std::get_if<pickle::Text>(&key);
    const std::string_view text = name == nullptr ? "" : name->text;
    const bool is_of_part =
        !parts.empty() && (std::ranges::find(kTokens, text) != kTokens.end() ||
                           (!first_part(text).empty() && parts.contains(first_part(text))));
    const auto* object = std::get_if<pickle::Object*>(&value);
    if (object != nullptr && (is_of_part || is_array(**object) || walk.reaches_tensor(value))) {
      refuse_dict("the tensor " + (name == nullptr ? "" : quote(text) + " ") +
                      "of the weights is " + what_it_is(**object),
                  heap, kMakeTensors);
    }
    if (object == nullptr && is_of_part) {
      refuse_dict("the tensor " + quote(text) + " of the weights is " +
                      std::string(pickle::describe(value)),
                  heap, kMakeTensors);
    }
  }
  return found;
}

const pickle::Dict& root_dict(const Value& root, const pickle::Heap& heap) {
  if (const auto* dict = std::get_if<pickle::Dict*>(&root)) return **dict;
  if (const auto* object = std::get_if<pickle::Object*>(&root)) {
    refuse_dict(is_module(**object)
                    ? "the file is " + what_it_is(**object)
                    : "expected a state dict, found an object of the class " + maker_name(**object),
                heap);
  }
  refuse_dict("expected a state dict, found " + std::string(pickle::describe(root)), heap);
}

}  // namespace

StateDict find_state_dict(const Value& root, const pickle::Heap& heap) {
  const pickle::Dict& dict = root_dict(root, heap);
  StateDict found = find_entry(dict, kEntries, heap);
  if (found.dict == nullptr && as_state_dict(root) != nullptr) found.dict = &dict;
  if (found.dict == nullptr) found = find_only_entry(dict, heap);
  if (found.dict != nullptr) return checked(std::move(found), heap);
  // No dict: names the value in its place, if the entries are not too many.
  for (std::size_t i = 0; i < std::min(dict.items.size(), kMostEntries); ++i) {
    const auto& [key, value] = dict.items[i];
    const auto* object = std::get_if<pickle::Object*>(&value);
    const auto* name = std::get_if<pickle::Text>(&key);
    if (object != nullptr && name != nullptr && (is_array(**object) || is_module(**object))) {
      refuse_dict(quote(name->text) + " of the file is " + what_it_is(**object) +
                      ", and no entry is a state dict",
                  heap, is_array(**object) ? kMakeTensors : kSaveStateDict);
    }
    if (const auto* inner = std::get_if<pickle::Dict*>(&value)) checked({"", *inner}, heap);
  }
  refuse_dict(
      "the file holds no tensors where a state dict is expected: in the file itself, "
      "\"state_dict\", \"model\" or \"module\"; found " +
          (dict.items.empty() ? "nothing" : "the keys " + list_keys(dict)),
      heap);
}

StateDict find_averaged_dict(const Value& root, const pickle::Heap& heap) {
  StateDict found = find_entry(root_dict(root, heap), kAveragedEntries, heap);
  return found.dict == nullptr ? found : checked(std::move(found), heap);
}

bool has_averaged_dict(const pickle::Dict& root) {
  return std::ranges::any_of(kAveragedEntries, [&](std::string_view entry) {
    const Value* value = find(root, entry);
    return value != nullptr && as_state_dict(*value) != nullptr;
  });
}

std::string note_of_unknown(const pickle::Heap& heap) {
  const auto& objects = heap.all<pickle::Object>();
  std::vector<std::string> names;
  const auto add = [&](std::string name) {
    if (names.size() <= kShownNames && std::ranges::find(names, name) == names.end())
      names.push_back(std::move(name));
  };
  std::size_t count = objects.size();
  for (const pickle::Object& object : objects) add(maker_name(object));
  if (objects.empty()) {
    for (const pickle::Foreign& foreign : heap.all<pickle::Foreign>()) {
      if (foreign.is_called) continue;
      ++count;
      add(python_name(foreign));
    }
  }
  if (count == 0) return "";
  std::string text = std::to_string(count) + (count == 1 ? " value" : " values") +
                     " beside the weights cannot be read without running code and " +
                     (count == 1 ? "is" : "are") + " left out: ";
  for (std::size_t i = 0; i < std::min(names.size(), kShownNames); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  return text + (names.size() > kShownNames ? ", ..." : "");
}

}  // namespace hydrascope::checkpoint
