#include "model/checkpoint/shard_index.h"

#include "kernels/error.h"
#include "model/checkpoint/strict_json.h"

#include <utility>

namespace hydrascope::checkpoint {
namespace {

using Kind = JsonValue::Kind;

constexpr std::string_view kWeightMap = "weight_map";

bool is_plain_file_name(std::string_view name) {
  constexpr std::string_view kForbidden{"/\\\0", 3};
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(kForbidden) == std::string_view::npos;
}

class IndexVisitor final : public JsonVisitor {
 public:
  explicit IndexVisitor(const std::string& subject) : subject_(subject) {}

  WeightMap weight_map;

  void value(std::span<const std::string> path, const JsonValue& value) override {
    if (path.empty()) return expect(value, Kind::object, "the index", "an object");
    if (path[0] != kWeightMap) return;
    if (path.size() == 1) return expect(value, Kind::object, std::string(kWeightMap), "an object");
    if (value.kind != Kind::string || !is_plain_file_name(value.text)) {
      fail(std::string(kWeightMap) + " " + quote(path[1]) +
           ": expected the name of a file beside the index, found " + describe(value));
    }
    weight_map.emplace(path[1], value.text);
  }

  void end(std::span<const std::string>) override {}

  void finish() const {
    if (weight_map.empty()) fail("the index names no tensors: its weight_map is missing or empty");
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::decode_failed, what, subject_);
  }
  void expect(const JsonValue& value, Kind kind, const std::string& place,
              const char* expected) const {
    if (value.kind != kind) fail(place + ": expected " + expected + ", found " + describe(value));
  }

  const std::string& subject_;
};

}  // namespace

WeightMap read_weight_map(std::string_view text, const std::string& subject) {
  IndexVisitor visitor(subject);
  visit_json(text, "index", subject, visitor);
  visitor.finish();
  return std::move(visitor.weight_map);
}

}  // namespace hydrascope::checkpoint
