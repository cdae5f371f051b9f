"""Adapters in service: take a trained LoRA or ranker in while answering, prove it, split traffic, go back at once.

manifest.py  verify.py  tensors.py   what an adapter is, and what is refused before it is loaded
registry.py  plan.py                 immutable folders, aliases with compare-and-swap, garbage collection
router.py                            leases: which adapter answers this user, with which probability
swap.py      probe.py                verify → limits → load → probe → move → drain → unload
promotion.py                         the one way to promote; gates
watch.py     guard.py    shadow.py   other processes' promotions, automatic rollback, side-by-side comparison
hosts/                               PEFT in process, vLLM over HTTP, static OpenAI-compatible servers
adapter_set.py                       `memory.adapters`
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memkit.adapters.adapter_set import AdapterSet
    from memkit.adapters.guard import GuardPolicy, Outcome
    from memkit.adapters.hosts.base import AdapterArtifact, AdapterHost, HostLimits, LoadedAdapter, ScoringHost
    from memkit.adapters.hosts.static import StaticHost
    from memkit.adapters.hosts.vllm import VLLMHost
    from memkit.adapters.manifest import Manifest, build_adapter
    from memkit.adapters.opening import open_adapters
    from memkit.adapters.probe import Probe, ProbeCase, write_probe
    from memkit.adapters.promotion import promote
    from memkit.adapters.registry import ANY, Registry
    from memkit.adapters.router import Lease, Router
    from memkit.adapters.swap import Swapper
    from memkit.adapters.verify import Serving, inspect

__all__ = [
    "ANY", "AdapterArtifact", "AdapterHost", "AdapterSet", "GuardPolicy", "HostLimits", "Lease", "LoadedAdapter",
    "Manifest", "Outcome", "Probe", "ProbeCase", "Registry", "Router", "ScoringHost", "Serving", "StaticHost",
    "Swapper", "VLLMHost", "build_adapter", "inspect", "open_adapters", "promote", "write_probe",
]  # fmt: skip

_HOMES = {
    "adapter_set": ("AdapterSet",),
    "guard": ("GuardPolicy", "Outcome"),
    "hosts.base": ("AdapterArtifact", "AdapterHost", "HostLimits", "LoadedAdapter", "ScoringHost"),
    "hosts.static": ("StaticHost",),
    "hosts.vllm": ("VLLMHost",),
    "manifest": ("Manifest", "build_adapter"),
    "opening": ("open_adapters",),
    "probe": ("Probe", "ProbeCase", "write_probe"),
    "promotion": ("promote",),
    "registry": ("ANY", "Registry"),
    "router": ("Lease", "Router"),
    "swap": ("Swapper",),
    "verify": ("Serving", "inspect"),
}


def __getattr__(name: str) -> Any:
    """Loaded when asked for: manifests need pydantic, tensors numpy, the vLLM host httpx."""
    import importlib

    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"memkit.adapters.{module}"), name)
    raise AttributeError(f"module 'memkit.adapters' has no attribute {name!r}")
