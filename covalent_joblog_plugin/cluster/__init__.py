# SPDX-License-Identifier: Apache-2.0
"""Talks to clusters; knows nothing of Covalent."""
