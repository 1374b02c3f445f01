# SPDX-License-Identifier: Apache-2.0
"""The part of the runner that travels in the bundle, there called ``joblog_job``.

Standard library only, for Python 3.8 and later.
"""
