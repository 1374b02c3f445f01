# SPDX-License-Identifier: Apache-2.0
"""The figures of this package, each beside a peer measured in the same run."""
