"""The models of the benchmark of real models: those of transformers and torchvision, of usual sizes, with random weights.

Dropout is zero, so that losses can be compared. Nothing is downloaded.
"""

from collections.abc import Callable

import torch
import torchvision
import transformers
from measuring import Task
from torch import Tensor, nn
from torch.nn import functional

transformers.logging.set_verbosity_error()

#: Names of models that need the fallback, and the reason of each.
FALLBACKS: dict[str, str] = {}
#: Tokens of the prompt, and tokens that are added to it.
PROMPT, ADDED = 32, 32


class FirstOutput(nn.Module):
    """A model of transformers as a function of tokens that returns its first output: logits or the last hidden state.

    Args:
        model: Model to call.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the first output for [batch, length] tokens."""
        output: Tensor = self.model(input_ids=tokens, use_cache=False)[0]
        return output


class Encoder(FirstOutput):
    """A model of transformers without a cache of keys and values."""

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the first output for [batch, length] tokens."""
        output: Tensor = self.model(input_ids=tokens)[0]
        return output


def built(kind: str, config: object) -> nn.Module:
    """Return a model of transformers with random weights, whose attention is scaled_dot_product_attention."""
    model: nn.Module = getattr(transformers, kind)._from_config(config, attn_implementation="sdpa")
    return model


def gpt2() -> nn.Module:
    """GPT-2 with 124 million parameters: 12 layers of 768."""
    config = transformers.GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None)
    return built("GPT2LMHeadModel", config)


def llama(layers: int, size: int, intermediate: int, heads: int, shared: int) -> nn.Module:
    """A Llama with 32,000 tokens, of whose heads some share keys and values."""
    config = transformers.LlamaConfig(
        vocab_size=32_000, hidden_size=size, intermediate_size=intermediate, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=shared, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    return built("LlamaForCausalLM", config)


def grouped_llama() -> nn.Module:
    """A Llama with grouped queries, 12 layers of 768: 125 million parameters."""
    return llama(12, 768, 2048, heads=12, shared=4)


def bert() -> Task:
    """BERT-base as a classifier of sequences."""
    config = transformers.BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = Encoder(built("BertForSequenceClassification", config))
    return Task(model, (torch.randint(config.vocab_size, (4, 128)),), torch.randint(2, (4,)))


def language(model: nn.Module, batch: int, length: int) -> Task:
    """Prediction of the next token at each position."""
    tokens = torch.randint(model.config.vocab_size, (batch, length + 1))  # type: ignore[union-attr, arg-type]
    return Task(FirstOutput(model), (tokens[:, :-1].contiguous(),), tokens[:, 1:].contiguous())


def t5() -> Task:
    """The encoder of T5-small, trained towards random hidden states."""
    config = transformers.T5Config(vocab_size=32_128, dropout_rate=0.0)
    model = Encoder(built("T5EncoderModel", config))
    return Task(model, (torch.randint(config.vocab_size, (4, 128)),), torch.randn(4, 128, config.d_model), functional.mse_loss)


def images(model: nn.Module, batch: int) -> Task:
    """Classification of images of 224 x 224, which the statistics of batch norms are those of.

    With the statistics of a new model, zeros and ones, the outputs of a deep network would be 1e-14.
    """
    given = torch.randn(batch, 3, 224, 224)
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    usual = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0
    if norms:
        with torch.no_grad():
            model.train()(given)
    for norm, momentum in zip(norms, usual, strict=True):
        norm.momentum = momentum
    return Task(model, (given,), torch.randint(1000, (batch,)))


def vision_transformer() -> nn.Module:
    """ViT-B/16. torchvision fills its last layer with zeros, which would hide every difference."""
    model: nn.Module = torchvision.models.vit_b_16()
    nn.init.normal_(model.get_submodule("heads.head").get_parameter("weight"), std=0.02)
    return model


TASKS: dict[str, Callable[[], Task]] = {
    "BERT-base, 4 x 128": bert,
    "GPT-2 124M, 2 x 128": lambda: language(gpt2(), 2, 128),
    "Llama 12 x 768, 2 x 256": lambda: language(grouped_llama(), 2, 256),
    "Llama 8 x 512, 2 x 256": lambda: language(llama(8, 512, 1376, heads=8, shared=8), 2, 256),
    "T5-small encoder, 4 x 128": t5,
    "ResNet-50, 4 x 224 x 224": lambda: images(torchvision.models.resnet50(), 4),
    "MobileNetV3-large, 8 x 224 x 224": lambda: images(torchvision.models.mobilenet_v3_large(dropout=0.0), 8),
    "EfficientNet-B0, 4 x 224 x 224": lambda: images(torchvision.models.efficientnet_b0(dropout=0.0, stochastic_depth_prob=0.0), 4),
    # The scale of 1e-6 with which training begins would hide what the blocks compute.
    "ConvNeXt-Tiny, 2 x 224 x 224": lambda: images(torchvision.models.convnext_tiny(stochastic_depth_prob=0.0, layer_scale=0.1), 2),
    "ViT-B/16, 2 x 224 x 224": lambda: images(vision_transformer(), 2),
}
#: Models that write tokens.
WRITERS: dict[str, Callable[[], nn.Module]] = {
    "GPT-2 124M, 32 tokens": gpt2,
    "Llama 12 x 768, 32 tokens": grouped_llama,
}


def make_task(name: str, dtype: torch.dtype = torch.float32, *, training: bool = False) -> Task:
    """Return a task with the same weights and inputs in every process.

    Args:
        name: Name of the task.
        dtype: Type of the weights and of inputs that are not integers.
        training: Whether the model is in training mode, instead of evaluation mode.
    """
    torch.manual_seed(0)
    task = TASKS[name]()
    given = tuple(tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in task.given)
    return task._replace(model=task.model.to(dtype).train(training), given=given)


def make_writer(name: str, dtype: torch.dtype) -> tuple[nn.Module, Tensor]:
    """Return a model that writes tokens, in evaluation mode, and its prompt."""
    torch.manual_seed(0)
    model = WRITERS[name]().to(dtype).eval()
    return model, torch.randint(model.config.vocab_size, (1, PROMPT))  # type: ignore[union-attr, arg-type]
