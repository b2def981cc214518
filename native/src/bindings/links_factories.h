// SPDX-License-Identifier: Apache-2.0
// The networks for data between hosts, as the engine's options take them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/layout.h"
#include "transport/links.h"
#include "transport/tcp/tls/tls_session.h"
#include "transport/transport.h"

namespace ringtune {

using LinksFactory = std::function<std::unique_ptr<Links>(Transport&, const Layout&)>;

// Takes the sockets over once the factory is called.
LinksFactory tcp_links_factory(std::vector<int> pids, std::vector<int> data_fds, int64_t timeout_ns, TlsSessions tls);

// Loads the MPI transport's plugin and checks that it can be used; `communicator` is a Fortran handle.
Status mpi_links_factory(const std::string& plugin, int communicator, std::vector<int> pids, int64_t timeout_ns,
                         LinksFactory& factory);

}  // namespace ringtune
