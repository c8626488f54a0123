"""Float64, strict broadcasting, and checked types and shapes, before `emphatic` is imported."""

import jax
from hypothesis import Phase, settings
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
install_import_hook("emphatic", "beartype.beartype")

settings.register_profile(
    "emphatic",
    deadline=None,
    derandomize=True,
    max_examples=25,
    phases=(Phase.reuse, Phase.generate),
)
settings.load_profile("emphatic")
