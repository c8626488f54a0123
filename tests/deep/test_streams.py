"""Where JAX trains: its devices, as they are asked for."""

import jax
import pytest

from emphatic.cli import main
from emphatic.deep import find_devices


def test_the_devices_are_those_of_jax():
    assert find_devices("auto") == tuple(jax.devices())
    assert find_devices("cpu") == tuple(jax.devices("cpu"))


@pytest.mark.parametrize("command", ["train", "reproduce control", "reproduce all"])
def test_without_a_gpu_networks_are_refused_in_one_line(capsys, monkeypatch, tmp_path, command):
    def devices(kind: str | None = None) -> list[object]:
        if kind == "gpu":
            raise RuntimeError("Unknown backend: 'gpu' requested, but no platforms are present")
        return jax.local_devices()

    monkeypatch.setattr(jax, "devices", devices)
    monkeypatch.setattr("emphatic.cli.figures.settle_device", lambda device: device)
    for module in ("figures", "training"):
        monkeypatch.setattr(f"emphatic.cli.{module}.use_cores", lambda runs: None)
    words = [*command.split(), "--device", "gpu", "--out", str(tmp_path / "out")]
    assert main(words) == 2
    message = "device: JAX finds no GPU here; a GPU needs NVIDIA's driver and the extra 'cuda13'"
    assert capsys.readouterr() == ("", f"emphatic: {message}\n")
    assert not (tmp_path / "out").exists()
