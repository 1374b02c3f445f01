# SPDX-License-Identifier: Apache-2.0
"""Plain data every room shares; imports nothing of ours."""
