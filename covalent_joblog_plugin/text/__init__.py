# SPDX-License-Identifier: Apache-2.0
"""Bytes as a job wrote them → what people read; pure, no I/O, knows nothing of Covalent."""
