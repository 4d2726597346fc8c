"""Calls that are made many times."""
from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING, Any

from . import _c

if TYPE_CHECKING:
    from .library import Variant, _Frame


class Prepared:
    """What `Variant.prepare` returns. Threads may share it, each with tensors of its own in place of some."""

    def __init__(self, variant: Variant, frame: _Frame, count: int, how: _c.OptionsStruct | None, outputs: dict[str, Any], alive: list[Any]) -> None:
        interface = variant._interface
        if not interface.run_prepared:
            raise _c.Error("attune: expected a library of an attune that has attune_prepare, got one of an older attune; try building it again")
        call = ctypes.c_void_p()
        interface.check(interface.library.attune_prepare(variant._address, frame.at[0], count, ctypes.addressof(how) if how else None, ctypes.byref(call)))
        self._variant, self._call, self._outputs, self._alive = variant, call, outputs, alive
        weakref.finalize(self, interface.library.attune_free_call, call)

    def __call__(self, **others: Any) -> Any:
        variant = self._variant
        if others:
            frame = variant._frames.pop() if variant._frames else variant._frame()
            alive, count = variant._views(frame, others) or variant._fill(frame, others)
            variant._interface.check(variant._interface.run_prepared(self._call, frame.at[0], count))
            variant._frames.append(frame)
        else:
            variant._interface.check(variant._interface.run_prepared(self._call, None, 0))
        outputs = [made if others.get(name) is None else others[name] for name, made in self._outputs.items()]
        return outputs[0] if variant._returned is None else variant._returned(*outputs)
