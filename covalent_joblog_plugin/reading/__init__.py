# SPDX-License-Identifier: Apache-2.0
"""How people read output back: over HTTP, from the server that stores it."""
