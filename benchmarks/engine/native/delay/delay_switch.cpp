// SPDX-License-Identifier: Apache-2.0
// A switch whose links have a delay and a rate: each host's interface is a TUN device, and this program carries packets
// between them. It stands in for netem, which small kernels lack.
//
// A packet leaves its host's link when the ones before it have, at the link's rate; after the delay it passes the link
// of the host that it is for, likewise. A share of the packets, drawn at random, is lost between the two. As root:
// delay_switch INTERFACE DELAY_US BITS_PER_S LOST_SHARE PID...; the host of the i-th process, counted from 1, has an
// address that ends in .i. It says "ready" when the devices are there, and ends with its standard input.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace {

constexpr int64_t kNsPerS = 1'000'000'000;
constexpr size_t kMaxPacketBytes = 1 << 16;
constexpr size_t kEthernetBytes = 14;      // header that a shaped link counts beside the packet
constexpr int64_t kQueueNs = kNsPerS / 5;  // longest wait for a link before packets are dropped
constexpr size_t kLastAddressByte = 19;    // place of the destination's last byte in IPv4's header
constexpr int kPacketsPerTurn = 64;

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kNsPerS + now.tv_nsec;
}

[[noreturn]] void fail(const std::string& what) {
  std::perror(what.c_str());
  std::exit(1);
}

// Makes the device in the network of a process.
int open_device(const std::string& pid, const char* interface) {
  const int network = open(("/proc/" + pid + "/ns/net").c_str(), O_RDONLY | O_CLOEXEC);
  if (network < 0 || setns(network, CLONE_NEWNET) != 0) fail("the network of process " + pid);
  close(network);
  const int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  std::strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
  if (device < 0 || ioctl(device, TUNSETIFF, &request) != 0) fail("/dev/net/tun");
  return device;
}

// A direction of a host's link.
class Wire {
 public:
  explicit Wire(double bits_per_s) : ns_per_byte_(8e9 / bits_per_s) {}

  // When a packet that is there at a time is through.
  int64_t pass(int64_t at_ns, size_t bytes) {
    free_ns_ =
        std::max(free_ns_, at_ns) + static_cast<int64_t>(static_cast<double>(bytes + kEthernetBytes) * ns_per_byte_);
    return free_ns_;
  }
  bool is_full(int64_t at_ns) const { return free_ns_ - at_ns > kQueueNs; }

 private:
  double ns_per_byte_;
  int64_t free_ns_ = 0;
};

struct Packet {
  int64_t due_ns;
  size_t to;
  bool is_at_switch;  // it has still to pass the receiver's link
  std::vector<unsigned char> bytes;

  bool operator>(const Packet& other) const { return due_ns > other.due_ns; }
};

class Switch {
 public:
  Switch(std::vector<int> devices, int64_t delay_ns, double bits_per_s, double lost_share)
      : devices_(std::move(devices)),
        delay_ns_(delay_ns),
        is_lost_(lost_share),
        sending_(devices_.size(), Wire(bits_per_s)),
        receiving_(devices_.size(), Wire(bits_per_s)) {}

  void run() {
    std::vector<pollfd> polled;
    for (const int device : devices_) {
      polled.push_back({device, POLLIN, 0});
    }
    polled.push_back({STDIN_FILENO, POLLIN, 0});
    while (true) {
      deliver(now_ns());
      wait(polled);
      if (polled.back().revents != 0) return;
      for (size_t from = 0; from < devices_.size(); ++from) {
        if (polled[from].revents != 0) take_from(from);
      }
    }
  }

 private:
  void wait(std::vector<pollfd>& polled) const {
    const int64_t left_ns = under_way_.empty() ? kNsPerS : std::max<int64_t>(0, under_way_.top().due_ns - now_ns());
    const timespec left{left_ns / kNsPerS, left_ns % kNsPerS};
    ppoll(polled.data(), polled.size(), &left, nullptr);
  }

  void take_from(size_t from) {
    std::array<unsigned char, kMaxPacketBytes> packet{};
    for (int taken = 0; taken < kPacketsPerTurn; ++taken) {
      const ssize_t size = read(devices_[from], packet.data(), packet.size());
      if (size <= 0) return;
      const auto bytes = static_cast<size_t>(size);
      const bool is_ip = bytes > kLastAddressByte && packet[0] >> 4 == 4;
      const size_t to = is_ip ? packet[kLastAddressByte] - size_t{1} : devices_.size();
      const int64_t now = now_ns();
      if (to >= devices_.size() || sending_[from].is_full(now)) continue;
      const int64_t there_ns = sending_[from].pass(now, bytes) + delay_ns_;
      if (!is_lost_(random_)) under_way_.push({there_ns, to, true, {packet.data(), packet.data() + bytes}});
    }
  }

  void deliver(int64_t now) {
    while (!under_way_.empty() && under_way_.top().due_ns <= now) {
      Packet packet = under_way_.top();
      under_way_.pop();
      if (packet.is_at_switch) {
        if (receiving_[packet.to].is_full(packet.due_ns)) continue;
        packet.due_ns = receiving_[packet.to].pass(packet.due_ns, packet.bytes.size());
        packet.is_at_switch = false;
        under_way_.push(std::move(packet));
      } else if (write(devices_[packet.to], packet.bytes.data(), packet.bytes.size()) < 0) {
        continue;  // the host takes no packets any more
      }
    }
  }

  std::vector<int> devices_;
  int64_t delay_ns_;
  std::bernoulli_distribution is_lost_;
  std::mt19937 random_;
  std::vector<Wire> sending_;
  std::vector<Wire> receiving_;
  std::priority_queue<Packet, std::vector<Packet>, std::greater<>> under_way_;
};

}  // namespace

int main(int count, char** arguments) {
  if (count < 7) {
    std::fprintf(stderr, "usage: delay_switch INTERFACE DELAY_US BITS_PER_S LOST_SHARE PID PID...\n");
    return 2;
  }
  prctl(PR_SET_TIMERSLACK, 1);
  std::vector<int> devices;
  for (int i = 5; i < count; ++i) {
    devices.push_back(open_device(arguments[i], arguments[1]));
  }
  std::puts("ready");
  std::fflush(stdout);
  Switch(std::move(devices), std::atoll(arguments[2]) * 1000, std::atof(arguments[3]), std::atof(arguments[4])).run();
}
