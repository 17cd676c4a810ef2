"""A typical training loop for one GPU: automatic mixed precision, pinned memory, a checkpoint."""

import sys
from pathlib import Path

import torch
import torch.backends.cudnn as cudnn
import torch.nn as nn
import torch.nn.functional as F  # noqa: N812
from torch.cuda import amp  # noqa: F401 - as many programs have it
from torch.utils.data import DataLoader, TensorDataset

use_cuda = torch.cuda.is_available()
torch.manual_seed(1)
device = torch.device("cuda" if use_cuda else "cpu")
cudnn.benchmark = True
torch.backends.cuda.matmul.allow_tf32 = True
inputs = torch.randn(256, 1, 8, 8)
targets = (inputs.mean((1, 2, 3)) > 0).long()
loader = DataLoader(TensorDataset(inputs, targets), batch_size=64, shuffle=True, pin_memory=use_cuda)


def network() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 2)).to(device)


model = network()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cuda", enabled=use_cuda)
losses = []
for _ in range(3):
    for data, target in loader:
        data, target = data.to(device, non_blocking=True), target.to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device_type=device.type, dtype=torch.float16, enabled=use_cuda):
            output = model(data)
            loss = F.cross_entropy(output, target)
        assert (output.dtype, output.device) == (torch.float16, torch.device("cuda:0"))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
assert losses[-1] < losses[0], losses

path = Path(sys.argv[1]) / "model.pt"
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
found = torch.load(path, map_location=device)
assert found["model"]["4.weight"].is_cuda
assert torch.load(path, map_location={"cuda:0": "cpu"})["model"]["4.weight"].device.type == "cpu"
restored = network()
restored.load_state_dict(found["model"])
optimizer.load_state_dict(found["optimizer"])
assert torch.equal(model.eval()(inputs[:4].to(device)), restored.eval()(inputs[:4].to(device)))
assert torch.cuda.max_memory_allocated() > 0
print("trained on", device, torch.cuda.get_device_name(0))
