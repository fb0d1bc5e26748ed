#include "monitoring/http_server.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <zlib.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
#include <fstream>
#include <latch>
#include <thread>

#include "monitoring/http_client.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "text/strings.h"

namespace dtrain::monitoring {
namespace {

using dtrain::testing::expect_error;
using testing::HttpClient;
using testing::Reply;

constexpr std::chrono::seconds kAtOnce{
    1};  // a time-out of the server would take two seconds or more

const std::string& large_body() {
  static const std::string body(16 << 20, 'x');  // more than the buffers of a connection hold
  return body;
}

std::vector<Page> pages() {
  return {{"/metrics", "text/plain; version=0.0.4; charset=utf-8",
           [](const Query&) { return std::string(1000, 'm'); }},
          {"/large", "application/octet-stream", [](const Query&) { return large_body(); }},
          {"/echo", "text/plain",
           [](const Query& query) {
             std::string text;
             for (const auto& [name, value] : query) text += name + "=" + value + ";";
             return text;
           }},
          {"/broken", "text/plain",
           [](const Query&) -> std::string { throw std::runtime_error("no page today"); }}};
}

std::string address_of(const HttpServer& server) { return str("127.0.0.1:", server.port()); }

bool has_ipv6() {
  return std::ifstream("/proc/net/if_inet6").peek() != std::ifstream::traits_type::eof();
}

std::string inflated(const std::string& gzip) {
  z_stream stream{};
  ::inflateInit2(&stream, 15 + 16);  // the largest window, in gzip's format
  std::string text(1 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(gzip.data()));
  stream.avail_in = static_cast<uInt>(gzip.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(::inflate(&stream, Z_FINISH), Z_STREAM_END);
  text.resize(stream.total_out);
  ::inflateEnd(&stream);
  return text;
}

TEST(HttpServer, ServesItsPagesAndNothingElse) {
  const HttpServer server("127.0.0.1", 0, pages(), {});
  HttpClient client(address_of(server));
  const Reply page = client.get("/metrics");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(page.body, std::string(1000, 'm'));
  EXPECT_EQ(client.get("/metrics?name=x").status, 200) << "a query changes nothing";
  for (const char* range :
       {"Range: bytes=0-9\r\n", "range: bytes=9-1\r\n", "RANGE: no range\r\n"}) {
    const Reply whole = client.get("/metrics", range);
    EXPECT_EQ(whole.status, 200) << range;
    EXPECT_EQ(whole.body.size(), 1000u) << range;
  }
  const Reply head = client.get("/metrics", "", "HEAD");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), "1000");
  for (const char* path : {"/", "/metrics/", "/metricsx", "/METRICS", "/../metrics", "*"}) {
    EXPECT_EQ(client.get(path).status, 404) << path;
  }
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS"}) {
    const Reply refused = HttpClient(address_of(server)).get("/metrics", "", method);
    EXPECT_EQ(refused.status, 405) << method;
    EXPECT_EQ(refused.headers.at("allow"), "GET, HEAD");
  }
}

TEST(HttpServer, GivesAPageItsQuery) {
  const HttpServer server("127.0.0.1", 0, pages(), {});
  HttpClient client(address_of(server));
  EXPECT_EQ(client.get("/echo").body, "");
  EXPECT_EQ(client.get("/echo?since=12").body, "since=12;");
  EXPECT_EQ(client.get("/echo?b=%3Cb%3E&a=1+2&a").body, "a=1 2;a=;b=<b>;");
  EXPECT_EQ(client.get(str("http://", address_of(server), "/echo?since=3")).body, "since=3;");
}

TEST(HttpServer, TellsBrowsersWhatAPageMayDo) {
  const HttpServer server("127.0.0.1", 0, pages(), {});
  HttpClient client(address_of(server));
  for (const char* path : {"/metrics", "/none", "/broken"}) {
    const auto headers = client.get(path).headers;
    const std::string policy = headers.at("content-security-policy");
    for (const char* rule : {"default-src 'none'", "script-src 'self'", "connect-src 'self'",
                             "frame-ancestors 'none'"})
      EXPECT_NE(policy.find(rule), std::string::npos) << path << policy;
    EXPECT_EQ(policy.find("unsafe"), std::string::npos);
    EXPECT_EQ(headers.at("x-content-type-options"), "nosniff") << path;
    EXPECT_EQ(headers.at("referrer-policy"), "no-referrer") << path;
    EXPECT_EQ(headers.at("cache-control"), "no-store") << path;
  }
}

TEST(HttpServer, AConnectionIsKeptUnlessTheClientEndsIt) {
  const HttpServer server("127.0.0.1", 0, pages(), {});
  HttpClient client(address_of(server));
  EXPECT_EQ(client.get("/metrics").status, 200);
  client.send("GET /metrics HTTP/1.1\r\n\r\nGET /none HTTP/1.1\r\n\r\n");  // two at once
  EXPECT_EQ(client.receive().status, 200);
  EXPECT_EQ(client.receive().status, 404);
  EXPECT_EQ(client.get("/metrics", "Connection: close\r\n").headers.at("connection"), "close");
  EXPECT_TRUE(client.closed_by_server());
  HttpClient old(address_of(server));
  old.send("GET /metrics HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.receive().status, 200);
  EXPECT_TRUE(old.closed_by_server());
}

TEST(HttpServer, AnswersAtOnceWhatArrivesTogether) {
  const HttpServer server("127.0.0.1", 0, pages(), {});
  HttpClient client(address_of(server));
  std::string requests;
  for (int i = 0; i < 5; ++i) requests += str("GET /echo?number=", i, " HTTP/1.1\r\n\r\n");
  const auto begin = std::chrono::steady_clock::now();
  client.send(requests);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(client.receive().body, str("number=", i, ";"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kAtOnce);
  client.send("GET /large HTTP/1.1\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n");
  EXPECT_EQ(client.receive().body.size(), large_body().size());
  EXPECT_EQ(client.receive().body.size(), 1000u) << "after a response that does not leave at once";
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2 * kAtOnce);
}

TEST(HttpServer, CompressesForWhoAcceptsIt) {
  const HttpServer server("127.0.0.1", 0, pages(), {});
  HttpClient client(address_of(server));
  const Reply page = client.get("/metrics", "Accept-Encoding: gzip\r\n");
  EXPECT_EQ(page.headers.at("content-encoding"), "gzip");
  EXPECT_LT(page.body.size(), 100u);
  EXPECT_EQ(inflated(page.body), std::string(1000, 'm'));
  EXPECT_FALSE(client.get("/metrics").headers.contains("content-encoding"));
  for (const char* accepted :
       {"gzip, deflate, br, zstd", "br , gzip;q=0.1", "gzip; q=1", "deflate,gzip"}) {
    const Reply reply = client.get("/metrics", str("Accept-Encoding: ", accepted, "\r\n"));
    ASSERT_TRUE(reply.headers.contains("content-encoding")) << accepted;
    EXPECT_EQ(reply.headers.at("content-encoding"), "gzip") << accepted;
  }
  for (const char* refused : {"br", "gzip;q=0", "gzip; q=0.0, identity", "", ",", "identity"}) {
    const Reply reply = client.get("/metrics", str("Accept-Encoding: ", refused, "\r\n"));
    EXPECT_FALSE(reply.headers.contains("content-encoding")) << refused;
  }
}

TEST(HttpServer, ListensOnIpv6) {
  if (!has_ipv6()) {
    EXPECT_THROW(HttpServer("::1", 0, pages(), {}), std::runtime_error);
    return;
  }
  const HttpServer loopback("::1", 0, pages(), {});
  EXPECT_EQ(HttpClient(str("[::1]:", loopback.port())).get("/metrics").status, 200);
  EXPECT_THROW(HttpClient(address_of(loopback)), std::runtime_error);
  const HttpServer everywhere("::", 0, pages(), {});
  EXPECT_EQ(HttpClient(str("[::1]:", everywhere.port())).get("/metrics").status, 200);
  EXPECT_EQ(HttpClient(address_of(everywhere)).get("/metrics").status, 200) << "IPv4 too";
}

TEST(HttpServer, SaysWhyItCannotListen) {
  const HttpServer first("127.0.0.1", 0, pages(), {});
  expect_error<std::runtime_error>([&] { HttpServer("127.0.0.1", first.port(), pages(), {}); },
                                   {"Address already in use"});
  EXPECT_EQ(why_not_served("127.0.0.1", first.port()), "Address already in use");
  EXPECT_EQ(why_not_served("127.0.0.1", 0), "");
  expect_error<std::runtime_error>([&] { HttpServer("192.0.2.1", 0, pages(), {}); },
                                   {"Cannot assign requested address"});
  for (const char* name : {"", "localhost", "[::1]", "127.0.0.1 ", "127.1"}) {
    expect_error<std::runtime_error>([&] { HttpServer(name, 0, pages(), {}); },
                                     {"it is not an IP address"});
  }
}

TEST(HttpServer, APortIsFreeAgainAfterTheServer) {
  int port = 0;
  for (int i = 0; i < 3; ++i) {
    const HttpServer server("127.0.0.1", port, pages(), {});
    port = server.port();
    EXPECT_EQ(HttpClient(address_of(server)).get("/metrics").status, 200);
  }
}

TEST(HttpServer, AsksForThePassword) {
  const dtrain::testing::TempDir folder;
  std::ofstream(folder / "auth") << "Aladdin:open sesame\n";
  ASSERT_EQ(::chmod((folder / "auth").c_str(), 0600), 0);
  const HttpServer server("127.0.0.1", 0, pages(), BasicAuth(folder / "auth"));
  HttpClient client(address_of(server));
  for (const char* headers :
       {"", "Authorization: Basic\r\n", "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZg==\r\n"}) {
    for (const char* path : {"/metrics", "/none"}) {
      const Reply refused = client.get(path, headers);
      EXPECT_EQ(refused.status, 401) << path << headers;
      EXPECT_EQ(refused.headers.at("www-authenticate"),
                "Basic realm=\"dtrain\", charset=\"UTF-8\"");
      EXPECT_EQ(refused.body, "");
    }
  }
  const char* right = "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n";
  EXPECT_EQ(client.get("/metrics", right).status, 200);
  EXPECT_EQ(client.get("/none", right).status, 404);
  EXPECT_EQ(HttpClient(address_of(server)).get("/metrics", "", "POST").status, 401);
}

TEST(HttpServer, ServesManyClientsAtTheSameTime) {
  const HttpServer server("127.0.0.1", 0, pages(), {});
  std::atomic<int> right{0};
  std::vector<std::jthread> clients;
  for (int i = 0; i < 12; ++i) {
    clients.emplace_back([&] {
      for (int scrape = 0; scrape < 10; ++scrape) {
        right += HttpClient(address_of(server)).get("/metrics").body.size() == 1000;
      }
    });
  }
  clients.clear();
  EXPECT_EQ(right, 120);
}

// Idle ones, ones that send a request byte by byte, and ones that do not read.
TEST(HttpServer, SlowClientsDoNotHoldTheOthersUp) {
  const HttpServer server("127.0.0.1", 0, pages(), {});
  std::vector<std::unique_ptr<HttpClient>> slow;
  for (int i = 0; i < 200; ++i) slow.push_back(std::make_unique<HttpClient>(address_of(server)));
  for (size_t i = 0; i < 20; ++i) slow[i]->send("GET /metr");
  for (size_t i = 20; i < 25; ++i) slow[i]->send("GET /large HTTP/1.1\r\n\r\n");
  // Until the large answers are made, which takes seconds with ThreadSanitizer.
  EXPECT_EQ(HttpClient(address_of(server)).get("/metrics").status, 200);
  const auto before = std::chrono::steady_clock::now();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(HttpClient(address_of(server)).get("/metrics").status, 200);
  EXPECT_LT(std::chrono::steady_clock::now() - before, kAtOnce);
  slow[0]->send("ics HTTP/1.1\r\n\r\n");
  EXPECT_EQ(slow[0]->receive().status, 200) << "a request may arrive in pieces";
  EXPECT_TRUE(slow.back()->closed_by_server());
}

// The server of this process has 100 places, a quarter of its file descriptors, while this exists.
class HundredPlaces {
 public:
  HundredPlaces() {
    if (::getrlimit(RLIMIT_NOFILE, &before_) != 0)
      throw std::runtime_error("no limit of file descriptors");
    const rlimit few{400, before_.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &few) != 0) throw std::runtime_error("the limit cannot be set");
  }
  ~HundredPlaces() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  HundredPlaces(const HundredPlaces&) = delete;
  HundredPlaces& operator=(const HundredPlaces&) = delete;

 private:
  rlimit before_{};
};

std::vector<std::unique_ptr<HttpClient>> connected(const HttpServer& server, int count) {
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < count; ++i)
    clients.push_back(std::make_unique<HttpClient>(address_of(server)));
  return clients;
}

TEST(HttpServer, AnswersMoreClientsThanItHasPlaces) {
  const HundredPlaces places;
  const HttpServer server("127.0.0.1", 0, pages(), {});
  const auto begin = std::chrono::steady_clock::now();
  const auto clients = connected(server, 250);
  for (const auto& client : clients) client->send("GET /metrics HTTP/1.1\r\n\r\n");
  for (const auto& client : clients) EXPECT_EQ(client->receive().body.size(), 1000u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kAtOnce)
      << "no client waits for another client's deadline";
}

TEST(HttpServer, AnIdleConnectionGivesItsPlaceToANewClient) {
  const HundredPlaces places;
  const HttpServer server("127.0.0.1", 0, pages(), {});
  const auto idle = connected(server, 3);
  for (const auto& client : idle) EXPECT_EQ(client->get("/metrics").status, 200);
  const auto others = connected(server, 97);
  others[0]->send("GET /metr");
  others[1]->send("GET /large HTTP/1.1\r\n\r\n");
  const auto begin = std::chrono::steady_clock::now();
  const Reply reply = HttpClient(address_of(server)).get("/metrics");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at("connection"), "close") << "others may wait for its place";
  EXPECT_EQ(idle[2]->get("/metrics").status, 200) << "it was not the longest idle";
  EXPECT_TRUE(idle[0]->closed_by_server());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kAtOnce);
  others[0]->send("ics HTTP/1.1\r\n\r\n");
  EXPECT_EQ(others[0]->receive().status, 200) << "it was in the middle of a request";
  EXPECT_EQ(others[1]->receive().body.size(), large_body().size())
      << "it was in the middle of a response";
  EXPECT_EQ(others[2]->get("/metrics").status, 200) << "it had not asked yet";
}

// Those without a request hold their places for two seconds, and those with half a request for ten.
TEST(HttpServer, SilentClientsGiveTheirPlacesUpAtTheirDeadline) {
  const HundredPlaces places;
  const HttpServer server("127.0.0.1", 0, pages(), {});
  const auto silent = connected(server, 100);
  for (size_t i = 0; i < 50; ++i) silent[i]->send("GET /metr");
  const auto begin = std::chrono::steady_clock::now();
  const auto waiting = connected(server, 20);
  for (const auto& client : waiting) client->send("GET /metrics HTTP/1.1\r\n\r\n");
  for (const auto& client : waiting) EXPECT_EQ(client->receive().status, 200);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 3 * kAtOnce);
  for (size_t i = 50; i < 100; ++i) EXPECT_TRUE(silent[i]->closed_by_server());
}

// The thread of the server sleeps while it waits for a place.
TEST(HttpServer, WaitsForAPlaceWithoutUsingACore) {
  const HundredPlaces places;
  const HttpServer server("127.0.0.1", 0, pages(), {});
  const auto silent = connected(server, 100);
  HttpClient waiting(address_of(server));
  waiting.send("GET /metrics HTTP/1.1\r\n\r\n");
  const std::clock_t before = std::clock();
  EXPECT_EQ(waiting.receive().status, 200);
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.5) << "in two seconds";
}

TEST(HttpServer, ServesRequestsInTheFormForProxies) {
  const HttpServer server("127.0.0.1", 0, pages(), {});
  HttpClient client(address_of(server));
  EXPECT_EQ(client.get("http://127.0.0.1/metrics").status, 200);
  EXPECT_EQ(client.get(str("HTTP://", address_of(server), "/metrics?name=x")).status, 200);
  EXPECT_EQ(client.get("http://127.0.0.1").status, 404);
  EXPECT_EQ(client.get("http://127.0.0.1/none").status, 404);
}

TEST(HttpServer, EndsAtOnceWhateverItsClientsDo) {
  std::latch answered(1);
  std::vector<Page> served = pages();
  served.push_back({"/unread", "text/plain", [&](const Query&) {
                      answered.count_down();
                      return large_body();
                    }});
  auto server = std::make_unique<HttpServer>("127.0.0.1", 0, std::move(served), std::nullopt);
  HttpClient kept(address_of(*server)), half(address_of(*server)), unread(address_of(*server));
  EXPECT_EQ(kept.get("/metrics").status, 200);
  half.send("GET /metr");
  unread.send("GET /unread HTTP/1.1\r\n\r\n");
  std::vector<std::unique_ptr<HttpClient>> waiting;  // more than there are threads
  for (int i = 0; i < 8; ++i) waiting.push_back(std::make_unique<HttpClient>(address_of(*server)));
  answered.wait();  // with more than the connection takes
  const auto before = std::chrono::steady_clock::now();
  server.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - before, kAtOnce);
  EXPECT_TRUE(kept.closed_by_server());
}

TEST(HttpServer, ABrokenClientDoesNotEndTheProcess) {
  const HttpServer server("127.0.0.1", 0, pages(), {});
  const auto handler = std::signal(SIGPIPE, SIG_DFL);
  for (int i = 0; i < 20; ++i) {
    HttpClient client(address_of(server));
    client.send("GET /large HTTP/1.1\r\n\r\n");
    if (i % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    client.reset();
  }
  EXPECT_EQ(HttpClient(address_of(server)).get("/large").body.size(), large_body().size());
  std::signal(SIGPIPE, handler);
}

TEST(HttpServer, SurvivesWhatIsNoRequest) {
  const HttpServer server("127.0.0.1", 0, pages(), {});
  const auto many_ranges = [](size_t size) {
    std::string header = "Range: bytes=0-0";
    while (header.size() < size) header += ",0-0";
    return "GET /metrics HTTP/1.1\r\n" + header + "\r\n\r\n";
  };
  for (const std::string& text :
       {std::string("\r\n\r\n"), std::string("\0\x01\xff\r\n\r\n", 7),
        std::string("GET /metrics HTTP/9.9\r\n\r\n"),
        std::string("GET /metrics HTTP/1.1\r\nRange: bytes=9-1\r\n\r\n"), many_ranges(2000),
        many_ranges(7000), "GET /" + std::string(100000, 'a') + " HTTP/1.1\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nX: " + std::string(1 << 20, 'a') + "\r\n\r\n",
        std::string("GET /metrics HTTP/1.1\r\nContent-Length: 18\r\n\r\nGET / HTTP/1.1\r\n\r\n")}) {
    HttpClient client(address_of(server));
    client.send(text);
    try {
      while (true) client.receive();
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "the server closed the connection");
    }
  }
  EXPECT_EQ(HttpClient(address_of(server)).get("/broken").status, 500);
  EXPECT_EQ(HttpClient(address_of(server)).get("/metrics").status, 200);
}

// Threads of other libraries must receive the stacks that they ask for.
TEST(HttpServer, LeavesTheStacksOfThreadsAlone) {
  const HttpServer server("127.0.0.1", 0, pages(), {});
  pthread_attr_t attributes;
  ASSERT_EQ(::pthread_attr_init(&attributes), 0);
  size_t size = 0;
  EXPECT_EQ(::pthread_attr_setstacksize(&attributes, 102400), 0);
  EXPECT_EQ(::pthread_attr_getstacksize(&attributes, &size), 0);
  EXPECT_EQ(size, 102400u);
  ::pthread_attr_destroy(&attributes);
}

}  // namespace
}  // namespace dtrain::monitoring
