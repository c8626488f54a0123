"""Experiments: described as data, computed in units, kept in a store, compared."""

from . import cluster as cluster, shards as shards, store as store, toml as toml
from .compare import compare as compare
from .completion import complete as complete
from .compute import compute as compute, Estimate as Estimate, estimate as estimate, run as run
from .experiment import (
    Experiment as Experiment,
    Selection as Selection,
    Target as Target,
    Unit as Unit,
)
from .tracking import track_agents as track_agents, TRACKED as TRACKED
