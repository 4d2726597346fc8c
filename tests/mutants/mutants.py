"""Part of a copy of attune's Python whose checks rewrite_python.py has written anew, as mutants.hpp is of the runtime's."""
import atexit
import os

_living = int(os.environ.get("ATTUNE_MUTANT", "-1"))
_reached: set[int] = set()


class Other(BaseException):
    """What a refusal that stands alone becomes: an exception that nobody expects."""


def lives(number: int) -> bool:
    _reached.add(number)
    return number == _living


def _note() -> None:
    if path := os.environ.get("ATTUNE_MUTANTS_REACHED"):
        with open(path, "a") as file:
            file.writelines(f"{number}\n" for number in sorted(_reached))


atexit.register(_note)
