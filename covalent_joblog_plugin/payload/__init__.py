# SPDX-License-Identifier: Apache-2.0
"""The function and its arguments on their way to the cluster, and the result on its way back."""
