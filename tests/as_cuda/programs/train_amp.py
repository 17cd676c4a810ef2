"""A typical training loop for one GPU: automatic mixed precision, pinned memory, a checkpoint."""

import argparse
import tempfile
from pathlib import Path

import torch
import torch.backends.cudnn as cudnn
import torch.nn as nn
import torch.nn.functional as F  # noqa: N812
from torch.cuda import amp  # noqa: F401 - as many programs have it
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--no-cuda", action="store_true")
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()

use_cuda = not args.no_cuda and torch.cuda.is_available()
torch.manual_seed(1)
device = torch.device("cuda" if use_cuda else "cpu")
cudnn.benchmark = True
torch.backends.cuda.matmul.allow_tf32 = True
options = {"num_workers": 0, "pin_memory": True} if use_cuda else {}

inputs = torch.randn(256, 1, 8, 8)
targets = (inputs.mean((1, 2, 3)) > 0).long()
loader = DataLoader(TensorDataset(inputs, targets), batch_size=64, shuffle=True, **options)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8 * 36, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(F.relu(self.norm(self.conv(x))).flatten(1))


model = Net().to(device)
assert next(model.parameters()).is_cuda == use_cuda
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cuda", enabled=use_cuda)
losses = []
for _epoch in range(args.epochs):
    model.train()
    for data, target in loader:
        data, target = data.to(device, non_blocking=True), target.to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device_type=device.type, dtype=torch.float16, enabled=use_cuda):
            output = model(data)
            loss = F.cross_entropy(output, target)
        if use_cuda:
            assert output.dtype == torch.float16
            assert output.device == torch.device("cuda:0")
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
assert losses[-1] < losses[0], losses

with tempfile.TemporaryDirectory() as directory:
    path = Path(directory) / "model.pt"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    found = torch.load(path, map_location=device)
    assert found["model"]["fc.weight"].device.type == device.type
    restored = Net().to(device)
    restored.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    assert torch.load(path, map_location="cpu")["model"]["fc.weight"].device.type == "cpu"
    assert torch.load(path, map_location={"cuda:0": "cpu"})["model"]["fc.weight"].device.type == "cpu"
    model.eval()
    restored.eval()
    x = inputs[:4].to(device)
    assert torch.equal(model(x), restored(x))
if use_cuda:
    assert torch.cuda.max_memory_allocated() > 0
print("trained on", device, torch.cuda.get_device_name(0) if use_cuda else "")
