# SPDX-License-Identifier: Apache-2.0
"""Where output is kept: beside Covalent's own node assets."""
