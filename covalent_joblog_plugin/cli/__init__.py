# SPDX-License-Identifier: Apache-2.0
"""The ``joblog`` command: output of jobs in a terminal, where they are, and what is wrong."""
