# SPDX-License-Identifier: Apache-2.0
"""Reads what has grown and hands it to the store, one loop for each endpoint."""
