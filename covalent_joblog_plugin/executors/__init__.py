# SPDX-License-Identifier: Apache-2.0
"""Covalent's entry points, one class each."""

# Covalent loads these modules while it is imported itself. Whoever imports one of them first must get there
# through Covalent, or Covalent would find the module half made.
import covalent  # noqa: F401
