# SPDX-License-Identifier: Apache-2.0
"""Covalent's entry points, one class each."""
