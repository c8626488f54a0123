"""Named problems, problems from Gymnasium, and problems in files."""

from .baird import baird as baird
from .boyan import boyan as boyan
from .collision import collision as collision
from .counterexample import ACTOR_FEATURES as ACTOR_FEATURES, counterexample as counterexample
from .file import digest as digest, load as load, save as save
from .four_rooms import four_rooms as four_rooms
from .garnet import garnet as garnet
from .grid import grid as grid
from .gymnasium import from_gymnasium as from_gymnasium, gymnasium as gymnasium
from .hallway import hallway as hallway, hallway_actor_features as hallway_actor_features
from .kolter import kolter as kolter
from .named import builder as builder, make as make, NAMED as NAMED
from .random_walk import random_walk as random_walk
from .tsitsiklis_van_roy import tsitsiklis_van_roy as tsitsiklis_van_roy
from .two_circle import two_circle as two_circle
from .two_state import two_state as two_state
