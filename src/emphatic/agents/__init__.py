"""Policies, and agents that improve them."""

from .policies import Softmax as Softmax
