// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "bindings/links_factories.h"
#include "transport/tcp/tcp_links.h"

namespace ringtune {

LinksFactory tcp_links_factory(std::vector<int> pids, std::vector<int> data_fds, int64_t timeout_ns, TlsSessions tls) {
  return [pids = std::move(pids), data_fds = std::move(data_fds), timeout_ns, tls = std::move(tls)](
             Transport& transport, const Layout& layout) {
    return std::make_unique<TcpLinks>(transport, layout, pids, data_fds, timeout_ns, tls);
  };
}

}  // namespace ringtune
