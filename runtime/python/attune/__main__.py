"""python -m attune new <name>   writes a project with a variant of its own, which builds
python -m attune prefix       the folder for CMAKE_PREFIX_PATH, where this Python's environment is not active
python -m attune stub <library.so>   prints type stubs of a library of kernels
"""
from __future__ import annotations

import pathlib
import re
import sys
from typing import Callable

from . import Error, load, prefix


def new(name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise Error(f"attune: expected a name of small letters, digits and `_`, got {name}; try my_variant")
    to = pathlib.Path(name)
    if to.exists():
        raise Error(f"attune: expected a folder that is not there yet, got {to}; try another name")
    skeleton = prefix() / "share/attune/00_skeleton"
    texts = {file.name.replace("my_attention", name): file.read_text().replace("my_attention", name) for file in sorted(skeleton.iterdir())}
    to.mkdir()
    for file, text in texts.items():
        (to / file).write_text(text)
        print(to / file)
    print(f"\nBuild it and run it:\n\n    cmake -S {name} -B {name}/build -DCMAKE_PREFIX_PATH={prefix()}\n    cmake --build {name}/build\n    {name}/build/app\n")


def stub(path: str) -> None:
    tensor = "Any"
    library = load(path)
    print("from typing import Any\nfrom attune import Options, Variant\n")
    for name in library:
        described = library[name].describe()
        scalars = {given["name"]: {"i32": "int", "bool": "bool"}.get(given["element"], "float") for given in described["inputs"] if given["scalar"]}
        arguments = []
        for parameter in library[name].__signature__.parameters.values():
            if parameter.kind is parameter.KEYWORD_ONLY and "*" not in arguments:
                arguments.append("*")
            kind = "Options | None" if parameter.name == "options" else scalars.get(parameter.name, tensor)
            arguments.append(f"{parameter.name}: {kind}" + (" = None" if parameter.default is None else ""))
        print(f"class _{name}(Variant):\n    def __call__(self, {', '.join(arguments)}) -> Any: ...  # type: ignore[override]\n\n{name}: _{name}\n")


def main(arguments: list[str]) -> int:
    commands: dict[str, tuple[Callable[..., None], int]] = {"new": (new, 1), "prefix": (lambda: print(prefix()), 0), "stub": (stub, 1)}
    if not arguments or arguments[0] not in commands or len(arguments) != commands[arguments[0]][1] + 1:
        print(__doc__, end="", file=sys.stderr)
        return 2
    try:
        commands[arguments[0]][0](*arguments[1:])
    except Error as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
