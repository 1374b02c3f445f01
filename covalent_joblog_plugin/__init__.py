# SPDX-License-Identifier: Apache-2.0
"""Live, byte-exact output of Covalent tasks that run as jobs elsewhere."""
