"""A fault that was mended, put back into a build by Ninja: what it changes is compiled by the commands of the build and linked in front of a program's libraries, so that
neither sources nor build change. A text that is not in its file once is a failure: then the fault has to follow the sources."""
import os
import re
import shlex
import shutil
import subprocess
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support")]
from compile_commands import rows_of  # noqa: E402


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Build:
    def __init__(self, source, folder, ninja="ninja"):
        self.source, self.folder, self.ninja = source, folder, ninja
        self.commands = {}
        self.unities = {}  # of a file that is compiled with others: their source
        for each in rows_of(folder):
            name = os.path.relpath(each["file"], source)
            self.commands.setdefault(name, []).append(shlex.split(each["command"]))
            if "unity" in each:
                self.unities[name] = each["unity"]

    def link_command(self, program):
        """The words by which a program is linked."""
        said = subprocess.run([self.ninja, "-C", self.folder, "-t", "commands", program], capture_output=True, text=True, check=True).stdout.splitlines()
        words = shlex.split(re.sub(r"^: && | && :$", "", said[-1]))
        return words[words.index("&&") + 1:] if words[0] == "cd" else words


class Fault:
    """`changes`: (file, what mends it, what was there without), each in a copy in `work`. A changed header lies in a copy of its include folder."""

    def __init__(self, build, work, changes):
        self.build, self.work, self.sources, self.folders = build, work, {}, {}
        for name, mended, before in changes:
            copy = self.copy_of(name)
            text = read(copy)
            if text.count(mended) != 1:
                sys.exit(f"expected {mended!r} once in {name}, got it {text.count(mended)} times; try what mends the fault today")
            with open(copy, "w", encoding="utf-8") as file:
                file.write(text.replace(mended, before))

    def copy_of(self, name):
        """A file that another one may stand in for alone, or in a copy of the folder that it is found in."""
        found = re.match(r"(.*/include|runtime/python)/", name)
        if not found:
            if name not in self.sources:
                self.sources[name] = os.path.join(self.work, os.path.basename(name))
                shutil.copyfile(os.path.join(self.build.source, name), self.sources[name])
            return self.sources[name]
        folder = os.path.join(self.build.source, found[1])
        if folder not in self.folders:
            self.folders[folder] = os.path.join(self.work, found[1])
            shutil.copytree(folder, self.folders[folder])
        return os.path.join(self.work, name)

    def redirected(self, word):
        """A word of a command, with the copied folders in the place of the sources'."""
        for folder, copy in self.folders.items():
            word = word.replace(folder, copy)
        return word

    def with_neighbours(self, name):
        """The source of a file and those that are compiled with it, of copies where there are some: an archive has one object of all of them."""
        if name not in self.build.unities:
            return None
        text, made = read(self.build.unities[name]), os.path.join(self.work, name.replace("/", "_") + "_and_others.cpp")
        for source, copy in self.sources.items():
            text = text.replace(f'"{os.path.join(self.build.source, source)}"', f'"{copy}"')
        with open(made, "w", encoding="utf-8") as file:
            file.write(text)
        return made

    def compiled(self, name, link):
        """The object of a source, and that of the build which it stands for in a program, if its own."""
        commands = self.build.commands[name]
        command = next((each for each in commands if each[each.index("-o") + 1] in link), commands[-1])
        at = command.index("-o") + 1
        replaced, made = command[at], os.path.join(self.work, name.replace("/", "_") + ".o")
        words = [self.redirected(word) for word in command[:at] + [made] + command[at + 1:]]
        words[words.index("-c") + 1] = self.with_neighbours(name) or self.sources.get(name, os.path.join(self.build.source, name))
        if self.folders:  # headers that were read once for all are those of the build
            words = [word for i, word in enumerate(words) if word not in ("-include", "-Winvalid-pch") and (i == 0 or words[i - 1] != "-include")]
        subprocess.run(words, cwd=self.build.folder, check=True)
        return made, replaced

    def program(self, name, also=()):
        """A program with the fault, for which the sources `also`, which include what changed, are compiled anew."""
        words = self.build.link_command(name)
        at = words.index("-o") + 1
        words[at] = os.path.join(self.work, name)
        in_front = []
        for source in [*self.sources, *also]:
            if not source.endswith(".cpp"):
                continue
            made, replaced = self.compiled(source, words)
            if replaced in words:
                words[words.index(replaced)] = made
            else:
                in_front.append(made)
        subprocess.run(words[:at + 1] + in_front + words[at + 1:], cwd=self.build.folder, check=True)
        return words[at]
