// HTTP/1.1 over TCP, with every limit that clients of bad will are met with: sizes and times of
// headers and bodies, connections, names of the host. Questions and answers are ServeApi's.
// On Boost.Beast, which is in http_server.cpp alone.
// Test: tests/app/serve/.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::app {

struct HttpRequest {
  std::string method;
  std::string path;  ///< without the query, percent signs decoded
  std::vector<std::pair<std::string, std::string>> query = {};  ///< decoded, in its order
  std::map<std::string, std::string> headers = {};              ///< names in lower case
  std::string body = {};
  /// Set when the client has closed its side while the request is answered.
  std::shared_ptr<const std::atomic<bool>> gone = {};

  /// "" where there is none.
  [[nodiscard]] const std::string& header(const std::string& name) const;
};

struct HttpResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
};

class ServeApi;

struct HttpServerOptions {
  std::string host = "127.0.0.1";  ///< an address, or a name that has one
  std::uint16_t port = 0;          ///< 0: a free one
  int threads = 2;                 ///< that read and write; answers have theirs
  std::size_t max_body_bytes = 0;
  std::size_t max_connections = 512;  ///< more wait in the system's queue
  /// Seconds for the header of a request, what comes before it included; for its body; for the
  /// response's way out.
  double timeout = 60;
};

class HttpServer {
 public:
  /// Listens. Throws Error(failed) where the address cannot be had. `api` must outlive it.
  HttpServer(const HttpServerOptions& options, ServeApi& api);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  /// Closes what is open.
  ~HttpServer();

  /// As it is bound: numbers.
  [[nodiscard]] std::string address() const;
  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] bool is_loopback() const;
  /// Takes no more connections, closes idle ones, and waits until all that was asked is answered, at
  /// most so many seconds. Returns whether it is.
  bool drain(double seconds);

  /// From then on the api is asked nothing, and what it says is dropped.
  void stop();

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace hydrascope::app
