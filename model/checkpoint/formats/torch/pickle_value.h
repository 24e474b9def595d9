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
/// Harmless, and nothing that a reader of weights asks for: a set, a device, a numpy scalar.
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

/// What a message says of `value`: "a list", "None".
std::string_view describe(const Value& value);

struct Tuple {
  std::vector<Value> items;
};
struct List {
  std::vector<Value> items;
};
/// In the order of the pickle; a key that comes twice is kept twice.
struct Dict {
  std::vector<std::pair<Value, Value>> items;
};
/// The last value under `key`, which is the one that Python would keep; nullptr without one.
const Value* find(const Dict& dict, std::string_view key);
/// argparse.Namespace.
struct Namespace {
  Dict* fields = nullptr;
};
/// An object that unknown code would make, were it run: of a class, or by a function.
struct Object {
  Value maker;               ///< the class or function
  std::vector<Value> parts;  ///< what it was given: arguments, state, items
};
/// The bytes of one or more tensors, which lie elsewhere in the file.
struct Storage {
  std::string_view key;
  std::string_view type;         ///< as Python names it: "torch.FloatStorage"
  std::optional<Dtype> dtype;    ///< nothing for one that is no tensor of ours (complex128, qint8)
  std::int64_t length = 0;       ///< elements of the whole storage
  std::int64_t view_offset = 0;  ///< of the legacy format's views of storages
  std::optional<std::int64_t> view_length;  ///< nothing: the whole storage
};

/// A strided view of a storage; offset and strides count elements. Not yet held against the
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

/// What a name on the allow-list does.
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
  std::optional<Dtype> dtype;  ///< of a storage type or dtype
};
/// Facts about a name outside the allow-list.
enum class Risk {
  unknown,    ///< stands for what it makes, which nobody looks into
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
/// Bytes that values copied out of others take: some times the pickle, and no more than this.
inline constexpr std::size_t kMaxCopies = std::size_t{64} << 20;
inline constexpr std::size_t kCopyFactor = 8;

/// Owns the values of one file. Its memory is bounded by a multiple of the pickle's length and by
/// kMaxObjects.
class Heap {
 public:
  /// `bytes` is the length of the pickle or of the file around it; `subject` is what errors name.
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
  /// Everything of one kind, in the order of the pickle.
  template <class T>
  [[nodiscard]] const std::deque<T>& all() const noexcept {
    return std::get<std::deque<T>>(arenas_);
  }
  /// To be called before `count` bytes are copied out of a value, which a pickle could ask for
  /// again and again with a few bytes each.
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
