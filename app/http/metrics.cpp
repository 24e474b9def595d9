#include "app/http/metrics.h"

#include <array>
#include <charconv>
#include <fstream>
#include <unistd.h>

namespace hydrascope::app {
namespace {

/// The shortest text that gives the number back.
std::string shortest_text(double value) {
  std::array<char, 32> buffer{};
  return {buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr};
}

std::string metric_head(const std::string& name, const std::string& type, const std::string& help) {
  return "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

void add_sample(std::string& text, const std::string& name, const std::string& labels,
                const std::string& value) {
  text += name + (labels.empty() ? "" : "{" + labels + "}") + " " + value + "\n";
}

}  // namespace

void ServeMetrics::Histogram::add(double value) {
  for (std::size_t i = 0; i < limits.size(); ++i)
    if (value <= limits[i]) ++counts[i];
  ++count;
  sum += value;
}

void ServeMetrics::Histogram::write(std::string& text, const std::string& name,
                                    const std::string& labels) const {
  const std::string before = labels.empty() ? "" : labels + ",";
  for (std::size_t i = 0; i < limits.size(); ++i)
    add_sample(text, name + "_bucket", before + "le=\"" + shortest_text(limits[i]) + "\"",
               std::to_string(counts[i]));
  add_sample(text, name + "_bucket", before + "le=\"+Inf\"", std::to_string(count));
  add_sample(text, name + "_sum", labels, shortest_text(sum));
  add_sample(text, name + "_count", labels, std::to_string(count));
}

ServeMetrics::Histogram ServeMetrics::of_seconds() {
  return Histogram({0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30});
}

void ServeMetrics::request(const std::string& route, int status, double seconds) {
  const std::lock_guard lock(mutex_);
  ++requests_[{route, status}];
  request_seconds_.try_emplace(route, of_seconds()).first->second.add(seconds);
}

void ServeMetrics::batch(std::int64_t images, double seconds) {
  const std::lock_guard lock(mutex_);
  batch_images_.add(static_cast<double>(images));
  batch_seconds_.add(seconds);
}

void ServeMetrics::picture(bool failed) {
  const std::lock_guard lock(mutex_);
  ++pictures_;
  if (failed) ++failed_;
}

std::string ServeMetrics::text(const MetricGauges& gauges) const {
  const std::lock_guard lock(mutex_);
  std::string text;
  const auto add = [&](const std::string& name, const std::string& type, std::int64_t value,
                       const std::string& help) {
    text += metric_head(name, type, help);
    add_sample(text, name, "", std::to_string(value));
  };
  text += metric_head("hydrascope_requests_total", "counter", "Requests by route and status.");
  for (const auto& [key, count] : requests_)
    add_sample(text, "hydrascope_requests_total",
               "route=\"" + key.first + "\",status=\"" + std::to_string(key.second) + "\"",
               std::to_string(count));
  text += metric_head("hydrascope_request_seconds", "histogram",
                      "From a request's header to its response, by route.");
  for (const auto& [route, histogram] : request_seconds_)
    histogram.write(text, "hydrascope_request_seconds", "route=\"" + route + "\"");
  add("hydrascope_pictures_total", "counter", pictures_, "Pictures that were answered.");
  add("hydrascope_pictures_failed_total", "counter", failed_,
      "Those with an error as their record.");
  text +=
      metric_head("hydrascope_batch_images", "histogram", "Pictures, or views of one, per batch.");
  batch_images_.write(text, "hydrascope_batch_images", "");
  text += metric_head("hydrascope_batch_seconds", "histogram",
                      "Seconds that the model takes for a batch.");
  batch_seconds_.write(text, "hydrascope_batch_seconds", "");
  add("hydrascope_queue_requests", "gauge", gauges.waiting,
      "Requests that are let in and not answered.");
  add("hydrascope_queue_limit_requests", "gauge", gauges.most_waiting,
      "As many are let in at most.");
  add("hydrascope_queue_bytes", "gauge", gauges.held_bytes,
      "Bytes of bodies, as far as they have come.");
  add("hydrascope_work_layers", "gauge", gauges.layers,
      "Layers that the work at hand goes through: a batch, then the maps of a picture; 0: none.");
  add("hydrascope_work_layers_done", "gauge", gauges.layers_done,
      "Those that it has been through.");
  add("process_resident_memory_bytes", "gauge", resident_bytes(), "Resident memory size in bytes.");
  return text;
}

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t all = 0;
  std::int64_t resident = 0;
  file >> all >> resident;
  return file ? resident * static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace hydrascope::app
