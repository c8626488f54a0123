"""Policies, and later the agents that improve them."""

from .policies import Softmax as Softmax
