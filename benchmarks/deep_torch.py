"""COF-PAC as one would write it in PyTorch: a loop over iterations, for one run.

The networks, losses, optimiser and replay are those of `emphatic.deep.agents.actor_critic`.
Experience is recorded beforehand, and there is no evaluation: what is timed is learning alone.
"""

import copy
import time
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]
from torch.nn.functional import softplus  # pyright: ignore[reportMissingImports]

DISCOUNT = 0.99


def sequential(layers: Any, *last: Any) -> Any:
    """A network with these weights and biases."""
    parts = []
    for weight, bias in layers:
        linear = nn.Linear(*weight.shape)
        linear.weight.data = torch.tensor(np.array(weight).T.copy())
        linear.bias.data = torch.tensor(np.array(bias))
        parts += [linear, nn.ReLU()]
    return nn.Sequential(*parts[:-1], *last)


class CofPac:
    """The agent: from the parameters of ours, and experience with the axes (iteration, worker)."""

    def __init__(
        self,
        params: Any,
        experience: Any,
        foreach: bool = False,
        num_sampled: int = 10,
        warm_up: int = 100,
        target_every: int = 200,
    ):
        layers, sigma = params["policy"]
        self.mean, self.v = sequential(layers, nn.Tanh()), sequential(params["v"])
        self.m = sequential(params["m"], nn.Softplus())
        self.sigma = nn.Parameter(torch.tensor(np.array(sigma)))
        self.v_target, self.m_target = copy.deepcopy(self.v), copy.deepcopy(self.m)
        self.critics = [*self.v.parameters(), *self.m.parameters()]
        everything = [*self.mean.parameters(), self.sigma, *self.critics]
        for parameter in everything:
            parameter.grad = torch.zeros_like(parameter)
        self.optimiser = torch.optim.RMSprop(everything, 1e-3, 0.99, 1e-8, foreach=foreach)
        self.stream = {k: torch.tensor(np.array(leaf)) for k, leaf in experience.items()}
        self.ring = {k: torch.zeros_like(leaf) for k, leaf in self.stream.items()}
        self.num_sampled, self.warm_up, self.target_every = num_sampled, warm_up, target_every

    def distribution(self, observation: Any) -> Any:
        return torch.distributions.Normal(
            self.mean(observation), softplus(self.sigma), validate_args=False
        )

    def descend(self, loss: Any, clipped: bool) -> None:
        # A loss that does not reach a parameter leaves it a gradient of 0: averages decay.
        self.optimiser.zero_grad(set_to_none=False)
        loss.backward()
        if clipped:
            nn.utils.clip_grad_norm_(self.critics, 0.5)
        self.optimiser.step()

    def learn_critics(self, y: dict[str, Any]) -> None:
        with torch.no_grad():
            log_density = self.distribution(y["observation"]).log_prob(y["action"]).sum(-1)
            rho = log_density.exp() / y["behavior"]
            v_next = self.v_target(y["observation_next"]).squeeze(-1)
            back = DISCOUNT * rho * self.m_target(y["observation"]).squeeze(-1)
            goal = y["reward"] + DISCOUNT * y["bootstraps"] * v_next
            emphasis = 1 + y["continues"] * back
        v, m = self.v(y["observation"]).squeeze(-1), self.m(y["successor"]).squeeze(-1)
        loss = 0.5 * rho.clamp(max=1) * (goal - v) ** 2 + 0.5 * (emphasis - m) ** 2
        self.descend(loss.mean(), clipped=True)

    def learn_policy(self, y: dict[str, Any]) -> None:
        distribution = self.distribution(y["observation"])
        log_density = distribution.log_prob(y["action"]).sum(-1)
        with torch.no_grad():
            rho = log_density.exp() / y["behavior"]
            v_next = self.v_target(y["observation_next"]).squeeze(-1)
            v = self.v(y["observation"]).squeeze(-1)
            delta = y["reward"] + DISCOUNT * y["bootstraps"] * v_next - v
            weight = self.m(y["observation"]).squeeze(-1) * rho.clamp(max=2) * delta
        loss = -weight * log_density - 0.01 * distribution.entropy().sum(-1)
        self.descend(loss.mean(), clipped=False)

    def iterate(self, t: int, drawn: Any = None) -> None:
        """One iteration; `drawn` are the iterations of the replay to learn from."""
        batch = {name: leaf[t] for name, leaf in self.stream.items()}
        for name, leaf in batch.items():
            self.ring[name][t] = leaf
        if t >= self.warm_up:
            if drawn is None:
                drawn = torch.randint(t + 1, (self.num_sampled,))
            self.learn_critics(
                {name: leaf[drawn].flatten(0, 1) for name, leaf in self.ring.items()}
            )
            self.learn_critics(batch)
            self.learn_policy(batch)
        if (t + 1) % self.target_every == 0:
            self.v_target.load_state_dict(self.v.state_dict())
            self.m_target.load_state_dict(self.m.state_dict())

    def parameters(self) -> list[np.ndarray]:
        """As the leaves of ours: `m`, then `policy`, then `v`."""
        tensors = []
        for network, after in ((self.m, []), (self.mean, [self.sigma]), (self.v, [])):
            for linear in (layer for layer in network if isinstance(layer, nn.Linear)):
                tensors += [linear.weight.T, linear.bias]
            tensors += after
        return [tensor.detach().numpy() for tensor in tensors]


def learn(params: Any, experience: Any, draws: Any, **settings: Any) -> list[np.ndarray]:
    """The parameters after as many iterations as there are draws from the replay."""
    agent = CofPac(params, experience, **settings)
    for t, drawn in enumerate(draws):
        agent.iterate(t, torch.tensor(np.array(drawn)))
    return agent.parameters()


def seconds(params: Any, experience: Any, num: int, threads: int, foreach: bool) -> float:
    """What this many iterations take, after the warm-up and some more."""
    torch.set_num_threads(threads)
    agent = CofPac(params, experience, foreach)
    first = agent.warm_up + 20
    for t in range(first):
        agent.iterate(t)
    begun = time.perf_counter()
    for t in range(first, first + num):
        agent.iterate(t)
    return time.perf_counter() - begun
