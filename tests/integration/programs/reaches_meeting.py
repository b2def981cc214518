# SPDX-License-Identifier: Apache-2.0
"""Connects to where the ranks are to meet, as a launcher's environment says, and says from where; loads no engine."""

import os
import socket

from ringtune.meeting.rendezvous.address import Address

address = Address.parse(os.environ["RINGTUNE_RENDEZVOUS"])
with socket.create_connection((address.host, address.port), timeout=20) as connection:
    line = f"rank {os.environ['RINGTUNE_RANK']} reached {address.host} from {connection.getsockname()[0]}\n"
    os.write(1, line.encode())
