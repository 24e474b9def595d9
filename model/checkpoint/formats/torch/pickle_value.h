// The values that a pickle of torch.save is made of. Containers refer to each other by plain
// pointers into a heap that frees them all at once, so neither cycles nor deep nesting can leak or
// recurse. Text points into the pickle.
#pragma once

#include "model/checkpoint/formats/safetensors.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace hydrascope::checkpoint::pickle {

struct Dict;
struct List;
struct Tuple;
struct Namespace;
struct Object;
struct Storage;
struct Tensor;
struct Global;
struct Foreign;

struct None {};
/// A harmless value that a reader of weights does not need: a set, a device, a numpy scalar.
struct Opaque {};
struct Text {
  std::string_view text;  ///< not checked to be UTF-8
};
struct Bytes {
  std::string_view bytes;
};
/// An integer that does not fit into 64 bits: two's complement, little-endian.
struct BigInteger {
  std::string_view bytes;
};

using Value =
    std::variant<None, Opaque, bool, std::int64_t, double, BigInteger, Text, Bytes, Tuple*, List*,
                 Dict*, Namespace*, Object*, Storage*, Tensor*, const Global*, Foreign*>;

/// `value` in the words of a message: "a list", "None".
std::string_view describe(const Value& value);

struct Tuple {
  std::vector<Value> items;
};
struct List {
  std::vector<Value> items;
};
/// Items are in the order of the pickle; a duplicate key is kept twice.
struct Dict {
  std::vector<std::pair<Value, Value>> items;
};
/// The last value under `key`, which Python would keep; nullptr without one.
const Value* find(const Dict& dict, std::string_view key);
/// argparse.Namespace.
struct Namespace {
  Dict* fields = nullptr;
};
/// The result of an unknown class or function, were it run.
struct Object {
  Value maker;               ///< the class or function
  std::vector<Value> parts;  ///< its input: arguments, state, items
};
/// The bytes of one or more tensors, which lie elsewhere in the file.
struct Storage {
  std::string_view key;
  std::string_view type;         ///< as Python names it: "torch.FloatStorage"
  std::optional<Dtype> dtype;    ///< nothing for a type that is not read (complex128, qint8)
  std::int64_t length = 0;       ///< elements of the whole storage
  std::int64_t view_offset = 0;  ///< the legacy format has views of storages
  std::optional<std::int64_t> view_length;  ///< nothing: the whole storage
};

/// A strided view of a storage; offset and strides count elements. Not yet compared with the
/// storage.
struct Tensor {
  Storage* storage = nullptr;
  std::string_view type;  ///< as `Storage::type`, or the dtype's name
  std::optional<Dtype> dtype;
  bool is_marked = false;  ///< a negated or conjugated view, whose elements are not the storage's
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
};

/// The effect of a name on the allow-list.
enum class Role {
  dict,
  default_dict,
  name_space,
  torch_size,
  opaque,
  byte_string,
  encode,
  tensor,
  tensor_v3,
  typed_tensor,
  parameter,
  storage_type,
  dtype,
};
struct Global {
  std::string_view name;  ///< "torch._utils._rebuild_tensor_v2"
  Role role;
  std::optional<Dtype> dtype;  ///< a storage type's or a dtype's
};
/// Facts about a name outside the allow-list.
enum class Risk {
  unknown,    ///< stands for its result, which nobody looks into
  attribute,  ///< builtins.getattr, which plain pickles call for members of classes
  dangerous,  ///< reaches the system or code: no file of weights has a use for it
};
/// A name outside the allow-list, as the pickle spells it: "posix", "system".
struct Foreign {
  std::string_view module;
  std::string_view name;
  Risk risk = Risk::unknown;
  bool is_called = false;
};

/// Objects and tensors in one file. A tensor takes about eight objects; the largest training
/// checkpoints in public have some ten thousand tensors.
inline constexpr std::size_t kMaxObjects = std::size_t{1} << 20;
inline constexpr std::size_t kMaxTensors = std::size_t{1} << 17;
/// Bytes of values copied out of others: some times the pickle, at most this.
inline constexpr std::size_t kMaxCopies = std::size_t{64} << 20;
inline constexpr std::size_t kCopyFactor = 8;

/// Owns the values of one file. Its memory is bounded by a multiple of the pickle's length and by
/// kMaxObjects.
class Heap {
 public:
  /// `bytes` is the length of the pickle or of the file around it; errors name `subject`.
  Heap(std::size_t bytes, std::string subject)
      : copies_(std::min(bytes, kMaxCopies / kCopyFactor) * kCopyFactor),
        subject_(std::move(subject)) {}

  template <class T>
  T* make(T object) {
    if (++objects_ > kMaxObjects || all<Tensor>().size() > kMaxTensors) fail_full();
    auto& arena = std::get<std::deque<T>>(arenas_);
    arena.push_back(std::move(object));
    return &arena.back();
  }
  /// All values of one kind, in the order of the pickle.
  template <class T>
  [[nodiscard]] const std::deque<T>& all() const noexcept {
    return std::get<std::deque<T>>(arenas_);
  }
  /// Call it before `count` bytes are copied out of a value: a few bytes of a pickle can ask for
  /// the same copy again and again.
  void spend(std::size_t count) {
    if (count > copies_) fail("the pickle copies its values too often");
    copies_ -= count;
  }

  [[nodiscard]] const std::string& subject() const noexcept { return subject_; }
  /// Throws Error(decode_failed).
  [[noreturn]] void fail(const std::string& what) const;

 private:
  [[noreturn]] void fail_full() const;

  std::tuple<std::deque<std::string>, std::deque<Tuple>, std::deque<List>, std::deque<Dict>,
             std::deque<Namespace>, std::deque<Object>, std::deque<Storage>, std::deque<Tensor>,
             std::deque<Foreign>>
      arenas_;
  std::size_t objects_ = 0;
  std::size_t copies_;
  std::string subject_;
};

}  // namespace hydrascope::checkpoint::pickle
