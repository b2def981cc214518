// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include "bindings/links_factories.h"
#include "transport/mpi/mpi_links.h"

namespace ringtune {

Status mpi_links_factory(const std::string& plugin, int communicator, std::vector<int> pids, int64_t timeout_ns,
                         LinksFactory& factory) {
  auto session = std::make_shared<MpiSession>();
  if (Status s = session->open(plugin, communicator); !s.ok()) return s;
  factory = [session = std::move(session), pids = std::move(pids), timeout_ns](Transport& transport,
                                                                               const Layout& layout) {
    return std::make_unique<MpiLinks>(transport, layout, session, pids, timeout_ns);
  };
  return Status::ok_status();
}

}  // namespace ringtune
