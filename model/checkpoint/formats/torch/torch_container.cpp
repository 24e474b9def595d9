#include "model/checkpoint/formats/torch/torch_container.h"

#include "kernels/error.h"
#include "model/checkpoint/formats/byte_cursor.h"
#include "model/checkpoint/formats/strict_json.h"
#include "model/checkpoint/formats/torch/pickle_machine.h"
#include "model/checkpoint/formats/torch/zip_archive.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace hydrascope::checkpoint {
namespace {

[[noreturn]] void refuse_container(const std::string& what, const std::string& subject,
                                   std::string hint = {}) {
  throw Error(ErrorCode::unsupported_format, what, subject, std::move(hint));
}

/// Throws the error for an archive without a pickle.
[[noreturn]] void refuse_archive(const ZipArchive& archive, const std::string& subject) {
  for (const auto& [name, entry] : archive.entries()) {
    if (name.ends_with(".npy"))
      refuse_container(
          "expected a file of torch.save, found an archive of NumPy arrays (.npz)", subject,
          "timm reads those of Google's models in Python: model.load_pretrained(FILE), then "
          "torch.save(model.state_dict(), \"weights.pth\")");
  }
  refuse_container("expected a file of torch.save, found a zip archive without a data.pkl", subject,
                   "if it holds weights, unpack it and name them");
}

/// "NAME/": every entry lies in one folder, mostly named like the file.
std::string find_folder(const ZipArchive& archive, const std::string& subject) {
  constexpr std::string_view kPickle = "/data.pkl";
  std::string folder;
  for (const auto& [name, entry] : archive.entries()) {
    if (!name.ends_with(kPickle) || name.find('/') != name.size() - kPickle.size()) continue;
    if (!folder.empty()) refuse_container("the zip archive has more than one data.pkl", subject);
    folder = name.substr(0, name.size() - kPickle.size() + 1);
  }
  if (folder.empty()) refuse_archive(archive, subject);
  return folder;
}

void check_byte_order(const ZipArchive& archive, const std::string& name,
                      const std::string& subject) {
  if (!archive.entries().contains(name)) return;  // PyTorch below 2.1: little-endian
  const auto bytes = archive.content(name);
  const std::string_view order(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (order == "little") return;
  refuse_container(order == "big" ? "the tensors are big-endian"
                                  : "expected the byte order \"little\", found " + quote(order),
                   subject, "load and save the file on a little-endian machine");
}

using namespace std::string_view_literals;

/// 0x1950a86a20f9469cfc6c, as a pickle spells it.
constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv;
constexpr std::int64_t kVersion = 1001;

/// The pickles at the front of the file, one after the other.
class PickleSequence {
 public:
  PickleSequence(std::span<const std::byte> bytes, pickle::Heap& heap)
      : rest_(bytes), heap_(heap) {}

  pickle::Value next() {
    const pickle::Result result = pickle::run(rest_, heap_);
    rest_ = rest_.subspan(result.length);
    return result.value;
  }
  [[nodiscard]] std::span<const std::byte> rest() const { return rest_; }

 private:
  std::span<const std::byte> rest_;
  pickle::Heap& heap_;
};

void check_magic(const pickle::Value& value, const std::string& subject) {
  const auto* number = std::get_if<pickle::BigInteger>(&value);
  if (number != nullptr && number->bytes == kMagic) return;
  throw Error(ErrorCode::unsupported_format, "expected a file of torch.save, found another pickle",
              subject, "in Python, save the weights with torch.save(state_dict, \"weights.pth\")");
}

void check_machine(const pickle::Value& facts, const std::string& subject) {
  const auto* dict = std::get_if<pickle::Dict*>(&facts);
  if (dict == nullptr) return;
  const pickle::Value* value = find(**dict, "little_endian");
  const bool* is_little_endian = value == nullptr ? nullptr : std::get_if<bool>(value);
  if (is_little_endian != nullptr && !*is_little_endian) {
    refuse_container("the tensors are big-endian", subject);
  }
}

/// Bytes of an element; 0 for an unknown type.
std::size_t element_size(const pickle::Storage& storage) {
  if (storage.dtype) return size_of(*storage.dtype);
  if (storage.type == "torch.ComplexDoubleStorage") return 16;
  if (storage.type == "torch.QInt32Storage") return 4;
  return storage.type.starts_with("torch.Q") ? 1 : 0;
}

using StorageTypes = std::map<std::string_view, const pickle::Storage*>;

/// The elements of the storage `key`, whose type only the pickle tells.
std::span<const std::byte> read_storage(ByteCursor& cursor, std::string_view key,
                                        const StorageTypes& types, const pickle::Heap& heap) {
  const auto found = types.find(key);
  if (found == types.end()) heap.fail("no tensor uses the storage " + quote(key));
  const pickle::Storage& storage = *found->second;
  const std::size_t size = element_size(storage);
  if (size == 0) {
    refuse_container("the storage " + quote(key) + " has a type that is not supported",
                     heap.subject());
  }
  const auto length = cursor.number<std::uint64_t>();
  if (length != static_cast<std::uint64_t>(storage.length)) {
    heap.fail("the storage " + quote(key) + " has " + std::to_string(length) +
              " elements, the pickle says " + std::to_string(storage.length));
  }
  if (length > std::numeric_limits<std::uint64_t>::max() / size) {
    heap.fail("the size of the storage " + quote(key) + " overflows");
  }
  return cursor.take(length * size);
}

}  // namespace

TorchContents read_torch_zip(std::span<const std::byte> bytes, pickle::Heap& heap) {
  const std::string& subject = heap.subject();
  const ZipArchive archive(bytes, subject);
  const std::string folder = find_folder(archive, subject);
  if (archive.entries().contains(folder + "constants.pkl")) {
    refuse_container("expected a state dict, found a TorchScript program", subject,
                     "load it with torch.jit.load and save its state_dict()");
  }
  check_byte_order(archive, folder + "byteorder", subject);

  TorchContents contents;
  contents.root = pickle::run(archive.content(folder + "data.pkl"), heap).value;
  const std::string prefix = folder + "data/";
  const auto& entries = archive.entries();
  for (auto entry = entries.lower_bound(prefix); entry != entries.end(); ++entry) {
    const std::string_view name = entry->first;
    if (!name.starts_with(prefix)) break;
    contents.storages.emplace(name.substr(prefix.size()), archive.content(name));
  }
  return contents;
}

TorchContents read_torch_legacy(std::span<const std::byte> bytes, pickle::Heap& heap) {
  const std::string& subject = heap.subject();
  // The magic number comes first: a pickle of another program would otherwise be refused for its
  // calls, which helps nobody.
  constexpr std::size_t kFirstPickle = 32;
  const std::string_view front(reinterpret_cast<const char*>(bytes.data()),
                               std::min(bytes.size(), kFirstPickle));
  if (front.find(kMagic) == std::string_view::npos) check_magic({}, subject);

  PickleSequence pickles(bytes, heap);
  check_magic(pickles.next(), subject);
  const pickle::Value version = pickles.next();
  const auto* number = std::get_if<std::int64_t>(&version);
  if (number == nullptr || *number != kVersion) {
    refuse_container("expected the version 1001 of torch.save's legacy format, found another",
                     subject);
  }
  check_machine(pickles.next(), subject);

  TorchContents contents;
  contents.root = pickles.next();
  StorageTypes types;
  for (const pickle::Storage& storage : heap.all<pickle::Storage>()) {
    types.emplace(storage.key, &storage);
  }
  const pickle::Value keys = pickles.next();
  const auto* list = std::get_if<pickle::List*>(&keys);
  if (list == nullptr) heap.fail("expected a list of storages behind the pickled object");
  ByteCursor cursor(pickles.rest(), "the list of storages", subject);
  for (const pickle::Value& item : (*list)->items) {
    const auto* key = std::get_if<pickle::Text>(&item);
    if (key == nullptr) heap.fail("the key of a storage is " + std::string(describe(item)));
    const auto storage = read_storage(cursor, key->text, types, heap);
    if (!contents.storages.emplace(key->text, storage).second) {
      heap.fail("the storage " + quote(key->text) + " is listed twice");
    }
  }
  return contents;
}

}  // namespace hydrascope::checkpoint
