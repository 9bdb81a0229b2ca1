"""What passes between the server and our extension beside the protocol of language servers.

The same shapes are in client-vscode/src/protocol.ts; a test compares the two. Lines count from 0.
Nothing of it is sent to a client that has not said, in capabilities.experimental.profileNeuron, that it takes it.
"""

from __future__ import annotations

from dataclasses import dataclass

TRUST = "profileNeuron/trust"
INTERPRETERS = "profileNeuron/interpreters"
HEAT = "profileNeuron/heat"
STATUS = "profileNeuron/status"
SHOW_REPORT = "profileNeuron/showReport"
REPORT = "profileNeuron/report"
OPEN_CAPTURE = "profileNeuron/openCapture"
OPEN_PAGE = "profileNeuron/openPage"
