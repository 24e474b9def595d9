#include "model/inference/backend_choice.h"

#include "kernels/device/fastest_way.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>
#include <limits>

namespace hydrascope::model::inference {

at::Tensor BackendChoice::compute(const std::vector<std::int64_t>& shape, const Run& run,
                                  const Time& time) {
  auto entry = std::ranges::find(entries_, shape, &Entry::shape);
  if (entry == entries_.end()) {
    entries_.push_back({shape, std::vector<bool>(static_cast<std::size_t>(count_)), -1});
    entry = entries_.end() - 1;
  }
  while (true) {
    if (entry->chosen < 0) choose(*entry, run, time);
    try {
      return run(entry->chosen);
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const c10::Error&) {
      entry->refused[static_cast<std::size_t>(entry->chosen)] = true;
      entry->chosen = -1;
      if (std::ranges::find(entry->refused, false) == entry->refused.end()) throw;
    }
  }
}

void BackendChoice::choose(Entry& entry, const Run& run, const Time& time) const {
  if (std::ranges::find(entry.refused, false) == entry.refused.end())
    entry.refused.flip();  // all failed the last time: the cause may be over
  std::exception_ptr reason;
  const auto runs = [&](int backend) {
    const auto index = static_cast<std::size_t>(backend);
    if (entry.refused[index]) return false;
    try {
      run(backend);
      return true;
    } catch (const c10::OutOfMemoryError&) {
      reason = std::current_exception();  // another one may need less
    } catch (const c10::Error&) {
      reason = std::current_exception();
      entry.refused[index] = true;
    }
    return false;
  };
  const auto timed = [&](int backend) {
    bool all_run = true;
    const float taken = time([&] { all_run = all_run && runs(backend); });
    return all_run ? taken : std::numeric_limits<float>::infinity();
  };
  const int last = count_ - 1;
  entry.chosen = kernels::device::fastest_way(last, deterministic_, runs, timed);
  if (entry.chosen < 0 && runs(last)) entry.chosen = last;
  if (entry.chosen < 0) std::rethrow_exception(reason);
}

std::vector<int> BackendChoice::chosen() const {
  std::vector<int> list;
  for (const Entry& entry : entries_) {
    if (entry.chosen >= 0 && std::ranges::find(list, entry.chosen) == list.end())
      list.push_back(entry.chosen);
  }
  return list;
}

}  // namespace hydrascope::model::inference
