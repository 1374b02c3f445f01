# SPDX-License-Identifier: Apache-2.0
"""What we add to Covalent's own web server."""
