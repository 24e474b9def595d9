#include "app/serve/http_server.h"

#include "app/serve/http_text.h"
#include "kernels/error.h"
#include "kernels/stopwatch.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

namespace hydrascope::app {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using Parser = http::request_parser<http::string_body>;
using boost::system::error_code;

constexpr std::uint32_t kMostHeaderBytes = 16384;

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(1000 * seconds));
}

std::string lower_text(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return result;
}

std::string_view text_of(beast::string_view text) { return {text.data(), text.size()}; }

HttpRequest head_of(const Parser& parser) {
  const auto& message = parser.get();
  HttpRequest head;
  head.method = text_of(message.method_string());
  const std::string_view target = text_of(message.target());
  const std::size_t mark = target.find('?');
  head.path = decoded_url(target.substr(0, mark), /*is_query=*/false);
  if (mark != target.npos) head.query = parse_query(target.substr(mark + 1));
  for (const auto& field : message) {
    std::string& value = head.headers[lower_text(text_of(field.name_string()))];
    if (!value.empty()) value += ", ";
    value += text_of(field.value());
  }
  return head;
}

/// Whether a Host header names this machine to itself: else a page of a stranger whose name was
/// pointed here (DNS rebinding) would be of the same origin as ours.
bool names_loopback(std::string_view host) {
  std::string name = lower_text(host);
  if (const std::size_t colon = name.rfind(':');
      colon != name.npos && name.find_first_not_of("0123456789", colon + 1) == name.npos)
    name.resize(colon);
  return name == "localhost" || name == "127.0.0.1" || name == "[::1]";
}

}  // namespace

const std::string& HttpRequest::header(const std::string& name) const {
  static const std::string kNone;
  const auto found = headers.find(name);
  return found == headers.end() ? kNone : found->second;
}

namespace {
class Session;
}

struct HttpServer::State {
  State(HttpServerOptions given, HttpHandler& its_handler)
      : options(std::move(given)),
        handler(its_handler),
        context(options.threads),
        work(context.get_executor()),
        acceptor(asio::make_strand(context)) {}

  void listen();
  void accept();
  void add(Session* session);
  void remove(Session* session);

  HttpServerOptions options;
  HttpHandler& handler;
  tcp::endpoint endpoint;  // as it is bound
  std::atomic<bool> draining = false;
  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by the mutex.
  std::set<Session*> sessions;
  bool is_full = false;
  asio::io_context context;  // its handlers keep sessions, which use what is above
  /// Answers come from other threads: there may be nothing to do here meanwhile.
  asio::executor_work_guard<asio::io_context::executor_type> work;
  tcp::acceptor acceptor;
  std::vector<std::thread> threads;
};

namespace {

/// A connection: one request after the other. What happens to it happens on its strand.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket&& socket, HttpServer::State& server)
      : stream_(std::move(socket)), timer_(stream_.get_executor()), server_(server) {
    server_.add(this);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    leave();
    server_.remove(this);
  }

  void run() {
    error_code ignored;
    stream_.socket().set_option(tcp::no_delay(true), ignored);
    asio::dispatch(stream_.get_executor(), [self = shared_from_this()] { self->read_head(); });
  }
  /// Ends it where no request is under way.
  void close_when_idle() {
    asio::post(stream_.get_executor(), [weak = weak_from_this()] {
      if (const auto self = weak.lock(); self && self->is_idle_) self->close();
    });
  }

 private:
  void read_head() {
    parser_.emplace();
    parser_->header_limit(kMostHeaderBytes);
    parser_->body_limit(server_.options.max_body_bytes);
    is_idle_ = true;
    if (server_.draining) return close();
    limit_to(server_.options.timeout);
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = shared_from_this()](error_code error, std::size_t) {
                              self->is_idle_ = false;
                              self->begin_ = Clock::now();
                              self->on_head(error);
                            });
  }

  void on_head(error_code error) {
    if (error == http::error::body_limit) {  // as its length was announced
      head_ = head_of(*parser_);
      return refuse(413, too_large());
    }
    if (error == http::error::header_limit)
      return refuse(431,
                    "expected a header of at most " + std::to_string(kMostHeaderBytes) + " bytes");
    if (error) return end_reading(error);
    head_ = head_of(*parser_);
    const auto& message = parser_->get();
    const auto hosts = message.count(http::field::host);
    if (hosts > 1 || (hosts == 0 && message.version() >= 11))
      return refuse(400, "expected one Host header");
    if (server_.endpoint.address().is_loopback() && !names_loopback(head_.header("host")))
      return refuse(403, "expected localhost or its address as the host, found '" +
                             head_.header("host").substr(0, 100) + "'");
    if (head_.header("sec-fetch-site") == "cross-site")
      return refuse(403, "a page of another site asks");
    const bool has_length = parser_->content_length().has_value();
    if (head_.method == "POST" && !has_length && !parser_->chunked())
      return refuse(411, "expected Content-Length");
    bytes_ = has_length ? *parser_->content_length()
                        : (parser_->chunked() ? server_.options.max_body_bytes : 0);
    if (const std::optional<HttpResponse> refusal = server_.handler.admit(head_, bytes_))
      return refuse(*refusal);
    is_in_ = true;
    if (lower_text(head_.header("expect")) == "100-continue" && buffer_.size() == 0)
      return say_continue();
    read_body();
  }

  void end_reading(error_code error) {
    // An idle connection ends without a word; half a request deserves one.
    if (is_late_ && (parser_->got_some() || buffer_.size() > 0))
      return refuse(408, "the request took too long");
    const bool is_of_http =
        error.category() == http::make_error_code(http::error::bad_method).category();
    if (is_of_http && error != http::error::end_of_stream && error != http::error::partial_message)
      return refuse(400, "no HTTP request: " + error.message());
    close();
  }

  void say_continue() {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    limit_to(server_.options.timeout);
    asio::async_write(stream_, asio::buffer(kContinue.data(), kContinue.size()),
                      [self = shared_from_this()](error_code error, std::size_t) {
                        if (error) return self->close();
                        self->read_body();
                      });
  }

  void read_body() {
    limit_to(server_.options.timeout);
    http::async_read(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](error_code error, std::size_t) { self->on_body(error); });
  }

  void on_body(error_code error) {
    if (error == http::error::body_limit) return refuse(413, too_large());
    if (error) return end_reading(error);
    limit_to({});
    keep_alive_ = parser_->get().keep_alive();
    version_ = parser_->get().version();
    HttpRequest request = head_;
    request.body = std::move(parser_->get().body());
    // The answer comes from other threads, perhaps when this server is no more; then nobody waits.
    const auto respond = [self = shared_from_this()](HttpResponse response) {
      asio::post(self->stream_.get_executor(), [self, response = std::move(response)]() mutable {
        self->write(std::move(response), self->keep_alive_ && !self->server_.draining);
      });
    };
    server_.handler.answer(std::move(request), respond);
  }

  [[nodiscard]] std::string too_large() const {
    return "expected at most " + std::to_string(server_.options.max_body_bytes) +
           " bytes in the body";
  }
  void refuse(int status, const std::string& message) {
    version_ = 11;
    write(server_.handler.refusal(status, message), /*keep_alive=*/false);
  }
  /// Where the client may still send a body, that is not read as a request.
  void refuse(HttpResponse response) {
    version_ = parser_->get().version();
    write(std::move(response), parser_->get().keep_alive() && parser_->is_done());
  }

  void write(HttpResponse response, bool keep_alive) {
    leave();
    server_.handler.note(head_, response, seconds_since(begin_));
    response_.emplace();
    response_->version(version_);
    response_->result(static_cast<unsigned>(response.status));
    response_->set(http::field::content_type, response.type);
    response_->set("X-Content-Type-Options", "nosniff");
    for (const auto& [name, value] : response.headers) response_->set(name, value);
    response_->keep_alive(keep_alive);
    const bool is_head = head_.method == "HEAD";
    const std::size_t length = response.body.size();
    if (!is_head) response_->body() = std::move(response.body);
    response_->content_length(length);
    limit_to(server_.options.timeout);
    http::async_write(stream_, *response_,
                      [self = shared_from_this(), keep_alive](error_code error, std::size_t) {
                        self->response_.reset();
                        if (error) return self->close();
                        if (!keep_alive) return self->linger();
                        self->head_ = {};
                        self->bytes_ = 0;
                        self->read_head();
                      });
  }

  /// A socket that is closed while the client still sends is reset, and the response lost: what
  /// comes is thrown away for a while.
  void linger() {
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    constexpr double kSeconds = 2;
    limit_to(kSeconds);
    discard();
  }
  void discard() {
    stream_.async_read_some(asio::buffer(rubbish_),
                            [self = shared_from_this()](error_code error, std::size_t) {
                              if (error) return self->close();
                              self->discard();
                            });
  }

  /// What is under way, and what begins until the next call, is cancelled after so many seconds.
  void limit_to(std::optional<double> seconds) {
    is_late_ = false;
    const std::uint64_t number = ++limit_;
    timer_.cancel();
    if (!seconds) return;
    timer_.expires_after(milliseconds_of(*seconds));
    timer_.async_wait([weak = weak_from_this(), number](error_code error) {
      const auto self = error ? nullptr : weak.lock();
      if (!self || self->limit_ != number) return;
      self->is_late_ = true;
      self->stream_.cancel();
    });
  }

  void leave() noexcept {
    if (!is_in_) return;
    is_in_ = false;
    server_.handler.leave(head_, bytes_);
  }
  void close() {
    leave();
    limit_to({});
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    stream_.close();
  }

  beast::tcp_stream stream_;
  asio::steady_timer timer_;
  HttpServer::State& server_;
  beast::flat_buffer buffer_{kMostHeaderBytes + 65536};
  std::optional<Parser> parser_;
  std::optional<http::response<http::string_body>> response_;
  HttpRequest head_;
  Clock::time_point begin_{};
  std::uint64_t bytes_ = 0;
  bool is_in_ = false;    ///< the handler let the request in
  bool is_idle_ = false;  ///< between two requests, or in a header
  bool keep_alive_ = false;
  bool is_late_ = false;
  std::uint64_t limit_ = 0;
  unsigned version_ = 11;
  std::array<char, 16384> rubbish_{};
};

}  // namespace

void HttpServer::State::listen() {
  try {
    tcp::resolver resolver(context);
    const auto found =
        resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive);
    endpoint = found.begin()->endpoint();
    acceptor.open(endpoint.protocol());
    acceptor.set_option(asio::socket_base::reuse_address(true));
    acceptor.bind(endpoint);
    acceptor.listen(asio::socket_base::max_listen_connections);
    endpoint = acceptor.local_endpoint();
  } catch (const boost::system::system_error& error) {
    throw Error(ErrorCode::failed, "cannot listen: " + error.code().message(),
                options.host + ":" + std::to_string(options.port), "another `port` may be free");
  }
}

void HttpServer::State::accept() {
  acceptor.async_accept(asio::make_strand(context), [this](error_code error, tcp::socket socket) {
    if (draining || error == asio::error::operation_aborted) return;
    if (!error) std::make_shared<Session>(std::move(socket), *this)->run();
    const std::lock_guard lock(mutex);
    const bool lacks_files = error == error_code(EMFILE, boost::system::system_category());
    is_full = !sessions.empty() && (lacks_files || sessions.size() >= options.max_connections);
    if (!is_full) accept();
  });
}

void HttpServer::State::add(Session* session) {
  const std::lock_guard lock(mutex);
  sessions.insert(session);
}

void HttpServer::State::remove(Session* session) {
  {
    const std::lock_guard lock(mutex);
    sessions.erase(session);
    if (std::exchange(is_full, false) && !draining)
      asio::post(acceptor.get_executor(), [this] { accept(); });
  }
  changed.notify_all();
}

namespace {

/// What one connection has no memory for ends that connection.
void run(asio::io_context& context) {
  while (!context.stopped()) {
    try {
      context.run();
    } catch (const std::exception&) {
      continue;
    }
  }
}

}  // namespace

HttpServer::HttpServer(const HttpServerOptions& options, HttpHandler& handler)
    : state_(std::make_unique<State>(options, handler)) {
  State& state = *state_;
  state.listen();
  asio::post(state.acceptor.get_executor(), [&state] { state.accept(); });
  for (int i = 0; i < options.threads; ++i)
    state.threads.emplace_back([&state] { run(state.context); });
}

HttpServer::~HttpServer() {
  drain(0);
  stop();
}

void HttpServer::stop() {
  state_->context.stop();
  for (std::thread& thread : state_->threads) thread.join();
  state_->threads.clear();
}

bool HttpServer::drain(double seconds) {
  State& state = *state_;
  state.draining = true;
  asio::post(state.acceptor.get_executor(), [&state] {
    error_code ignored;
    state.acceptor.close(ignored);
  });
  std::unique_lock lock(state.mutex);
  const auto end = std::chrono::steady_clock::now() + milliseconds_of(seconds);
  const auto idle_ones = [&] {
    for (Session* session : state.sessions) session->close_when_idle();
  };
  idle_ones();
  return state.changed.wait_until(lock, end, [&] { return state.sessions.empty(); });
}

std::string HttpServer::address() const { return state_->endpoint.address().to_string(); }
std::uint16_t HttpServer::port() const { return state_->endpoint.port(); }
bool HttpServer::is_loopback() const { return state_->endpoint.address().is_loopback(); }

}  // namespace hydrascope::app
