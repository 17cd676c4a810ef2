"""The overhead of ``rustdev.as_cuda``: small programs for "cuda", compared with the same programs for "rustdev".

    python benches/runtime/as_cuda.py [--rounds N]

The programs are reinforcement learning with networks of two small layers, whose time is mostly call overhead: Q-learning from
replayed transitions (DQN) and proximal policy optimization (PPO). Blocks of both variants alternate in one process, and both must
end with the same parameters. Prints the processor and, for each program, the median over the rounds of the ratio of their times.
"""

import argparse
import contextlib
import random
import statistics
import sys
import time
from collections.abc import Callable

import rustdev
import torch
from torch import nn
from torch.distributions import Categorical

STATE, ACTIONS = 4, 2
DQN_STEPS, DQN_BATCH = 100, 128
PPO_ENVIRONMENTS, PPO_STEPS, PPO_EPOCHS, PPO_BATCHES = 4, 32, 2, 4


class Pole:
    """The cart-pole environment in plain Python: the part of a program outside its network."""

    def __init__(self) -> None:
        self.state = [0.0] * STATE

    def step(self, action: int) -> tuple[list[float], float, bool]:
        """Return the next state, the reward and whether the pole fell, after which the environment is reset."""
        place, speed, angle, turn = self.state
        force = 0.2 if action else -0.2
        self.state = [place + 0.02 * speed, speed + force - 0.01 * angle, angle + 0.02 * turn, turn - 1.5 * force + 0.3 * angle]
        fell = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2
        if fell:
            self.state = [random.uniform(-0.05, 0.05) for _ in range(STATE)]
        return list(self.state), 1.0, fell


def network(outputs: int) -> nn.Sequential:
    """Return a network of two hidden layers."""
    return nn.Sequential(nn.Linear(STATE, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


def dqn(device: str) -> nn.Module:
    """Train a network by Q-learning and return it."""
    online, target = network(ACTIONS).to(device), network(ACTIONS).to(device)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
    pole, replayed = Pole(), []
    state = list(pole.state)
    for step in range(DQN_STEPS):
        with torch.no_grad():
            action = int(online(torch.tensor([state], device=device)).argmax(1).item())
        following, reward, fell = pole.step(action)
        replayed.append((state, action, reward, following, float(fell)))
        state = following
        drawn = random.choices(replayed, k=DQN_BATCH)
        states, actions, rewards, nexts, ends = (torch.tensor(column, device=device) for column in zip(*drawn, strict=True))
        with torch.no_grad():
            wanted = rewards + 0.99 * target(nexts).amax(1) * (1 - ends)
        loss = nn.functional.mse_loss(online(states).gather(1, actions[:, None]).squeeze(1), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            for old, new in zip(target.parameters(), online.parameters(), strict=True):
                old.data.copy_(0.5 * new.data + 0.5 * old.data)
    return online


def ppo(device: str) -> nn.Module:
    """Train an actor and a critic by proximal policy optimization and return them."""
    model = nn.ModuleList([network(ACTIONS), network(1)]).to(device)
    actor, critic = model
    optimizer = torch.optim.Adam(model.parameters(), lr=2.5e-4, eps=1e-5)
    poles = [Pole() for _ in range(PPO_ENVIRONMENTS)]
    shape = (PPO_STEPS, PPO_ENVIRONMENTS)
    states = torch.zeros((*shape, STATE), device=device)
    actions, logs, rewards, ends, values = (torch.zeros(shape, device=device) for _ in range(5))
    now = torch.tensor([pole.state for pole in poles], device=device)
    for step in range(PPO_STEPS):
        states[step] = now
        with torch.no_grad():
            policy = Categorical(logits=actor(now))
            # Sampled on the host, so that both variants use the same random numbers.
            action = torch.multinomial(policy.probs.cpu(), 1).squeeze(1).to(device)
            values[step] = critic(now).flatten()
            logs[step] = policy.log_prob(action)
        actions[step] = action
        outcomes = [pole.step(number) for pole, number in zip(poles, action.cpu().tolist(), strict=True)]
        following, reward, fell = zip(*outcomes, strict=True)
        rewards[step], ends[step] = torch.tensor(reward, device=device), torch.tensor(fell, device=device).float()
        now = torch.tensor(following, device=device)
    with torch.no_grad():
        advantages, last, ahead = torch.zeros_like(rewards), 0, critic(now).flatten()
        for step in reversed(range(PPO_STEPS)):
            remains = 1 - ends[step]
            last = rewards[step] + 0.99 * ahead * remains - values[step] + 0.99 * 0.95 * remains * last
            advantages[step], ahead = last, values[step]
        returns = advantages + values
    flat = [tensor.flatten(0, 1) for tensor in (states, actions, logs, advantages, returns)]
    count = PPO_STEPS * PPO_ENVIRONMENTS
    for _ in range(PPO_EPOCHS):
        for chosen in torch.randperm(count).to(device).chunk(PPO_BATCHES):
            seen, taken, before, advantage, wanted = (tensor[chosen] for tensor in flat)
            policy = Categorical(logits=actor(seen))
            ratio = (policy.log_prob(taken) - before).exp()
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            gain = torch.max(-advantage * ratio, -advantage * ratio.clamp(0.8, 1.2)).mean()
            loss = gain - 0.01 * policy.entropy().mean() + 0.5 * (critic(seen).flatten() - wanted).square().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
    return model


def block(program: Callable[[str], nn.Module], device: str) -> tuple[float, list[torch.Tensor]]:
    """Return the seconds of a program, and its final parameters."""
    random.seed(0)
    torch.manual_seed(0)
    with rustdev.as_cuda() if device == "cuda" else contextlib.nullcontext():
        start = time.perf_counter()
        model = program(device)
        torch.accelerator.synchronize()
        seconds = time.perf_counter() - start
        return seconds, [parameter.detach().cpu() for parameter in model.parameters()]


def main() -> None:
    """Read the command line, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    print(f"{rustdev.get_device_name()}, {rustdev.get_num_threads()} threads")
    for program in (dqn, ppo):
        found = []
        for turn in range(rounds + 1):
            (native, own), (scope, others) = (block(program, device) for device in ("rustdev", "cuda"))
            if not all(map(torch.equal, own, others)):
                sys.exit(f"{program.__name__}: the parameters differ")
            if turn:  # the first round is a warm-up
                found.append(scope / native)
        low, middle, high = statistics.quantiles(found, n=4)
        print(f"{program.__name__:4} {middle:.3f} (quartiles {low:.3f} and {high:.3f}); native {1e3 * native:.0f} ms")


if __name__ == "__main__":
    main()
